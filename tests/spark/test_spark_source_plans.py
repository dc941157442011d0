"""What becomes of a query over `format("lakelog")` once Spark's own reader is in its place: beside
other tables, in other sessions, under other settings, and with schemas that promise too much."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.errors import UsageError
from lakelog.spark.source import LakelogDataSource
from pyspark.sql import types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NESTED = pa.struct({"x": pa.int64(), "y": pa.string(), "deep": pa.struct({"p": pa.int64()})})
PROMISES = {
    "a is": types.StructType([types.StructField("a", types.LongType(), nullable=False)]),
    "l has": types.StructType([types.StructField("l", types.ArrayType(types.LongType(), False))]),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nulls, nested columns, names that differ in case alone, and partitions with a deleted row."""
    catalog = lakelog.open_catalog(str(tmp_path_factory.mktemp("lake")))
    nested = [{"x": n, "y": f"y{n}", "deep": {"p": 10 * n}} for n in (1, 2)]
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            rows = {"a": [1, 2, None], "s": pa.array([*nested, None], NESTED), "l": [[1, None]] * 3}
            tx.write("t", pa.table(rows))
            tx.write("cases", pa.table({"n": [1], "N": [2]}))
            tx.write("names", pa.table({"day": ["mon", "tue"], "name": ["Monday", "Tuesday"]}))
            for table in ("sold", "some"):
                tx.write(table, sold(range(10)), partition_by=["day"])
        with writer.transaction() as tx:
            tx.write("some", sold(range(10, 20)), partition_by=["day"])
        with writer.transaction() as tx:
            tx.delete("some", "n = 3")
    return catalog.url


def sold(numbers: range) -> pa.Table:
    days = [("mon", "tue")[n % 2] for n in numbers]
    return pa.table({"n": list(numbers), "day": days, "s": [{"x": n, "y": 0} for n in numbers]})


def source(spark: SparkSession, url: str, table: str = "t", **options: Any) -> DataFrame:
    reader = spark.read.format("lakelog").options(database="db", table=table, **options)
    return reader.load(url)


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def read_schemas(frame: DataFrame) -> list[str]:
    return re.findall(r"ReadSchema: (\S+)", plan(frame))


def test_another_session_reads_as_the_first(spark, lake):
    new = spark.newSession()
    active = spark._get_j_spark_session_class(spark._jvm).getActiveSession
    before = active().get()
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        source(new, lake)
    lakelog.spark.register(new)
    lakelog.spark.register(new)
    assert active().get().equals(before)
    frame = source(new, lake).where("a > 1").select("a")
    assert "FileScan parquet" in plan(frame)
    assert frame.collect() == [(2,)]
    assert source(new, lake, native="false").where("a > 1").select("a").collect() == [(2,)]
    assert source(spark, lake).count() == 3


def test_another_session_reads_files_of_which_rows_were_deleted(spark, lake):
    """`read` registers what it needs, in a session of which nothing is known."""
    new = spark.newSession()
    assert lakelog.spark.read(new, lake, "db", "some").count() == 19


def test_a_frame_is_planned_anew_under_other_settings(spark, lake, settings):
    settings("spark.sql.caseSensitive", True)
    frame = source(spark, lake, "cases")
    assert "FileScan parquet" in plan(frame)
    assert frame.select("*").collect() == [(1, 2)]
    settings("spark.sql.caseSensitive", False)
    assert "BatchScan lakelog" in plan(frame.select("*"))  # Spark's reader takes both for one
    assert frame.select("*").collect() == [(1, 2)]


def test_fields_that_a_query_needs_are_read_alone(spark, lake):
    wanted = "struct<s:struct<x:bigint,deep:struct<p:bigint>>>"
    frame = source(spark, lake).where("s.x > 1").selectExpr("s.deep.p")
    assert read_schemas(frame) == [wanted]
    assert frame.collect() == [(20,)]
    lakelog.spark.attach(spark, "nested", lake)
    try:
        frame = spark.sql("SELECT sum(s.deep.p) FROM nested.db.t WHERE s.x > 0")
        assert read_schemas(frame) == [wanted]
        assert frame.collect() == [(30,)]
    finally:
        lakelog.spark.detach(spark, "nested")
    whole = source(spark, lake).select("s", "s.x").where("s.x = 1")
    assert read_schemas(whole) == ["struct<s:struct<x:bigint,y:string,deep:struct<p:bigint>>>"]
    assert whole.collect() == [((1, "y1", (10,)), 1)]


