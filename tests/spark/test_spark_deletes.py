"""Deletes in Spark: the same rows as from pyarrow, native and by the data source."""

from __future__ import annotations

from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.spark.read import read
from lakelog.spark.selection import selection


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lakelog.Catalog:
    """Two writers; rows of some files are deleted, each way, and one file has none of them."""
    folder: Path = tmp_path_factory.mktemp("lake")
    catalog = lakelog.open_catalog(str(folder))
    values = [1.0, None, float("nan"), -0.0, 5.0]
    for name in "uv":
        with catalog.writer(name, "db") as writer:
            for month in (1, 2, 3):
                rows = {"m": [month] * 5, "x": values, "s": ["a", "b", None, "ab", "c"]}
                with writer.transaction() as tx:
                    tx.write("t", pa.table(rows), partition=f"m={month}")
            with writer.transaction() as tx:
                tx.delete("t", "m = 1 AND (x = 0 OR s = 'c')", mode="predicate")
            with writer.transaction() as tx:
                tx.delete("t", "m = 3 AND x >= 5", mode="rows")
            with writer.transaction() as tx:
                tx.write("t", pa.table({"m": [1, 3], "x": [0.0, 9.0], "s": ["new", None]}))
    catalog.delete("db", "t", "m = 3 AND s IS NULL OR s = 'new' AND x = 0")
    with catalog.writer("v", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"m": [1], "x": [0.0], "s": ["newer"]}))
    return catalog


def of_spark(frame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


def of_arrow(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


@pytest.mark.parametrize("where", [None, "m >= 2", "m = 1 AND x IS NOT NULL", "x > 100"])
def test_spark_gives_the_rows_that_are_left(spark, lake, where) -> None:
    snapshot = lake.snapshot("db")
    wanted = of_arrow(snapshot.to_arrow("t", where=where))
    assert of_spark(read(spark, lake.url, "db", "t", where=where)) == wanted
    source = spark.read.format("lakelog").option("database", "db").option("table", "t")
    if where is not None:
        source = source.option("where", where)
    for native in ("true", "false"):
        assert of_spark(source.option("native", native).load(lake.url)) == wanted
    columns = read(spark, lake.url, "db", "t", where=where, columns=["s"])
    assert of_spark(columns) == of_arrow(snapshot.to_arrow("t", ["s"], where=where))
    assert read(spark, lake.url, "db", "t", where=where).count() == len(wanted)


def test_points_in_time_before_the_deletes_have_all_rows(spark, lake) -> None:
    frame = read(spark, lake.url, "db", "t", {"u": 2, "v": 2})
    assert frame.count() == 30
    assert "BatchScan" not in frame._jdf.queryExecution().toString()


def test_sparks_own_reader_is_given_no_such_file(spark, lake) -> None:
    snapshot = lake.snapshot("db")
    given = selection(snapshot, "t").file_list()
    hidden = {part.key for part in snapshot.file_parts("t") if part.hidden is not None}
    assert hidden == set(given.hidden)
    assert hidden
    assert hidden.isdisjoint(given.rows["key"].to_pylist())
