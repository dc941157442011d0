"""No statistics of floats in the footers that lakelog writes, and bounds of its own in the log."""

from __future__ import annotations

import math
import struct

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.data import parquet

NAN = math.nan


def commit(folder, table):
    catalog = lakelog.open_catalog(str(folder))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", table)
    snapshot = catalog.snapshot("db")
    (part,) = snapshot.file_parts("t")
    return pq.read_metadata(folder / part.key), snapshot


def known(snapshot, **options):
    rows = snapshot.statistics("t", **options).to_pylist()
    return {
        row["column"]: (row["null_count"], _float(row["min"]), _float(row["max"])) for row in rows
    }


def _float(bound):
    return None if bound is None else struct.unpack("<d", bound)[0]


def test_no_leaf_of_floats_has_statistics_in_the_footer(tmp_path):
    one = {"x": NAN, "n": [1.0], "i": 7}
    kind = pa.struct({"x": pa.float64(), "n": pa.list_(pa.float32()), "i": pa.int64()})
    table = pa.table(
        {
            "i": [1, 2],
            "d": [1.0, NAN],
            "f": pa.array([1.0, 2.0], pa.float32()),
            "h": pa.array([1.0, NAN], pa.float16()),
            "w": pa.array([1.0, NAN]).dictionary_encode(),
            "s": pa.array([one, None], kind),
            "m": pa.array([[("a", 1.5)], []], pa.map_(pa.string(), pa.float32())),
            "t": ["a", "b"],
        }
    )
    metadata, _ = commit(tmp_path, table)
    assert metadata.metadata[b"lakelog.float_statistics"] == b"none"
    leaves = [metadata.row_group(0).column(at) for at in range(metadata.num_columns)]
    have = {leaf.path_in_schema for leaf in leaves if leaf.is_stats_set}
    assert have == {"i", "s.i", "m.key_value.key", "t"}


def test_a_column_of_one_name_with_a_nested_leaf_of_floats(tmp_path):
    kind = pa.struct({"b": pa.float64(), "c": pa.int64()})
    table = pa.table({"a.b": [1], "a": pa.array([{"b": NAN, "c": 1}], kind)})
    metadata, _ = commit(tmp_path, table)
    leaves = [metadata.row_group(0).column(at) for at in range(metadata.num_columns)]
    assert [leaf.is_stats_set for leaf in leaves] == [False, False, True]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_the_logs_bounds_come_from_the_values(tmp_path, kind):
    columns = {
        "plain": ([1.5, -2.0, 0.5], (0, -2.0, 1.5)),
        "some": ([1.5, NAN, None], (1, 1.5, 1.5)),
        "all": ([NAN, NAN, None], (1, None, None)),
        "null": ([None, None, None], (3, None, None)),
        "big": ([math.inf, -math.inf, NAN], (0, -math.inf, math.inf)),
    }
    table = pa.table({name: pa.array(values, kind) for name, (values, _) in columns.items()})
    _, snapshot = commit(tmp_path, table)
    assert known(snapshot) == {name: want for name, (_, want) in columns.items()}
    row = snapshot.statistics("t").to_pylist()[0]
    assert row["min_exact"] is row["max_exact"] is not None


def test_zeros_take_in_both(tmp_path):
    _, snapshot = commit(tmp_path, pa.table({"p": [0.0, 1.0], "n": [-1.0, -0.0]}))
    found = known(snapshot)
    assert math.copysign(1, found["p"][1]) == -1
    assert math.copysign(1, found["n"][2]) == 1


def test_half_floats_have_a_count_of_nulls_alone(tmp_path):
    half = pa.array([1.0, None], pa.float16())
    _, snapshot = commit(
        tmp_path, pa.table({"h": half, "w": pa.array([1.0, None]).dictionary_encode()})
    )
    assert known(snapshot) == {"h": (1, None, None), "w": (1, 1.0, 1.0)}


def test_each_row_group_has_bounds_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 2)
    _, snapshot = commit(tmp_path, pa.table({"v": [1.0, NAN, 3.0, 4.0, NAN]}))
    rows = snapshot.statistics("t", row_groups=True).to_pylist()
    found = {row["row_group"]: (_float(row["min"]), _float(row["max"])) for row in rows}
    assert found == {0: (1.0, 1.0), 1: (3.0, 4.0), 2: (None, None)}
    assert known(snapshot) == {"v": (0, None, None)}
