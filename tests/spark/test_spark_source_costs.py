"""What `format("lakelog")` reads of files, and what Spark knows of it before: on a classic session
as much as `lakelog.spark.read`, for that is what Spark runs in its place."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import SparkOutOfMemory
from lakelog.spark import swap
from newer_spark import ROWS_ALONE, needs
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A file of which one column is damaged: who reads it finds out."""
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1, 2, 3], "b": ["x" * 50, "y" * 50, "z" * 50]}))
    (path,) = Path(tmp_path, "w/db/data").rglob("*.parquet")
    chunk = pq.read_metadata(path).row_group(0).column(1)
    body = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    body[start + chunk.total_compressed_size - 3] ^= 1
    path.write_bytes(body)
    return str(tmp_path)


@pytest.fixture
def many(tmp_path: Path) -> str:
    """A lake of four commits by two writers: files with partitions, one with a deleted row."""
    catalog = lakelog.open_catalog(str(tmp_path / "many"))
    for number, name in enumerate(("u", "v")):
        with catalog.writer(name, "db") as writer:
            for start in (0, 10):
                rows = range(100 * number + start, 100 * number + start + 10)
                data = pa.table({"n": list(rows), "day": ["mon", "tue"] * 5, "s": ["x"] * 10})
                with writer.transaction() as tx:
                    tx.write("t", data, partition_by=["day"])
    with catalog.writer("u", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "n = 3")
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("names", pa.table({"day": ["mon", "tue"], "name": ["Monday", "Tuesday"]}))
    return catalog.url


def source(spark: SparkSession, **options: Any) -> Any:
    return spark.read.format("lakelog").options(database="db", **({"table": "t"} | options))


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_only_the_columns_of_the_query_are_read(spark, lake):
    wanted = [(1,), (2,), (3,)]
    for frame in (
        source(spark).load(lake).select("a"),
        source(spark, columns='["a"]').load(lake),
        source(spark).schema("a bigint").load(lake),
        source(spark, native=False, columns='["a"]').load(lake),
        source(spark, native=False).schema("a bigint").load(lake),
    ):
        assert sorted(map(tuple, frame.collect())) == wanted
    # Spark tells a Python data source nothing of the columns that a query needs.
    for frame in (source(spark).load(lake), source(spark, native=False).load(lake).select("a")):
        with pytest.raises(Exception, match=r"CorruptObject|checksum"):
            frame.collect()


def test_spark_knows_the_size(spark, lake):
    def joined(small: DataFrame) -> str:
        large = spark.range(1_000_000).selectExpr("id % 5 a", "id")
        return plan(large.join(small, "a"))

    assert "BroadcastHashJoin" in joined(source(spark).load(lake).select("a"))
    few = source(spark, native=False, columns='["a"]').load(lake)
    assert "BroadcastHashJoin" not in joined(few)
    assert "BroadcastHashJoin" in joined(F.broadcast(few))


def test_filters_of_the_query_skip_files_and_joins_choose_partitions(spark, many):
    frame = source(spark).load(many)
    some = frame.where("n >= 110 AND day = 'mon'").select("s")
    assert lakelog.spark.files_read(some) == (1, 6)  # of those that lost no row
    assert "ReadSchema: struct<n:bigint,s:string>" in plan(some)
    assert some.count() == 5
    names = source(spark, table="names").load(many).where("name = 'Tuesday'")
    for each in (frame, lakelog.spark.read(spark, many, "db", "t")):
        both = each.join(names, "day")
        assert "dynamicpruning" in plan(both)
        assert both.count() == 19


@pytest.mark.parametrize("options", [{}, {"where": "n > 3 AND s = 'x'"}, {"withWriter": "true"}])
def test_rows_are_those_of_the_source(spark, many, options):
    rows = [
        sorted(map(tuple, source(spark, native=native, **options).load(many).collect()))
        for native in (True, False)
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == (36 if "where" in options else 39)


def test_views_and_self_joins(spark, many):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW lake_t USING lakelog OPTIONS "
        f"(path '{many}', database 'db', table 't')"
    )
    joined = spark.sql("SELECT count(*) FROM lake_t a JOIN lake_t b USING (n) WHERE a.n >= 100")
    assert plan(joined).count("FileScan") == 2
    assert joined.first()[0] == 20
    frame = source(spark).load(many)
    twice = frame.alias("a").join(frame.alias("b"), "n").where("a.n >= 100")
    assert plan(twice).count("FileScan") == 2
    assert twice.count() == 20
    assert frame.union(frame).where("n >= 100").count() == 40


def test_a_schema_of_ones_own_reads_what_is_newest_each_time(spark, many):
    frame = source(spark).schema("n bigint").load(many)
    fixed = source(spark).load(many)
    assert (frame.count(), fixed.count()) == (39, 39)
    catalog = lakelog.open_catalog(many)
    with catalog.writer("v", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [7000], "day": ["sun"], "s": ["x"]}))
    assert frame.where("n >= 0").count() == 40
    assert fixed.where("n >= 0").count() == 39


def test_what_only_the_source_can_read_it_reads(spark, many, tmp_path, monkeypatch):
    """Other types than the log's, a folder below that of another process, a switch that is off."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = source(spark).schema("n int").load(many)
        assert "BatchScan lakelog" in plan(frame)
        monkeypatch.setenv("LAKELOG_SPARK_FILE_INDEX", "off")
        frame = source(spark).load(many)
        assert "FileScan" not in plan(frame)
        assert frame.count() == 39


def test_whatever_fails_costs_time_and_no_rows(spark, many, monkeypatch):
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("of another kind")

    monkeypatch.setattr(swap, "natively", fails)
    with pytest.warns(RuntimeWarning, match="several times slower: of another kind"):
        assert source(spark).load(many).count() == 39


def test_a_driver_without_memory_says_so(spark, many, monkeypatch):
    def fails(*_: Any) -> None:
        raise SparkOutOfMemory("Spark's driver has too little memory")

    monkeypatch.setattr(swap, "natively", fails)
    with pytest.raises(Exception, match="SparkOutOfMemory: Spark's driver has too little"):
        source(spark).load(many).count()


@pytest.mark.parametrize("native", ["true", pytest.param("false", marks=needs(ROWS_ALONE))])
def test_rows_without_columns_are_all_there(spark, many, native):
    frame = source(spark, native=native, columns="[]").load(many)
    assert frame.count() == 39
    assert lakelog.spark.read(spark, many, "db", "t", columns=[]).count() == 39


@pytest.mark.parametrize("native", ["true", "false"])
def test_some_files_alone(spark, many, native):
    files = lakelog.open_catalog(many).snapshot("db").files("t", writer="v").to_pylist()
    frame = source(spark, native=native, files=json.dumps([f"v/db/{files[0]['path']}"])).load(many)
    assert frame.count() == files[0]["row_count"] == 5
