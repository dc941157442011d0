"""Bloom filters: what is read of them never loses a row, for each way in which Parquet stores a
value; and they skip what bounds can't."""

from __future__ import annotations

import io
import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakelog.catalog.read.blooms import bloom_hashes, decode_bloom_filter, may_hold
from lakelog.catalog.where.emit import mask
from lakelog.catalog.where.outcomes import equalities, plain_forms
from lakelog.catalog.where.parse import parse_where
from lakes import literal

EPOCH = datetime(1970, 1, 1)
US = st.integers(-(10**15), 10**15)
MOMENTS = st.builds(lambda us: EPOCH + timedelta(microseconds=us), US)
INSTANTS = MOMENTS.map(lambda at: at.replace(tzinfo=UTC))
SECONDS = st.integers(-(10**9), 10**9).map(lambda s: EPOCH + timedelta(seconds=s))
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, 1e-40]),
    st.floats(width=32),
)
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=9)


def ints(bits):
    return st.one_of(st.integers(-(1 << bits), (1 << bits) - 1), st.integers(-3, 3))


def decimals(digits, scale):
    greatest = 10**digits - 1
    return st.integers(-greatest, greatest).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


# How a column is written: Arrow's type, values, what the writer is told.
AS_INTEGER = {"store_decimal_as_integer": True}
KINDS = [
    (pa.int8(), ints(7), {}),
    (pa.int16(), ints(15), {}),
    (pa.int32(), ints(31), {}),
    (pa.int64(), ints(63), {}),
    (pa.uint16(), st.integers(0, 2**16 - 1), {}),
    (pa.uint64(), st.integers(0, 2**64 - 1), {}),
    (pa.float32(), FLOATS, {}),
    (pa.float64(), FLOATS, {}),
    (pa.string(), TEXTS, {}),
    (pa.large_string(), TEXTS, {}),
    (pa.string_view(), TEXTS, {}),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS, {}),
    (pa.string(), TEXTS, {"use_dictionary": False}),
    (pa.binary(), st.binary(max_size=9), {}),
    (pa.binary(3), st.binary(min_size=3, max_size=3), {}),
    (pa.decimal128(7, 2), decimals(7, 2), {}),
    (pa.decimal128(7, 2), decimals(7, 2), AS_INTEGER),
    (pa.decimal128(15, 4), decimals(15, 4), AS_INTEGER),
    (pa.decimal128(38, 10), decimals(38, 10), {}),
    (pa.decimal256(60, 5), decimals(60, 5), {}),
    (pa.date32(), st.dates(date(1800, 1, 1), date(2200, 1, 1)), {}),
    (pa.time32("s"), st.times().map(lambda t: t.replace(microsecond=0)), {}),
    (pa.time32("ms"), st.times().map(lambda t: t.replace(microsecond=7000)), {}),
    (pa.time64("us"), st.times(), {}),
    (pa.time64("ns"), st.times(), {}),
    (pa.timestamp("s"), SECONDS, {}),
    (pa.timestamp("ms"), SECONDS, {}),
    (pa.timestamp("us"), MOMENTS, {}),
    (pa.timestamp("ns"), MOMENTS, {}),
    (pa.timestamp("us"), SECONDS, {"coerce_timestamps": "ms"}),
    (pa.timestamp("ns"), SECONDS, {"version": "1.0"}),
    (pa.timestamp("us", "UTC"), INSTANTS, {}),
    (pa.timestamp("ms", "Europe/Oslo"), SECONDS.map(lambda at: at.replace(tzinfo=UTC)), {}),
]
NONE = (pa.uint16(), pa.uint64())  # no filter is asked for these


def as_literal(value):
    if isinstance(value, time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, float) and math.isfinite(value):
        return format(Decimal(value), "f") + "e0"
    return literal(value)


def sql(values, name="c"):
    """`= a` or `IN (a, b)`; NaN can't be said."""
    said = [as_literal(value) for value in values if value == value]
    if not said:
        return None
    return f"{name} = {said[0]}" if len(said) == 1 else f"{name} IN ({', '.join(said)})"


def with_bloom(column, **options):
    """A column as a file, and its filter's bytes."""
    sink = io.BytesIO()
    filters = {"c": {"ndv": max(1, len(column)), "fpp": 0.001}}
    pq.write_table(pa.table({"c": column}), sink, bloom_filter_options=filters, **options)
    chunk = pq.read_metadata(sink).row_group(0).column(0)
    start = chunk.bloom_filter_offset
    return sink.getvalue(), sink.getvalue()[start : start + chunk.bloom_filter_length]


def asked(data, text, own, wide=None):
    """Whether a filter may hold what a condition asks for; None: it can't be asked."""
    predicate = parse_where(text, pa.schema([("c", wide or own)]), "t")
    answers = []
    for part in equalities(predicate):
        forms = plain_forms(part, own)
        if forms is not None:
            answers.append(may_hold(decode_bloom_filter(data), bloom_hashes(forms)))
    return all(answers) if answers else None


