"""Statistics never lie: whatever a column holds, its bounds take every value in, or are unknown."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.data.parquet import file_facts
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.segments import MAX_EXACT, MIN_EXACT
from lakelog.catalog.format.statistics import (
    _raw_bound,
    bound_type,
    decode_bounds,
    encode_bound,
)
from statistics_cases import facts, facts_of, file_row, keys, of_files, statistic_name


def integers(bits, signed=True):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.sampled_from([low, low + 1, 0, high - 1, high]), st.integers(low, high))


def decimals(precision, scale):
    top = 10**precision - 1
    unscaled = st.one_of(st.sampled_from([-top, -1, 0, 1, top]), st.integers(-top, top))
    with decimal.localcontext(prec=80):
        return unscaled.map(lambda value: exact_decimal(value, scale))


def exact_decimal(unscaled, scale):
    digits = tuple(int(char) for char in str(abs(unscaled)))
    return decimal.Decimal((int(unscaled < 0), digits, -scale))


FLOATS = st.one_of(
    st.floats(), st.sampled_from([-0.0, 0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324])
)

FLOATS32 = st.one_of(st.floats(width=32), st.sampled_from([-0.0, 0.0, math.nan, math.inf]))

TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["a", "z", "ü", "🦆", "\U0010ffff", "\ud7ff", "\ue000", "\x00", "é"]).flatmap(
        lambda char: st.integers(1, 80).map(lambda count: char * count)
    ),
    st.integers(60, 70).map(lambda count: "a" * count + "\U0010ffff" * 3),
)

BYTES = st.one_of(
    st.binary(max_size=6),
    st.integers(60, 70).map(lambda count: b"\xff" * count),
    st.integers(60, 70).map(lambda count: b"a" * count + b"\xff\x00"),
)

COLUMNS = {
    "bool": (pa.bool_(), st.booleans()),
    **{f"int{bits}": (getattr(pa, f"int{bits}")(), integers(bits)) for bits in (8, 16, 32, 64)},
    **{
        f"uint{bits}": (getattr(pa, f"uint{bits}")(), integers(bits, signed=False))
        for bits in (8, 16, 32, 64)
    },
    "float16": (pa.float16(), st.floats(width=16)),
    "float32": (pa.float32(), FLOATS32),
    "float64": (pa.float64(), FLOATS),
    "string": (pa.string(), TEXT),
    "large_string": (pa.large_string(), TEXT),
    "binary": (pa.binary(), BYTES),
    "large_binary": (pa.large_binary(), BYTES),
    "fixed binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "decimal 9": (pa.decimal128(9, 2), decimals(9, 2)),
    "decimal 18": (pa.decimal128(18, 0), decimals(18, 0)),
    "decimal 38": (pa.decimal128(38, 10), decimals(38, 10)),
    "decimal256": (pa.decimal256(60, 4), decimals(60, 4)),
    "date32": (pa.date32(), integers(32)),
    "date64": (pa.date64(), st.integers(-(10**6), 10**6).map(lambda day: day * 86_400_000)),
    "time32 s": (pa.time32("s"), st.integers(0, 86_399)),
    "time32 ms": (pa.time32("ms"), st.integers(0, 86_399_999)),
    "time64 us": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "time64 ns": (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    "duration": (pa.duration("us"), integers(64)),
    "null": (pa.null(), st.none()),
    "list": (pa.list_(pa.int32()), st.lists(integers(32), max_size=3)),
    "struct": (pa.struct([("x", pa.int32())]), st.fixed_dictionaries({"x": integers(32)})),
    **{
        f"timestamp {unit} {zone}": (
            pa.timestamp(unit, zone),
            integers(64) if unit != "s" else st.integers(-(2**53), 2**53),
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+05:30")
    },
}

KNOWN = [name for name, (kind, _) in COLUMNS.items() if bound_type(kind) is not None]


def array(name, values):
    kind, _ = COLUMNS[name]
    types = pa.types
    if types.is_temporal(kind):
        integer = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, integer).cast(kind)
    return pa.array(values, kind)


def check_bounds(row, name, column):
    kind = bound_type(COLUMNS[name][0])
    if kind is None:
        assert not any(key.startswith(("min:", "max:")) for key in row)
        return False
    low = keys(row.get(statistic_name("min", "c", kind), pa.nulls(1, kind)))
    high = keys(row.get(statistic_name("max", "c", kind), pa.nulls(1, kind)))
    exact_column = row.get(statistic_name("exact", "c", kind))
    exact = (exact_column[0].as_py() or 0) if exact_column is not None else 0
    values = keys(column)
    for value in values:
        assert not low or low[0] <= value, (low, value)
        assert not high or value <= high[0], (value, high)
    if low and exact & MIN_EXACT:
        assert values, "an exact bound of no value"
        assert min(values) == low[0]
    if high and exact & MAX_EXACT:
        assert max(values) == high[0]
    nulls = row.get("nulls::c")
    if nulls is not None and nulls[0].as_py() is not None:
        assert nulls[0].as_py() == column.null_count
    return bool(low and high)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.hypothesis
def test_bounds_contain_every_value(name):
    @given(st.lists(st.one_of(COLUMNS[name][1], st.none()), max_size=12))
    def check(values):
        column = array(name, values)
        table = pa.table({"c": column})
        add = facts_of(table)
        check_bounds(file_row(add, table.schema), name, column)
        found = of_files([add], table.schema)
        assert found.row_groups.num_rows in (0, len(add.row_groups))
        start = 0
        for number, size in enumerate(found.row_groups.column("row_count").to_pylist()):
            here = pc.equal(found.groups.column("row_group"), number)
            one = facts(found.groups.filter(here), table.schema)
            check_bounds(one, name, column.slice(start, size))
            start += size

    check()


@pytest.mark.parametrize("name", KNOWN)
def test_bounds_are_known_where_they_can_be(name):
    """The other half: "unknown" is no way out for ordinary values."""
    samples = {
        "bool": [False, True],
        "string": ["b", "a"],
        "large_string": ["b", "a"],
        "dictionary": ["b", "a"],
        "binary": [b"b", b"a"],
        "large_binary": [b"b", b"a"],
        "decimal 9": [decimal.Decimal("-1.25"), decimal.Decimal("7.00")],
        "decimal 18": [decimal.Decimal(-1), decimal.Decimal(7)],
        "decimal 38": [decimal.Decimal("-1.25"), decimal.Decimal("7.0")],
    }
    column = array(name, [None, *samples.get(name, [3, 1])])
    table = pa.table({"c": column})
    assert check_bounds(file_row(facts_of(table), table.schema), name, column)


@pytest.mark.parametrize(
    "options",
    [
        {"write_statistics": False},
        {"version": "1.0"},
        {"version": "2.4"},
        {"store_decimal_as_integer": True},
        {"use_deprecated_int96_timestamps": True},
        {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
        {"store_schema": False},
        {"use_dictionary": False, "data_page_version": "2.0"},
    ],
    ids=str,
)
def test_bounds_hold_whatever_the_file_was_written_with(options):
    columns = {
        "timestamp ns None": [-1_000, 10**18 + 1_000, None],
        "timestamp s UTC": [-1, 5, None],
        "timestamp us Europe/Berlin": [-1, 1_700_000_000_123_456, None],
        "time32 s": [0, 86_399, None],
        "decimal 9": [decimal.Decimal("-9999999.99"), decimal.Decimal("0.01"), None],
        "uint32": [0, 2**32 - 1, None],
        "uint64": [1, 2**64 - 1, None],
        "string": ["é" * 50, "a", None],
    }
    for name, values in columns.items():
        column = array(name, values)
        table = pa.table({"c": column})
        row = file_row(facts_of(table, **options), table.schema)
        if "coerce_timestamps" in options and name.startswith("timestamp"):
            continue  # the file holds other values than the table
        check_bounds(row, name, column)


def test_truncation_of_timestamps_by_the_writer_is_seen_in_the_bounds():
    """A file that says timestamp[ns] in its Arrow schema and holds milliseconds."""
    stamps = pa.array([-1_500_001, 2_500_001], pa.int64()).cast(pa.timestamp("ns"))
    table = pa.table({"c": stamps})
    add = facts_of(table, coerce_timestamps="ms", allow_truncated_timestamps=True)
    row = file_row(add, table.schema)
    assert keys(row["min:timestamp[ns]:c"])[0] % 1_000_000 == 0
    assert keys(row["max:timestamp[ns]:c"])[0] % 1_000_000 == 0


def test_a_bound_between_two_values_of_the_type_is_unknown():
    """A foreign file that says seconds in its Arrow schema and holds milliseconds."""
    for zone in (None, "UTC"):
        stamps = pa.array([-1_500, 2_000], pa.int64()).cast(pa.timestamp("ms", zone))
        sink, collected = pa.BufferOutputStream(), []
        pq.write_table(pa.table({"c": stamps}), sink, metadata_collector=collected)
        schema = pa.schema([("c", pa.timestamp("s", zone))])
        fingerprint = encode_schema(schema).fingerprint
        row = file_row(file_facts(collected[0], schema, 100, fingerprint=fingerprint), schema)
        kind = bound_type(schema.field("c").type)
        assert row[statistic_name("min", "c", kind)].to_pylist() == [None]
        assert keys(row[statistic_name("max", "c", kind)]) == [2]


@pytest.mark.parametrize("values", [["b", "a", "c"], ["x", None, None, "b", "", ""], [None, ""]])
@pytest.mark.parametrize("store_schema", [True, False])
def test_bounds_of_a_dictionary_are_no_values_of_the_column(values, store_schema):
    """Arrow takes them over the whole dictionary, also over what a row group doesn't use."""
    column = pa.array(values, pa.dictionary(pa.int32(), pa.string()))
    table = pa.table({"c": column})
    add = facts_of(table, store_schema=store_schema)
    for schema in (table.schema, pa.schema([("c", pa.string())])):
        if schema == table.schema or not store_schema:
            check_bounds(file_row(add, schema), "dictionary", column)


