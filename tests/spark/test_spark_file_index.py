"""The file index on a real Spark: no request when planning, and all the native reader can do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog.errors import SparkUnsupported
from lakelog.spark import file_index, jvm
from lakelog.spark.arrow_types import spark_schema
from lakelog.testing.known_files import KnownFile, known_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MISSING = "ObjectNotFound: .* is gone"
SCHEMA = spark_schema(pa.schema({"a": pa.int64(), "b": pa.string()}))


def relation(spark: Any, files: Any, schema: Any = SCHEMA) -> DataFrame:
    known = known_files([KnownFile(*each) for each in files])
    return file_index.relation(spark, schema=schema, files=known)


def rows(count: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"a": list(numbers), "b": [f"row {each}" for each in numbers]})


def plan_text(frame: DataFrame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def scan_metrics(frame: DataFrame) -> dict[str, int]:
    """Run the query and take the metrics of its one file scan."""
    query = frame._jdf.queryExecution()
    plan = query.executedPlan()
    plan.executeCollect()
    leaves = plan.collectLeaves()
    metrics = leaves.apply(0).metrics()
    names = metrics.keysIterator()
    found = {}
    while names.hasNext():
        name = names.next()
        found[name] = metrics.apply(name).value()
    return found


def test_reads_all_rows_in_any_order_of_files(spark, write):
    files = [write(f"{at}.parquet", rows(10, at * 10)) for at in range(5)]
    frame = relation(spark, files)
    assert frame.count() == 50
    assert sorted(each.a for each in frame.collect()) == list(range(50))
    assert relation(spark, files[2:3]).agg({"a": "min"}).collect()[0][0] == 20


@pytest.mark.parametrize(
    "name",
    [
        "with space/and more.parquet",
        "per%20cent/100%.parquet",
        "sq[0-9]/uare[a].parquet",
        "cur{a,b}ly/{x}.parquet",
        "pl+us/a+b&c=d;e.parquet",
        "ünïcödé/日本/🦆.parquet",
        "day=2024-01-01/hour=5/x.parquet",
        "que?stion/st*r#hash.parquet",
        "quo'te/dou\"ble.parquet",
        "_under/_score.parquet",
        ".dot/.file.parquet",
        "co:lon/x.parquet",
        "no_suffix",
    ],
)
def test_raw_paths(spark, write, name):
    file = write(name, rows(3))
    for path in (file[0], f"file://{file[0]}"):
        frame = relation(spark, [(path, file[1])])
        assert frame.columns == ["a", "b"]
        assert frame.count() == 3
        assert [each.a for each in frame.where("a > 0").collect()] == [1, 2]


def test_input_files_and_metadata(spark, write):
    first, second = write("one.parquet", rows(2)), write("t wo %.parquet", rows(3, 2))
    frame = relation(spark, [(f"file://{path}", size) for path, size, *_ in (first, second)])
    assert sorted(frame.inputFiles()) == sorted(Path(each).as_uri() for each, *_ in (first, second))
    found = frame.select(
        "a", "_metadata.file_path", "_metadata.file_size", "_metadata.row_index"
    ).collect()
    assert {(each.a, each.row_index) for each in found} == {(0, 0), (1, 1), (2, 0), (3, 1), (4, 2)}
    assert {each.file_size for each in found} == {first[1], second[1]}
    # Percent-encoded, and with one slash for a local file: just as in Spark's own relation.
    own = spark.read.schema("a bigint").parquet(first[0], second[0]).select("_metadata.file_path")
    assert {each.file_path for each in found} == {each.file_path for each in own.collect()}


def test_columns_are_pruned_and_row_groups_skipped(spark, write):
    file = write("many.parquet", rows(10_000), row_group_size=1000)
    frame = relation(spark, [file])
    text = plan_text(frame.where("a >= 9500").select("a"))
    assert "PushedFilters: [IsNotNull(a), GreaterThanOrEqual(a,9500)]" in text
    assert "ReadSchema: struct<a:bigint>" in text
    assert "Batched: true" in text
    # Rows that leave the scan, before the filter above it: one row group of ten.
    assert scan_metrics(frame.where("a >= 9500"))["numOutputRows"] == 1000
    assert scan_metrics(frame.where("a >= 0"))["numOutputRows"] == 10_000


def test_conditions_on_floats_skip_nothing_and_those_on_others_do(spark, write):
    """Bounds of floats ignore NaN."""
    numbers = list(range(10_000))
    kind = pa.struct({"x": pa.float32(), "i": pa.int64()})
    table = pa.table(
        {
            "a": numbers,
            "v": [float(each) for each in numbers],
            "s": pa.array([{"x": float(each), "i": each} for each in numbers], kind),
        }
    )
    file = write("floats.parquet", table, row_group_size=1000)
    frame = relation(spark, [file], spark_schema(table.schema))
    for condition, rows_read in {
        "a >= 9500": 1000,
        "a >= 9500 and v >= 0 and s.x > 0": 1000,
        "s.i >= 9500": 1000,
        "v >= 9500": 10_000,
        "s.x >= 9500": 10_000,
        "a >= 9500 or v >= 9500": 10_000,
    }.items():
        found = scan_metrics(frame.where(condition))["numOutputRows"]
        assert found == rows_read, condition


def test_planning_asks_nothing_of_the_file_system(spark, write):
    """None of the files exists, and only the run finds out. Spark's own road finds out at once."""
    one = write("one.parquet", rows(1))
    files = [(f"{one[0]}.{at}", one[1]) for at in range(2000)]
    frame = relation(spark, files).where("a = 1").select("b")
    assert "FileScan parquet" in plan_text(frame)
    assert len(frame.inputFiles()) == 2000
    with pytest.raises(Exception, match=MISSING):
        frame.collect()
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        spark.read.schema(SCHEMA).parquet(files[0][0])


