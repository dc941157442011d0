"""Statistics of files: special values, and what the row groups of a file add up to."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from lakelog.catalog.format.statistics import (
    MAX_BOUND_BYTES,
)
from lakelog.catalog.format.statistics_rows import merge_row_groups
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from statistics_cases import facts_of, file_row, of_files

# --- Special values -------------------------------------------------------------------------------


def test_both_zeros_are_within_the_bounds_of_either():
    for values in ([0.0], [-0.0], [0.0, -0.0]):
        table = pa.table({"c": values})
        row = file_row(facts_of(table), table.schema)
        low, high = row["min:double:c"][0].as_py(), row["max:double:c"][0].as_py()
        assert math.copysign(1, low) == -1
        assert math.copysign(1, high) == 1


def test_nan_is_in_no_bound():
    table = pa.table({"c": [math.nan, 1.0, math.nan, 2.0]})
    row = file_row(facts_of(table), table.schema)
    assert (row["min:double:c"][0].as_py(), row["max:double:c"][0].as_py()) == (1.0, 2.0)
    table = pa.table({"c": [math.nan]})
    row = file_row(facts_of(table), table.schema)
    assert not [key for key in row if key.startswith(("min", "max")) and row[key][0].as_py()]


def test_long_text_is_cut_at_a_character_and_said_to_be_inexact():
    value = "é" * 60
    table = pa.table({"c": [value]})
    row = file_row(facts_of(table), table.schema)
    low, high = row["min:string:c"][0].as_py(), row["max:string:c"][0].as_py()
    assert low < value < high
    assert len(low.encode()) <= MAX_BOUND_BYTES
    assert len(high.encode()) <= MAX_BOUND_BYTES + 3
    assert row["exact:string:c"][0].as_py() == 0


def test_a_maximum_that_nothing_short_exceeds_is_unknown():
    table = pa.table({"c": ["\U0010ffff" * 40], "b": pa.array([b"\xff" * 100], pa.binary())})
    row = file_row(facts_of(table), table.schema)
    assert row["max:string:c"].to_pylist() == [None]
    assert row["max:binary:b"].to_pylist() == [None]
    assert row["min:string:c"].to_pylist() != [None]


def test_text_that_is_none_has_no_bounds():
    """Foreign writers put any bytes into a string column."""
    bad = b"a" + b"\x80" + "é".encode() * 40
    offsets = pa.py_buffer(struct.pack("<ii", 0, len(bad)))
    column = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(bad))
    add = facts_of(pa.table({"c": column}))
    (stats,) = add.row_groups[0].columns
    assert not stats.HasField("min")
    assert not stats.HasField("max")


def test_text_next_to_the_surrogates_is_rounded_over_them():
    table = pa.table({"c": ["\ud7ff" * 40]})
    row = file_row(facts_of(table), table.schema)
    assert row["max:string:c"][0].as_py() > "\ud7ff" * 40


def test_a_column_whose_name_looks_like_a_path_has_its_own_statistics():
    """Parquet names the leaf of struct `a`, field `b` as it names a column called `a.b`."""
    inner = pa.array([{"b": 5}, {"b": 6}], pa.struct([pa.field("b", pa.int64())]))
    for names in (["a", "a.b"], ["a.b", "a"]):
        columns = {"a": inner, "a.b": pa.array([100, 200])}
        table = pa.table({name: columns[name] for name in names})
        row = file_row(facts_of(table), table.schema)
        low = row.get("min:int64:a.b", pa.chunked_array([[None]]))[0].as_py()
        high = row.get("max:int64:a.b", pa.chunked_array([[None]]))[0].as_py()
        assert low is None or low <= 100
        assert high is None or high >= 200


# --- Row groups into files ------------------------------------------------------------------------


def group(rows, **stats):
    columns = [wire.ColumnStatistics(column=0, **stats)] if stats else []
    return wire.RowGroup(row_count=rows, columns=columns)


def bound(value):
    return struct.pack("<q", value)


SCHEMA = pa.schema([pa.field("c", pa.int64())])


def test_a_group_without_statistics_makes_the_file_unknown():
    known = group(2, min=bound(1), max=bound(2), null_count=0)
    assert merge_row_groups([known, group(2)], SCHEMA) == []


def test_a_group_without_one_bound_makes_that_bound_unknown():
    groups = [
        group(2, min=bound(1), max=bound(2), null_count=0),
        group(2, min=bound(0), null_count=1),
    ]
    (merged,) = merge_row_groups(groups, SCHEMA)
    assert merged.min == bound(0)
    assert not merged.HasField("max")
    assert merged.null_count == 1


def test_a_group_of_nulls_alone_doesnt_hide_the_others():
    groups = [group(2, min=bound(1), max=bound(2), null_count=0), group(3, null_count=3)]
    (merged,) = merge_row_groups(groups, SCHEMA)
    assert (merged.min, merged.max, merged.null_count) == (bound(1), bound(2), 3)


def test_an_unknown_null_count_stays_unknown():
    groups = [group(2, min=bound(1), max=bound(2), null_count=0), group(3, min=bound(1))]
    (merged,) = merge_row_groups(groups, SCHEMA)
    assert not merged.HasField("null_count")


def test_a_column_that_is_named_twice_in_a_row_group_is_unknown():
    twice = wire.RowGroup(row_count=2)
    for value in (1, 2):
        twice.columns.add(column=0, min=bound(value), max=bound(9), null_count=0)
    twice.columns.add(column=1, null_count=1)
    once = group(2, min=bound(1), max=bound(2), null_count=0)
    two = pa.schema([("c", pa.int64()), ("d", pa.int64())])
    for groups in ([twice], [once, twice], [twice, once]):
        add = wire.Add(path="data/x", table="t", row_groups=groups)
        found = of_files([add], two)
        expected = [("d", 0)] if len(groups) == 1 else []
        assert list(zip(*(found.files[n].to_pylist() for n in ("column", "row")))) == expected
        assert found.groups["column"].to_pylist() == (["c", "d"] if len(groups) == 2 else [])


def test_a_position_beyond_the_schema_is_ignored():
    far = wire.RowGroup(row_count=2, columns=[wire.ColumnStatistics(column=7, null_count=1)])
    for groups in ([far], [far, far]):
        found = of_files([wire.Add(path="data/x", table="t", row_groups=groups)], SCHEMA)
        assert found.files.num_rows == found.groups.num_rows == 0


def test_sums_and_counts_beyond_62_bits_are_unknown():
    huge = group(2, null_count=2**62 - 1, min=bound(1), max=bound(2), bloom_offset=2**62)
    found = of_files([wire.Add(path="data/x", table="t", row_groups=[huge, huge])], SCHEMA)
    assert found.files["null_count"].to_pylist() == [None]
    assert found.files["min"].to_pylist() == [1]
    assert found.groups["null_count"].to_pylist() == [2**62 - 1] * 2
    assert found.groups["bloom_offset"].to_pylist() == [None] * 2


def test_of_equal_zeros_the_first_counts_for_the_minimum_and_the_last_for_the_maximum():
    schema = pa.schema([("c", pa.float64())])
    zeros = [struct.pack("<d", value) for value in (0.0, -0.0)]
    groups = [group(1, min=z, max=z, min_exact=n == 0) for n, z in enumerate(zeros)]
    (merged,) = merge_row_groups(groups, schema)
    assert (merged.min, merged.min_exact) == (zeros[0], True)
    assert merged.max == zeros[1]


def test_bloom_filters_are_of_row_groups_and_of_files_with_one():
    one, other = group(1, bloom_offset=4, bloom_bytes=64), group(1, bloom_offset=999)
    adds = [
        wire.Add(path="data/1", table="t", row_groups=[one]),
        wire.Add(path="data/2", table="t", row_groups=[one, other]),
    ]
    found = of_files(adds, SCHEMA)
    assert found.files["bloom_offset"].to_pylist() == [4]
    assert found.groups["bloom_offset"].to_pylist() == [4, 999]
    assert found.groups["bloom_bytes"].to_pylist() == [64, None]


def test_a_bound_of_a_wrong_length_is_unknown():
    groups = [group(1, min=b"short", max=bound(1)), group(1, min=bound(1), max=bound(9))]
    (merged,) = merge_row_groups(groups, SCHEMA)
    assert not merged.HasField("min")
    assert merged.max == bound(9)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_that_python_cannot_hold_are_merged_all_the_same(unit):
    """Nanoseconds, and years after 9999."""
    schema = pa.schema([pa.field("c", pa.timestamp(unit, "UTC"))])
    late = 2**62 + 1
    groups = [group(1, min=bound(-late), max=bound(7)), group(1, min=bound(1), max=bound(late))]
    (merged,) = merge_row_groups(groups, schema)
    assert (merged.min, merged.max) == (bound(-late), bound(late))
