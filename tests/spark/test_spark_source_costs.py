"""What `format("lakelog")` reads of files, and what Spark knows of it before."""

from __future__ import annotations

from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F


@pytest.fixture
def lake(tmp_path) -> str:
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


def source(spark, **options):
    return spark.read.format("lakelog").options(database="db", table="t", **options)


def test_only_the_columns_that_are_named_are_read(spark, lake):
    wanted = [(1,), (2,), (3,)]
    for frame in (
        source(spark, columns='["a"]').load(lake),
        source(spark).schema("a bigint").load(lake),
        lakelog.spark.read(spark, lake, "db", "t").select("a"),
    ):
        assert sorted(map(tuple, frame.collect())) == wanted
    # Spark tells a Python data source nothing of the columns that a query needs.
    for frame in (source(spark).load(lake), source(spark).load(lake).select("a")):
        with pytest.raises(Exception, match="CorruptObject"):
            frame.collect()


def test_spark_knows_no_size_of_the_source_and_that_of_read(spark, lake):
    def plan(small) -> str:
        large = spark.range(1_000_000).selectExpr("id % 5 a", "id")
        return large.join(small, "a")._jdf.queryExecution().executedPlan().toString()

    assert "BroadcastHashJoin" in plan(lakelog.spark.read(spark, lake, "db", "t", columns=["a"]))
    few = source(spark, columns='["a"]').load(lake)
    assert "BroadcastHashJoin" not in plan(few)
    assert "BroadcastHashJoin" in plan(F.broadcast(few))
