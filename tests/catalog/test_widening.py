"""Which types unite, and that no value is lost on the way."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.data.unify import conform
from lakelog.catalog.format.schema import common_type, widen
from schema_types import TYPES

PAIRS = list(itertools.combinations_with_replacement(TYPES, 2))


def unordered(kind):
    """A type with the fields of its structs sorted: their order is that of the first one seen."""
    if kind is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct(
            [(f.name, unordered(f.type)) for f in sorted(fields, key=lambda f: f.name)]
        )
    if pa.types.is_list(kind):
        return pa.list_(unordered(kind.value_type))
    return kind


def test_widening_is_commutative():
    for left, right in PAIRS:
        assert unordered(widen(left, right)) == unordered(widen(right, left)), (left, right)


def test_widening_to_itself_changes_nothing():
    for kind in TYPES:
        assert widen(kind, kind) == kind


def test_what_is_wider_than_both_stays_so():
    """Widening again with either side changes nothing: the result doesn't depend on repeats."""
    for left, right in PAIRS:
        both = widen(left, right)
        if both is not None:
            assert widen(both, left) == both, (left, right)
            assert widen(both, right) == both, (left, right)


def test_types_unite_in_any_order_if_each_two_do():
    """So a table that can be read can be read without some of its files, too."""
    pairs = {(a, b): widen(a, b) is not None for a, b in itertools.product(TYPES, repeat=2)}
    for kinds in itertools.combinations(TYPES, 3):
        found = {unordered(common_type(order)) for order in itertools.permutations(kinds)}
        assert len(found) == 1, (kinds, found)
        assert (None not in found) == all(map(pairs.get, itertools.combinations(kinds, 2))), kinds
        for kind in kinds if None not in found else ():
            both = found.copy().pop()
            assert unordered(widen(both, kind)) == both, (kinds, both)


@given(st.permutations(TYPES), st.integers(4, 7))
def test_many_types_unite_in_any_order_if_each_two_do(kinds, count):
    chosen: list[pa.DataType] = []  # drawn so that many unite
    for kind in kinds:
        if len(chosen) < count and all(widen(kind, other) is not None for other in chosen):
            chosen.append(kind)
    found = {
        unordered(common_type(order)) for order in (chosen, chosen[::-1], sorted(chosen, key=str))
    }
    assert len(found) == 1
    assert None not in found


@pytest.mark.parametrize(
    ("kinds", "common"),
    [
        ((pa.decimal128(5, 2), pa.uint64(), pa.int8()), None),
        ((pa.decimal128(5, 2), pa.uint16(), pa.int16()), pa.decimal128(7, 2)),
        ((pa.uint16(), pa.int16(), pa.float32()), pa.float32()),
        ((pa.uint32(), pa.int8(), pa.float64()), pa.float64()),
        ((pa.float16(), pa.int8(), pa.int8()), pa.float32()),
        ((pa.float16(), pa.float32(), pa.int32()), pa.float64()),
        ((pa.null(), pa.null()), pa.null()),
        ((pa.date32(), pa.timestamp("s"), pa.timestamp("ms")), pa.timestamp("ms")),
        (
            (pa.list_(pa.uint32()), pa.list_(pa.int8()), pa.list_(pa.float64())),
            pa.list_(pa.float64()),
        ),
    ],
)
def test_types_that_unite_at_once(kinds, common):
    for order in itertools.permutations(kinds):
        assert common_type(order) == common


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint16(), pa.int64(), pa.int64()),
        (pa.uint32(), pa.int8(), pa.int64()),
        (pa.int16(), pa.float32(), pa.float32()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.uint32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(5, 4), pa.decimal128(7, 4)),
        (pa.decimal128(5, 2), pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(38, 10), pa.int64(), pa.decimal128(38, 10)),
        (pa.decimal128(38, 30), pa.int64(), pa.decimal256(49, 30)),
        (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("s", "UTC"), pa.timestamp("s", "Asia/Tokyo"), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.timestamp("ms"), pa.timestamp("ms")),
        (pa.time32("s"), pa.time64("us"), pa.time64("us")),
        (pa.null(), pa.string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string()),
        (pa.list_(pa.int8()), pa.large_list(pa.int16()), pa.list_(pa.int16())),
    ],
)
def test_types_that_unite(left, right, both):
    assert widen(left, right) == both


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.float64()),
        (pa.uint64(), pa.int64()),
        (pa.uint64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.string(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.timestamp("s"), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.int32()),
        (pa.time32("s"), pa.timestamp("s")),
        (pa.decimal128(9, 2), pa.float64()),
        (pa.decimal256(76, 70), pa.decimal128(38, 0)),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.string())])),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    ],
)
def test_types_that_do_not_unite(left, right):
    assert widen(left, right) is None
    assert widen(right, left) is None


