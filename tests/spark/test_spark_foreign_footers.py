"""What files of other programs say of themselves in their footers costs no row: Spark's reader
skips nothing by it, and no statement misses a row by it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edit import MAX_VALUE, MIN_VALUE, NULL_COUNT, edited
from lakelog.spark import native

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 4
WRONG = {MIN_VALUE: struct.pack("<q", 10), MAX_VALUE: struct.pack("<q", 20), NULL_COUNT: 0}


@pytest.fixture(params=["file index", "paths"])
def road(request, monkeypatch) -> str:
    if request.param == "paths":
        monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off")
    return request.param


def lake(tmp_path: Path, wrong: dict[int, Any], *, statistics: bool = True) -> lakelog.Catalog:
    """A table with 1, 2, null and 4 in an external file with wrong statistics, and 5 of our own."""
    path = tmp_path / "x.parquet"
    rows = {"x": [1, 2, None, 4], "n": list(range(ROWS))}
    pq.write_table(pa.table(rows), path)
    edited(path, wrong, created_by="some writer")
    catalog = lakelog.open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", str(path), statistics=statistics)
        tx.write("t", pa.table({"x": [5], "n": [ROWS]}))
    return catalog


def numbers(frame: Any) -> list[int]:
    return sorted(row.n for row in frame.select("n").collect())


@pytest.mark.parametrize("wrong", [WRONG, {NULL_COUNT: 0}, {NULL_COUNT: ROWS}], ids=str)
def test_no_row_is_skipped(spark, tmp_path, road, wrong):
    catalog = lake(tmp_path, wrong, statistics=False)
    frame = lakelog.spark.read(spark, catalog.url, "db", "t")
    assert numbers(frame.where("x = 2")) == [1]
    assert numbers(frame.where("x < 5")) == [0, 1, 3]
    assert numbers(frame.where("x IS NULL")) == [2]
    assert numbers(frame.where("x IS NOT NULL")) == [0, 1, 3, 4]
    assert numbers(frame.where("x IN (1, 5)")) == [0, 4]
    found = lakelog.spark.read(spark, catalog.url, "db", "t", where="x < 3")
    assert numbers(found) == [0, 1]


def test_a_merge_finds_the_row(spark, tmp_path):
    """Although a query skips the file by bounds of a writer that isn't known to be wrong."""
    catalog = lake(tmp_path, WRONG)
    lakelog.spark.attach(spark, "lake", catalog.url, writer="sql")
    try:
        assert spark.sql("SELECT n FROM lake.db.t WHERE x = 2").collect() == []
        spark.sql("""MERGE INTO lake.db.t t USING (SELECT 2L AS x, 9L AS n) s
                     ON t.x = s.x AND t.x = 2 WHEN MATCHED THEN UPDATE SET n = s.n
                     WHEN NOT MATCHED THEN INSERT *""")
        spark.sql("UPDATE lake.db.t SET n = n + 10 WHERE x = 1")
    finally:
        lakelog.spark.detach(spark, "lake")
    assert sorted(catalog.snapshot("db").to_arrow("t")["n"].to_pylist()) == [2, 3, 4, 9, 10]
