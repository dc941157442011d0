"""DuckDB: what its own Parquet reader gives of files that a snapshot names, and what it doesn't.

Random tables and conditions: `test_spark_same_rows.py`.
"""

from __future__ import annotations

import math
import random

import duckdb
import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duck import OPTIONS, by_name
from lakelog.errors import CorruptObject
from own_files import add_own


@pytest.fixture
def adopt(tmp_path):
    """`adopt(path, table, ...)` adds foreign files to `t`, and gives the snapshot."""

    def add(*files, **options):
        catalog = lakelog.open_catalog(str(tmp_path))
        with catalog.writer("w", "db") as writer, writer.transaction() as tx:
            for path, table in files:
                file = tmp_path / "w/db" / path
                file.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(table, file, write_page_checksum=True, **options)
                add_own(tx, "t", path)
        return catalog.snapshot("db")

    return add


def urls(snapshot):
    return snapshot.files("t")["url"].to_pylist()


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "a[*]?", "[!b]1", "**", "a{1,2}"])
def test_names_of_files_are_no_patterns(adopt, tmp_path, name):
    """DuckDB reads another file where that matches and is there: `a1` for `a[1]`."""
    snapshot = adopt((f"data/in/{name}.parquet", pa.table({"a": [1]})))
    for other in ("a1", "ab", "a2"):
        pq.write_table(pa.table({"a": [9]}), tmp_path / f"w/db/data/in/{other}.parquet")
    assert by_name(urls(snapshot))["a"].to_pylist() == [1]


def test_names_of_folders_are_no_columns(adopt):
    snapshot = adopt(("data/in/day=1/a.parquet", pa.table({"a": [1], "day": [7]})))
    assert by_name(urls(snapshot)).to_pylist() == [{"a": 1, "day": 7}]
    loose = by_name(urls(snapshot), options="union_by_name = true")
    assert loose.to_pylist() == [{"a": 1, "day": 1}], "hive_partitioning is not needed any more"


@pytest.mark.parametrize("column", ["v", "x.v"])
def test_rows_with_nan_in_foreign_files(adopt, column):
    """Bounds in footers ignore NaN, which is the greatest to DuckDB; files of ours have none."""
    values = [1.0, math.nan, 2.0]
    table = pa.table({"v": values, "x": [{"v": each} for each in values]})
    names = urls(adopt(("data/in/a.parquet", table)))
    for text in ("{} > 5", "{} >= 5", "{} = 'nan'", "not ({} <= 2)", "isnan({})"):
        assert by_name(names, f"where {text.format(column)}").num_rows == 1, text
    loose = OPTIONS.replace("can_have_nan = true", "can_have_nan = false")
    assert by_name(names, f"where {column} > 5", loose).num_rows == 0, "no need of it any more"


def test_a_flipped_bit_in_a_page_is_seen_by_scan_alone(adopt, tmp_path):
    """DuckDB verifies no checksum of pages: docs/reading.md says so. If this fails, it does now,
    and damaged files belong into the differential test for its own reader too."""
    draw = random.Random(1)
    table = pa.table({"a": [draw.random() for _ in range(5000)]})
    snapshot = adopt(("data/in/a.parquet", table), compression="none", use_dictionary=False)
    file = tmp_path / "w/db/data/in/a.parquet"
    assert by_name(urls(snapshot))["a"].equals(table["a"])
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 16
    file.write_bytes(body)
    with pytest.raises(CorruptObject):
        snapshot.scan("t").read_all()
    with pytest.raises(Exception, match=r"data/in/a\.parquet"):
        duckdb.from_arrow(snapshot.scan("t")).to_arrow_table()
    wrong = by_name(urls(snapshot))["a"]
    assert len(wrong) == 5000
    assert not wrong.equals(table["a"])


def test_another_file_in_the_place_of_a_live_one_is_seen_by_scan_alone(adopt, tmp_path):
    snapshot = adopt(("data/in/a.parquet", pa.table({"a": [1]})))
    pq.write_table(pa.table({"a": [2, 3]}), tmp_path / "w/db/data/in/a.parquet")
    with pytest.raises(CorruptObject):
        snapshot.scan("t").read_all()
    assert by_name(urls(snapshot))["a"].to_pylist() == [2, 3]