def test_a_struct_with_one_name_twice_unites_with_nothing_else():
    twice = pa.struct([pa.field("x", pa.int8()), pa.field("x", pa.string())])
    assert widen(twice, pa.struct([("x", pa.int8())])) is None
    assert widen(pa.struct([("y", pa.int8())]), twice) is None
    assert widen(twice, twice) == twice


# --- No value is lost -----------------------------------------------------------------------------


def some_value(draw, kind):
    """A random value of a type as pyarrow takes it, or None."""
    types = pa.types
    if types.is_null(kind) or draw(st.integers(0, 5)) == 0:
        return None
    if types.is_dictionary(kind):
        return some_value(draw, kind.value_type)
    if types.is_boolean(kind):
        return draw(st.booleans())
    if types.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if types.is_signed_integer(kind) else 0
        return draw(st.one_of(st.sampled_from([low, 0, low + 2**kind.bit_width - 1]),
                              st.integers(low, low + 2**kind.bit_width - 1)))  # fmt: skip
    if types.is_floating(kind):
        return draw(st.floats(width=kind.bit_width, allow_nan=False))
    if types.is_decimal(kind):
        top = 10**kind.precision - 1
        unscaled = draw(st.one_of(st.sampled_from([top, -top]), st.integers(-top, top)))
        digits = tuple(int(char) for char in str(abs(unscaled)))
        return decimal.Decimal((int(unscaled < 0), digits, -kind.scale))
    if types.is_date(kind):
        return dt.date(1970, 1, 1) + dt.timedelta(days=draw(st.integers(-20_000, 20_000)))
    if types.is_time(kind):
        return dt.time(draw(st.integers(0, 23)), draw(st.integers(0, 59)), 7)
    if types.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(
            seconds=draw(st.integers(-9 * 10**9, 9 * 10**9))
        )
    if types.is_duration(kind):
        return dt.timedelta(seconds=draw(st.integers(-(10**9), 10**9)))
    if types.is_string(kind) or types.is_large_string(kind):
        return draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=4))
    if types.is_fixed_size_binary(kind):
        return draw(st.binary(min_size=kind.byte_width, max_size=kind.byte_width))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return draw(st.binary(max_size=4))
    if types.is_map(kind):
        return [("k", some_value(draw, kind.item_type))]
    if types.is_list(kind) or types.is_large_list(kind):
        return [some_value(draw, kind.value_type) for _ in range(draw(st.integers(0, 2)))]
    assert types.is_struct(kind), kind
    return {
        kind.field(i).name: some_value(draw, kind.field(i).type) for i in range(kind.num_fields)
    }


def same(before, after):
    """Whether a value is unchanged; a struct may have gained fields that are null."""
    if before is None or after is None:
        return before is after
    if isinstance(before, dict):
        return (
            all(
                same(before[key], after[key]) if key in before else after[key] is None
                for key in after
            )
            and before.keys() <= after.keys()
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same, before, after))
    if type(before) is dt.date and isinstance(after, dt.datetime):
        return after == dt.datetime(before.year, before.month, before.day)
    if isinstance(before, float):
        return before == after and math.copysign(1, before) == math.copysign(1, after)
    return before == after


@pytest.mark.parametrize("left", TYPES, ids=str)
@pytest.mark.hypothesis
def test_no_value_is_lost_by_widening(left):
    targets = [kind for kind in (widen(left, right) for right in TYPES) if kind is not None]
    assert targets

    @given(st.data())
    def check(data):
        both = data.draw(st.sampled_from(targets))
        values = [some_value(data.draw, left) for _ in range(3)]
        column = pa.array(values, left)
        before = column.to_pylist()
        batch = pa.RecordBatch.from_arrays([column], names=["c"])
        after = conform(batch, pa.schema([pa.field("c", both)]))
        assert after.schema.field("c").type == both
        after.validate(full=True)
        assert all(map(same, before, after.column(0).to_pylist())), (before, after.to_pylist())

    check()