def test_ordinary_bounds_are_known_to_be_exact():
    table = pa.table({"n": [1, 5], "s": ["a", "b"]})
    row = file_row(facts_of(table), table.schema)
    assert row["exact:int64:n"].to_pylist() == [MIN_EXACT | MAX_EXACT]
    assert row["exact:string:s"].to_pylist() == [MIN_EXACT | MAX_EXACT]


def test_a_foreign_zero_is_widened_to_both():
    """Not every writer puts -0.0 for the minimum and 0.0 for the maximum, as it should."""
    found = SimpleNamespace(min_raw=0.0, max_raw=-0.0)
    low = _raw_bound(found, "min", None, pa.float64())
    high = _raw_bound(found, "max", None, pa.float64())
    assert (low, high) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))


# --- The byte form --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in KNOWN if n not in ("dictionary", "float32")])
@pytest.mark.hypothesis
def test_bounds_round_trip_in_their_byte_form(name):
    kind = bound_type(COLUMNS[name][0])

    @given(st.lists(st.one_of(COLUMNS[name][1], st.none()), max_size=5))
    def check(values):
        raw = []
        for value in values:
            if isinstance(value, decimal.Decimal):
                sign, digits, _ = value.as_tuple()
                value = (-1 if sign else 1) * int("".join(map(str, digits)))
            elif isinstance(value, str):
                value = value.encode()
            raw.append(None if value is None else encode_bound(value, kind))
        found = decode_bounds(raw, kind)
        assert found.type.equals(kind)
        found.validate(full=True)
        values = [None if value != value else value for value in values]  # NaN is no bound
        assert found.equals(array(name, values).cast(kind))

    check()


