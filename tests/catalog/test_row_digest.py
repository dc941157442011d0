"""A digest of rows: the same for the same rows in any order, batches and types; another one for any
row that is lost, doubled or changed."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.data.row_digest import RowDigest, row_hashes

VALUES = {
    pa.bool_(): [True, False, None],
    pa.int8(): [0, 1, -1, None],
    pa.uint64(): [0, 1, 2**64 - 1, None],
    pa.int64(): [0, 1, -1, 2**62, None],
    pa.float16(): [0.0, 1.5, None],
    pa.float32(): [0.0, -0.0, 1.5, math.nan, math.inf, None],
    pa.float64(): [0.0, -0.0, 1.5, math.nan, -math.inf, None],
    pa.string(): ["", "a", "b", "ab", "ba", "a" * 100, None],
    pa.large_string(): ["", "a", None],
    pa.binary(): [b"", b"\0", b"\0\0", b"\1\0", None],
    pa.binary(3): [b"abc", b"abd", None],
    pa.date32(): [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None],
    pa.timestamp("us", "UTC"): [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None],
    pa.time64("us"): [dt.time(1), dt.time(2), None],
    pa.duration("us"): [dt.timedelta(1), None],
    pa.decimal128(20, 2): [Decimal("1.00"), Decimal("-1.00"), Decimal("1e10"), None],
    pa.decimal256(50, 2): [Decimal("1.00"), Decimal("1e30"), None],
    pa.dictionary(pa.int32(), pa.string()): ["a", "b", None],
    pa.list_(pa.int32()): [[], [1], [1, 2], [2, 1], [None], None],
    pa.list_(pa.string()): [[], [""], ["a", ""], ["", "a"], [None], None],
    pa.list_(pa.int32(), 2): [[1, 2], [2, 1], None],
    pa.struct([("a", pa.int32()), ("b", pa.string())]): [
        {"a": 1, "b": None},
        {"a": None, "b": "1"},
        {"a": None, "b": None},
        None,
    ],
    pa.map_(pa.string(), pa.int32()): [[], [("a", 1)], [("a", 2)], [("b", 1)], None],
    pa.list_(pa.struct([("a", pa.list_(pa.float64()))])): [[{"a": [1.0]}], [{"a": []}], [], None],
}


def digest(*batches: pa.RecordBatch, target: pa.Schema | None = None) -> tuple[int, int, int]:
    found = RowDigest(target or batches[0].schema)
    for batch in batches:
        found.add(batch)
    return found.value


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_different_values_have_different_numbers(kind):
    values = VALUES[kind]
    array = pa.array(values, kind)
    batch = pa.RecordBatch.from_arrays([array], ["a"])
    assert len(set(row_hashes(batch).tolist())) == len(values)
    # Wherever they stand in what holds them.
    again = pa.concat_arrays([array, array, array]).slice(len(values) + 1, len(values) - 1)
    sliced = pa.RecordBatch.from_arrays([again], ["a"])
    assert row_hashes(sliced).tolist() == row_hashes(batch).tolist()[1:]


def test_nan_is_one_value():
    bits = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001]
    values = pa.array(bits, pa.uint64()).view(pa.float64())
    batch = pa.RecordBatch.from_arrays([values], ["a"])
    assert len(set(row_hashes(batch).tolist())) == 1


def test_columns_are_told_apart():
    one = pa.record_batch({"a": [1, 2], "b": [2, 1]})
    two = pa.record_batch({"a": [1, 1], "b": [2, 2]})
    assert digest(one) != digest(two)


def test_narrower_types_other_order_and_lacking_columns_make_no_difference():
    target = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    wide = pa.record_batch({"a": [1, 2], "b": ["x", None], "c": pa.nulls(2, pa.float64())})
    narrow = pa.record_batch({"b": ["x", None], "a": pa.array([1, 2], pa.int8())})
    assert digest(wide, target=target) == digest(narrow, target=target)


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.0]),
        st.none() | st.text("ab", max_size=3),
        st.none() | st.lists(st.none() | st.integers(0, 2), max_size=2),
    ),
    max_size=12,
)


def batch_of(rows):
    kinds = [pa.int64(), pa.float64(), pa.string(), pa.list_(pa.int64())]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(columns, ["a", "b", "c", "d"])


@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_equal_exactly_for_the_same_rows_each_as_often(one, two, chance: random.Random):
    shuffled = chance.sample(one, len(one))
    cut = chance.randint(0, len(one))
    parts = [batch_of(shuffled[:cut]), batch_of(shuffled[cut:])]
    assert digest(*parts) == digest(batch_of(one))
    same = sorted(map(repr, one)) == sorted(map(repr, two))
    assert (digest(batch_of(one)) == digest(batch_of(two))) == same


def test_long_texts_are_taken_in_pieces():
    long = ["x" * 700_000, "y", "x" * 700_000 + "y", "", "z" * 1_500_000, "w"]
    batch = pa.record_batch({"a": long})
    alone = [row_hashes(pa.record_batch({"a": [text]}))[0] for text in long]
    assert row_hashes(batch).tolist() == alone
    assert len(set(alone)) == len(long)