def test_planning_survives_the_files(spark, write):
    files = [write(f"{at}.parquet", rows(1, at)) for at in range(20)]
    frame = relation(spark, files)
    assert frame.count() == 20
    os.unlink(files[7][0])
    assert "FileScan parquet" in plan_text(frame.where("a > 3"))
    with pytest.raises(Exception, match=MISSING):
        frame.select("b").collect()


def test_planning_costs_the_same_for_ten_thousand_files_as_for_ten(spark, monkeypatch):
    """No file is looked up (none of them is there), no job lists them, and Python talks to the JVM
    as often as for a few."""
    client = spark.sparkContext._gateway._gateway_client
    send, sent = client.send_command, []
    monkeypatch.setattr(client, "send_command", lambda *a, **k: (sent.append(a), send(*a, **k))[1])
    spark.sparkContext.setJobGroup("planning", "planning")
    counts = []
    for count in (10, 10, 10_000):
        files = [(f"/nowhere/data/{at % 100}/t/{at:08d}.parquet", 1000) for at in range(count)]
        sent.clear()
        assert "FileScan parquet" in plan_text(relation(spark, files).where("a > 3").select("b"))
        counts.append(sum("garbageCollection" not in a[0] and a[0][:2] != "m\n" for a in sent))
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("planning")
    spark.sparkContext._jsc.clearJobGroup()
    assert list(jobs) == []
    assert counts[1] > 0
    assert counts[2] <= counts[1] + 5, counts


def test_a_column_that_a_file_lacks_is_null_even_if_promised(spark, write):
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    schema = StructType(
        [StructField("a", LongType(), False), StructField("c", StringType(), False)]
    )
    frame = relation(spark, [write("a.parquet", rows(3))], schema)
    assert frame.where("c is null").count() == 3
    assert [each.nullable for each in frame.schema] == [True, True]


def test_no_columns_at_all_still_counts(spark, write):
    from pyspark.sql.types import StructType

    frame = relation(spark, [write("a.parquet", rows(7))], StructType([]))
    assert frame.count() == 7


def test_joins_caching_and_two_reads_in_one_query(spark, write):
    left = relation(spark, [write("l.parquet", rows(10))])
    right = relation(spark, [write("r.parquet", rows(5, 3))])
    assert left.join(right, "a").count() == 5
    assert left.alias("x").join(left.alias("y"), "a").count() == 10
    assert left.union(right).count() == 15
    assert left.where("a < 3").union(left.where("a >= 3")).count() == 10
    assert "BroadcastHashJoin" in plan_text(left.join(right, "a"))
    left.cache()
    try:
        assert left.count() == 10
        assert "InMemoryTableScan" in plan_text(left.where("a = 1"))
        assert left.where("a = 1").count() == 1
        assert left.count() == 10
        assert "InMemoryTableScan" not in plan_text(right)
    finally:
        left.unpersist()


def test_equal_reads_share_a_cache_and_different_ones_do_not(spark, write):
    first, second = write("1.parquet", rows(2)), write("2.parquet", rows(3))
    one = relation(spark, [first]).cache()
    try:
        assert one.count() == 2
        assert "InMemoryTableScan" in plan_text(relation(spark, [first]))
        assert "InMemoryTableScan" not in plan_text(relation(spark, [second]))
        assert relation(spark, [first, second]).count() == 5
    finally:
        one.unpersist()


def test_sql_view_and_new_session(spark, write):
    files = [write("a.parquet", rows(4))]
    relation(spark, files).createOrReplaceTempView("file_index_view")
    assert spark.sql("select count(*) n from file_index_view where a > 1").collect()[0].n == 2
    other = spark.newSession()
    assert relation(other, files).where("a > 1").count() == 2


def test_no_files_gives_no_rows(spark):
    assert relation(spark, []).collect() == []


def test_a_wrong_index_text_is_reported_as_unavailable(spark, monkeypatch):
    monkeypatch.setattr(jvm, "_compiled", {})
    monkeypatch.setattr(file_index, "RELATION", "public class Broken implements NoSuchThing {}")
    with pytest.raises(SparkUnsupported, match="doesn't compile on Spark"):
        relation(spark, [])


def test_compiles_once(spark, write, monkeypatch):
    relation(spark, [])
    monkeypatch.setattr(jvm, "compile_texts", None)
    relation(spark.newSession(), [write("a.parquet", rows(1))]).count()