# --- What is in a filter is found -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]} {' '.join(kind[2])}")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_there_is_found(kind, data):
    own, values, options = kind
    there = data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6))
    column = pa.array(there, own)
    _, filter_ = with_bloom(column, **options)
    for value in there:
        if value is None or value != value:
            continue
        others = data.draw(st.lists(values, max_size=2))
        found = asked(filter_, sql([value, *others]), own)
        assert found is None if own in NONE else found in (True, None)
        if own not in NONE and value == value:
            assert asked(filter_, sql([value]), own) is True


WIDER = [
    (pa.int8(), pa.int64(), ints(7)),
    (pa.int32(), pa.float64(), ints(31)),
    (pa.int16(), pa.float32(), ints(15)),
    (pa.int32(), pa.decimal128(20, 2), ints(31)),
    (pa.float32(), pa.float64(), FLOATS),
    (pa.decimal128(7, 2), pa.decimal128(20, 5), decimals(7, 2)),
    (pa.decimal128(38, 2), pa.decimal256(60, 5), decimals(38, 2)),
    (pa.timestamp("s"), pa.timestamp("ns"), SECONDS),
    (pa.timestamp("ms"), pa.timestamp("us"), SECONDS),
    (pa.timestamp("us"), pa.timestamp("ns"), MOMENTS),
    (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Oslo"), INSTANTS),
    (pa.dictionary(pa.int32(), pa.string()), pa.string(), TEXTS),
]


@pytest.mark.parametrize("kind", WIDER, ids=lambda kind: f"{kind[0]} as {kind[1]}")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_there_is_found_as_the_wider_type_of_the_cut(kind, data):
    """Whatever rows the condition keeps once they are cast: a filter that says no kept none."""
    own, wide, values = kind
    there = data.draw(st.lists(values, min_size=1, max_size=4))
    column = pa.array(there, own)
    _, filter_ = with_bloom(column)
    batch = pa.record_batch({"c": pc.cast(column, wide)})
    for value in [*batch["c"].to_pylist(), *data.draw(st.lists(values, max_size=3))]:
        text = sql([value])
        if text is None:
            continue
        predicate = parse_where(text, batch.schema, "t")
        kept = mask(predicate, batch).to_pylist()
        found = asked(filter_, text, own, wide)
        assert not any(kept) or found is not False
        assert found is not None or not any(kept), "what is there exactly can be asked"


def test_what_is_not_there_is_mostly_ruled_out():
    """Else nothing would be skipped, and every test above would hold."""
    for own, values in (
        (pa.int64(), range(1000)),
        (pa.string(), [f"key {number}" for number in range(1000)]),
        (pa.float64(), [number / 7 for number in range(1, 1000)]),
        (pa.timestamp("us"), [EPOCH + timedelta(hours=number) for number in range(1000)]),
        (pa.decimal128(9, 2), [Decimal(number).scaleb(-2) for number in range(1000)]),
    ):
        kept, other = values[::2], values[1::2]
        _, filter_ = with_bloom(pa.array(list(kept), own))
        wrong = sum(asked(filter_, sql([value]), own) is not False for value in other)
        assert wrong < 0.2 * len(other), own


def test_a_filter_of_known_bytes():
    """Of the format's own text: which bits a hash sets, by hand."""
    salt = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D]
    salt += [0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]
    blocks = np.zeros((4, 8), np.uint32)
    value = struct.pack("<q", 42)
    (hashed,) = (int(h) for h in bloom_hashes([value]))
    block = ((hashed >> 32) * 4) >> 32
    for word in range(8):
        blocks[block, word] |= 1 << ((((hashed & 0xFFFFFFFF) * salt[word]) & 0xFFFFFFFF) >> 27)
    assert may_hold(blocks, bloom_hashes([value]))
    assert not may_hold(blocks, bloom_hashes([struct.pack("<q", 43)]))
    for word in range(8):
        missing = blocks.copy()
        missing[block, word] = 0
        assert not may_hold(missing, bloom_hashes([value]))
    assert bloom_hashes([b""])[0] == 0xEF46DB3751D8E999  # xxHash's own first test


HEADER = b"\x15\x40" + b"\x1c\x1c\x00\x00" * 3 + b"\x00"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEADER,
        HEADER + b"\xff" * 31,
        HEADER + b"\xff" * 33,
        HEADER + bytes(32),
        b"\x15\x41" + HEADER[2:] + b"\xff" * 32,
        b"\x15\x00" + HEADER[2:],
        b"\x15\xff\xff\xff\xff\xff\x01" + HEADER[2:] + b"\xff" * 32,
        b"\x15\x40\x2c" + HEADER[3:] + b"\xff" * 32,
        HEADER[:6] + b"\x1c\x2c\x00\x00" + HEADER[10:] + b"\xff" * 32,
        HEADER[:-1] + b"\x15\x02\x00" + b"\xff" * 32,
        b"PAR1" * 20,
    ],
)
def test_what_is_no_filter_is_none(data):
    assert decode_bloom_filter(HEADER + b"\xff" * 32).shape == (1, 8)
    assert decode_bloom_filter(data) is None


@given(st.binary(max_size=80))
def test_no_bytes_break_it(data):
    decode_bloom_filter(data)
    decode_bloom_filter(HEADER + data)
