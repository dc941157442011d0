"""Keys of bounds: in the order of the values for every bound type, and back again."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.statistics import (
    MAX_KEPT_BYTES,
    byte_forms,
    decode_bounds,
    encode_bound,
    key_function,
)

INT64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
)
DECIMAL = st.one_of(
    st.integers(1 - 10**38, 10**38 - 1),
    st.integers(-(2**63) - 2, -(2**63) + 2),
    st.integers(2**63 - 3, 2**63 + 2),
    st.integers(-9, 9),
)
BYTES = st.binary(max_size=20).flatmap(
    lambda head: st.integers(0, 9).map(lambda zeros: head + b"\0" * zeros)
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(str.encode)
DAYS = st.integers(-(2**31), 2**31 - 1)
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
# Per bound type: values as `encode_bound` takes them. Their own order is that of the bound type.
KINDS = {
    "bool": (pa.bool_(), st.booleans()),
    "int64": (pa.int64(), INT64),
    "uint64": (pa.uint64(), st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 2**63]))),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "string": (pa.string(), TEXT),
    "binary": (pa.binary(), BYTES),
    "decimal": (pa.decimal128(38, 2), DECIMAL),
    "decimal of negative scale": (pa.decimal128(38, -3), DECIMAL),
    "date32": (pa.date32(), DAYS),
    **{
        f"time {unit}": (
            pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit),
            st.integers(0, PER_DAY[unit] - 1),
        )
        for unit in PER_DAY
    },
    **{
        f"timestamp {unit} {zone}": (pa.timestamp(unit, zone), INT64)
        for unit in PER_DAY
        for zone in (None, "UTC")
    },
}
EACH_KIND = pytest.mark.parametrize("name", KINDS)


def keyed(name, value):
    kind = KINDS[name][0]
    return key_function(kind)(encode_bound(value, kind))


def back(key, whole, kind):
    return byte_forms(pa.array([key], pa.int64()), pa.array([whole], pa.binary()), kind)[0]


@EACH_KIND
@pytest.mark.hypothesis
def test_keys_have_the_order_of_the_values(name):
    @given(KINDS[name][1], KINDS[name][1])
    def check(left, right):
        (low, low_whole), (high, high_whole) = keyed(name, left), keyed(name, right)
        assert -(2**63) <= low < 2**63
        if left < right:
            assert low <= high
            zeros = left == right == 0
            if low_whole is None and high_whole is None and not zeros:
                assert low < high, "both are given back by their keys, so equal keys are equal"
        if low > high:
            assert left > right or (left == right == 0)  # -0.0 and 0.0

    check()


@EACH_KIND
@pytest.mark.hypothesis
def test_the_bound_comes_back(name):
    kind = KINDS[name][0]

    @given(KINDS[name][1])
    def check(value):
        key, whole = keyed(name, value)
        raw = encode_bound(value, kind)
        assert back(key, whole, kind) == raw
        assert decode_bounds([back(key, whole, kind)], kind).null_count == 0
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            assert (whole is None) == (len(raw) <= 8 and not raw.endswith(b"\0"))
        elif pa.types.is_decimal(kind):
            assert (whole is None) == (-(2**63) <= value < 2**63)
        else:
            assert whole is None

    check()


@EACH_KIND
@pytest.mark.hypothesis
def test_any_key_is_a_bound_or_unknown_and_no_error(name):
    """A hostile segment may hold any key, alone or beside any bytes."""
    kind = KINDS[name][0]

    @given(INT64, st.one_of(st.none(), BYTES))
    def check(key, whole):
        found = back(key, whole, kind)
        if found is not None:
            assert decode_bounds([found], kind).null_count == 0
            assert key_function(kind)(found)[0] == key

    check()


@EACH_KIND
def test_a_null_key_is_unknown_whatever_stands_beside_it(name):
    assert back(None, None, KINDS[name][0]) is None
    assert back(None, b"abc", KINDS[name][0]) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.bool_(), b"\x02"),
        (pa.bool_(), b""),
        (pa.int64(), b"1234567"),
        (pa.uint64(), b"123456789"),
        (pa.float64(), struct.pack("<d", math.nan)),
        (pa.float64(), struct.pack("<Q", 0xFFF8000000000001)),
        (pa.string(), b"\xff"),
        (pa.string(), b"x" * (MAX_KEPT_BYTES + 1)),
        (pa.decimal128(38, 0), (10**38).to_bytes(16, "little", signed=True)),
        (pa.decimal128(38, 0), bytes(8)),
        (pa.date32(), struct.pack("<q", 2**31)),
        (pa.time32("s"), struct.pack("<q", 86_400)),
        (pa.time64("us"), struct.pack("<q", -1)),
    ],
    ids=str,
)
def test_what_is_no_value_of_the_type_has_no_key(kind, value):
    assert key_function(kind)(value) is None


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (pa.bool_(), 2),
        (pa.bool_(), -1),
        (pa.float64(), 0x7FF0_0000_0000_0001),
        (pa.float64(), -(2**63)),
        (pa.string(), -1),  # 0x7fff...: no UTF-8
        (pa.date32(), 2**31),
        (pa.time32("ms"), 86_400_000),
        (pa.time64("ns"), -1),
    ],
    ids=str,
)
def test_a_key_of_no_value_is_unknown(kind, key):
    assert back(key, None, kind) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.string(), b"hamburg-altona"), (pa.decimal128(38, 0), 10**30)],
    ids=["string", "decimal"],
)
def test_whole_bytes_that_contradict_their_key_are_unknown(kind, value):
    raw = value if isinstance(value, bytes) else encode_bound(value, kind)
    key, whole = key_function(kind)(raw)
    assert back(key, whole, kind) == raw
    assert back(key - 1, whole, kind) is None
    assert back(key, whole[:-1] if len(whole) == 16 else b"x" + whole, kind) is None


def test_infinities_and_the_smallest_numbers_are_in_order():
    values = [-math.inf, -1e308, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, math.inf]
    keys = [keyed("double", value)[0] for value in values]
    assert keys == sorted(set(keys))


# --- The table of the text ------------------------------------------------------------------------

EXAMPLES = {
    "int32, -5": (pa.int64(), -5),
    "uint64, 7": (pa.uint64(), 7),
    "uint64, 9223372036854775808 (2^63)": (pa.uint64(), 2**63),
    "double, 1.5": (pa.float64(), 1.5),
    "double, -1.5": (pa.float64(), -1.5),
    "double, min of zeros (-0.0)": (pa.float64(), -0.0),
    "double, max of zeros (0.0)": (pa.float64(), 0.0),
    "bool, true": (pa.bool_(), True),
    "timestamp[us], 2023-11-14T22:13:20": (pa.timestamp("us"), 1_700_000_000_000_000),
    "string, `` (empty)": (pa.string(), b""),
    "string, `abc`": (pa.string(), b"abc"),
    "string, `Zürich` (7 bytes)": (pa.string(), "Zürich".encode()),
    "string, `hamburg-altona` (14 bytes)": (pa.string(), b"hamburg-altona"),
    "binary, 0x6100": (pa.binary(), b"a\0"),
    "decimal128(10, 2), -12.34": (pa.decimal128(38, 2), int(Decimal("-12.34").scaleb(2))),
    "decimal128(38, 2), 10^20 (unscaled 10^22)": (pa.decimal128(38, 2), 10**22),
    "decimal128(38, 2), -10^20": (pa.decimal128(38, 2), -(10**22)),
}


def test_the_examples_of_the_text_are_what_the_code_does():
    text = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    table = text[text.index("| column and bound | `min` or `max` |") :].split("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        what, key, whole = re.fullmatch(r"\| (.*?) \| (-?\d+) \| (.*?) ?\|", line).groups()
        found[what] = (int(key), bytes.fromhex(whole.strip("`")) or None)
    assert found == {
        what: key_function(kind)(encode_bound(value, kind))
        for what, (kind, value) in EXAMPLES.items()
    }