def test_fields_are_read_alone_beside_files_with_deleted_rows(spark, lake):
    for frame in (source(spark, lake, "some"), lakelog.spark.read(spark, lake, "db", "some")):
        fields = frame.where("day = 'mon'").selectExpr("s.x")
        assert read_schemas(fields) == ["struct<s:struct<x:bigint>>"]
        assert fields.count() == 10
        assert frame.selectExpr("sum(s.x)").collect() == [(187,)]


@pytest.mark.parametrize("names", ["source", "files"])
def test_joins_choose_partitions_of_all_tables_of_a_query(spark, lake, tmp_path, names):
    """Of Spark's own as well, by rows of either."""
    plain = str(tmp_path / "plain")
    lakelog.spark.read(spark, lake, "db", "sold").write.partitionBy("day").parquet(plain)
    days = source(spark, lake, "names")
    if names == "files":
        days.write.parquet(str(tmp_path / "names"))
        days = spark.read.parquet(str(tmp_path / "names"))
    tuesday = days.where("name = 'Tuesday'")
    own, ours = spark.read.parquet(plain), source(spark, lake, "sold")
    query = own.join(tuesday, "day").select("n").union(ours.join(tuesday, "day").select("n"))
    assert chosen(query) == {"InMemoryFileIndex", "LakelogFileIndex"}
    assert sorted(n for (n,) in query.collect()) == sorted(2 * [1, 3, 5, 7, 9])
    assert "BatchScan" not in plan(query)  # as it ended


def chosen(frame: DataFrame) -> set[str]:
    """The kinds of index of files of which partitions are chosen by a join."""
    scans = re.findall(r"Location: (\w+).*?PartitionFilters: \[(.*?)\], Pushed", plan(frame))
    return {kind for kind, filters in scans if re.search(r"IN (sub)?query#|IN dynamicp", filters)}


@pytest.mark.parametrize("promise", PROMISES)
def test_the_source_itself_refuses_promises(lake, promise):
    """Where there is no JVM at hand: on Spark Connect."""
    found = LakelogDataSource({"path": lake, "database": "db", "table": "t"})
    for read in (found.reader, found.streamReader):
        with pytest.raises(UsageError, match=f"{promise} NOT NULL in the schema"):
            read(PROMISES[promise])


@pytest.mark.parametrize("promise", PROMISES)
def test_what_a_schema_promises_is_refused_before_spark_believes_it(spark, lake, promise):
    """It would answer IS NULL by it, without asking for a row."""
    reader = spark.read.format("lakelog").options(database="db", table="t")
    with pytest.raises(Exception, match=f"{promise} NOT NULL in the schema that was given"):
        reader.schema(PROMISES[promise]).load(lake)
    new = spark.newSession()
    lakelog.spark.register(new)
    with pytest.raises(Exception, match=f"{promise} NOT NULL in the schema that was given"):
        new.read.format("lakelog").schema(PROMISES[promise]).load(lake)


def test_a_stream_with_a_schema_that_promises_is_refused(spark, lake):
    reader = spark.readStream.format("lakelog").options(database="db", table="t")
    with pytest.raises(Exception, match="a is NOT NULL in the schema that was given"):
        reader.schema(PROMISES["a is"]).load(lake)


def test_the_name_of_a_row_s_file_is_told_where_spark_reads_it(spark, lake):
    for frame in (source(spark, lake), lakelog.spark.read(spark, lake, "db", "t")):
        (name,) = frame.selectExpr("input_file_name() f").distinct().collect()
        assert Path(name.f).suffix == ".parquet"
    by_source = source(spark, lake, native="false").selectExpr("input_file_name()")
    assert by_source.distinct().collect() == [("",)]