@pytest.mark.parametrize("name", KNOWN)
def test_a_byte_form_of_the_wrong_length_is_unknown(name):
    kind = bound_type(COLUMNS[name][0])
    if pa.types.is_binary(kind):
        return
    bad = [b"\xff\xfe\xfd", b"\xff" * 33] if pa.types.is_string(kind) else [b"", b"123", b"x" * 33]
    assert decode_bounds(bad, kind).null_count == len(bad)


def test_a_32_bit_bound_that_holds_more_is_unknown_and_no_error():
    for kind in (pa.date32(), pa.time32("s"), pa.time32("ms")):
        assert decode_bounds([struct.pack("<q", 2**40), None], kind).to_pylist() == [None, None]


def test_every_type_of_one_family_shares_a_bound_type():
    assert {str(bound_type(pa.int8())), str(bound_type(pa.int64()))} == {"int64"}
    assert bound_type(pa.timestamp("us", "Asia/Tokyo")) == pa.timestamp("us", "UTC")
    assert bound_type(pa.timestamp("us")) != bound_type(pa.timestamp("us", "UTC"))
    unbound = [pa.float16(), pa.binary(4), pa.decimal256(50, 1), pa.duration("s"), pa.null()]
    assert [bound_type(kind) for kind in unbound] == [None] * len(unbound)


def test_a_file_of_dates_before_1970():
    column = pa.array([dt.date(1, 1, 1), dt.date(1969, 12, 31)])
    table = pa.table({"c": column})
    row = file_row(facts_of(table), table.schema)
    assert row["min:date32[day]:c"].to_pylist() == [dt.date(1, 1, 1)]
    assert row["max:date32[day]:c"].to_pylist() == [dt.date(1969, 12, 31)]
