"""Columns by which a table is partitioned are partition columns of Spark: the rows stay those of
`scan`, files are picked exactly, and while a query runs."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import UsageError
from lakelog.spark import file_groups
from lakelog.spark.source import LakelogDataSource
from own_files import add_own

DAY = "date_add(date '2026-11-01', int(id))"
DAYS = [dt.date(2026, 11, number) for number in (1, 2, 3)]
SITES = ["oslo", "a/b=c%20d", None, "", "__HIVE_DEFAULT_PARTITION__", "ünï 日本"]
FILTERS = {  # with how many of the files are read
    "day = date '2026-11-02'": 10,
    "site = 'a/b=c%20d'": 8,
    "site IS NULL": 10,
    "site = ''": 8,
    "site = '__HIVE_DEFAULT_PARTITION__'": 8,
    "length(site) > 5 AND n < 100": 11,
    "upper(site) = 'OSLO' AND day IN (date '2026-11-01', date '2026-11-03')": 6,
    "site = 'oslo' OR n = 1": 26,
    "day = date '2026-11-02' AND site = 'oslo'": 5,
    "day IS NULL": 1,
    "n > 5000": 0,
    "rand() < 2": 26,
}


def rows_of(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def rows(frame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


def plan_text(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def files_in_run(frame) -> list[int]:
    """How many files each scan has read, in the order of the plan; needs a plan that isn't
    adaptive."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    leaves = [plan.collectLeaves().apply(at) for at in range(plan.collectLeaves().length())]
    scans = [leaf for leaf in leaves if "FileScan parquet" in leaf.toString()]
    return [scan.metrics().apply("numFiles").value() for scan in scans]


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lakelog.Catalog:
    """Writers that partition by two columns, by one of these, by none; and files without them."""
    root: Path = tmp_path_factory.mktemp("parts")
    catalog = lakelog.open_catalog(str(root))
    days = [day for day in DAYS for _ in SITES]
    sites = SITES * len(DAYS)
    numbers = list(range(len(days)))
    whole = pa.table({"n": pa.array(numbers, pa.int32()), "day": days, "site": sites})
    with catalog.writer("both", "db") as writer, writer.transaction() as tx:
        tx.write("t", whole, partition_by=["day", "site"])  # 18 files
    with catalog.writer("days", "db") as writer:
        with writer.transaction() as tx:
            columns = {"site": sites, "day": days, "n": [100 + number for number in numbers]}
            tx.write("t", pa.table(columns), partition_by=["day"])  # 3
        with writer.transaction() as tx:  # a name that isn't true
            tx.write("t", whole.slice(0, 7), partition="day=2026-11-02/site=oslo")  # 1
    with catalog.writer("none", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", whole.slice(4, 9))  # 1
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [1000]}))  # 1, without the columns
    folder = root / "told/db/data/hive"
    folder.mkdir(parents=True)
    kinds = {"day": pa.date32(), "site": pa.string()}
    names = ["day=2026-11-02/site=oslo", "day=2026-11-03/site=__HIVE_DEFAULT_PARTITION__"]
    with catalog.writer("told", "db") as writer, writer.transaction() as tx:
        for number, name in enumerate(names):
            path = f"data/hive/{number}.parquet"
            pq.write_table(pa.table({"n": [2000 + number]}), root / f"told/db/{path}")
            add_own(tx, "t", path, name, partition_by=kinds)
        pq.write_table(pa.table({"n": [3000]}), folder / "2.parquet")
        add_own(tx, "u", "data/hive/2.parquet", name, partition_by=kinds)
    return catalog


def test_rows_are_those_of_scan(spark, lake):
    snapshot = lake.snapshot("db")
    frame = lakelog.spark.read(spark, lake.url, "db", "t")
    assert frame.columns == snapshot.schema("t").names
    assert rows(frame) == rows_of(snapshot.to_arrow("t"))
    for names in (["site", "n"], ["day"], ["site", "day"], ["n"]):
        some = lakelog.spark.read(spark, lake.url, "db", "t", columns=names)
        assert some.columns == names
        assert rows(some) == rows_of(snapshot.to_arrow("t", names))
        assert rows(frame.select(*names)) == rows_of(snapshot.to_arrow("t", names))
    assert frame.count() == snapshot.to_arrow("t").num_rows


@pytest.mark.slow("a dozen queries, each beside the rows that Spark filters itself")
def test_filters_pick_files_and_lose_no_row(spark, lake):
    frame = lakelog.spark.read(spark, lake.url, "db", "t")
    plain = spark.createDataFrame(frame.collect(), frame.schema).cache()
    read = {}
    for text in FILTERS:
        query = frame.where(text)
        assert rows(query) == rows(plain.where(text)), text
        read[text] = lakelog.spark.files_read(query).read
    assert read == FILTERS
    assert lakelog.spark.files_read(frame).of == 26
    assert "PartitionFilters: [isnotnull(day" in plan_text(frame.where("day = date '2026-11-02'"))
    where = "day = '2026-11-02' AND site = 'oslo'"
    told = lakelog.spark.read(spark, lake.url, "db", "t", where=where)
    assert rows(told) == rows_of(lake.snapshot("db").to_arrow("t", where=where))


def test_a_join_prunes_while_it_runs(spark, lake, settings):
    settings("spark.sql.adaptive.enabled", False)
    facts = lakelog.spark.read(spark, lake.url, "db", "t", writer="both")
    dimension = spark.range(5).selectExpr(f"{DAY} day", "id number").where("number % 5 = 1")
    joined = facts.join(dimension, "day")
    assert "dynamicpruning" in plan_text(joined)
    assert files_in_run(joined) == [6]
    assert joined.count() == 6
    # Of a union all parts are pruned; where a column is no partition column, rows are filtered.
    every = lakelog.spark.read(spark, lake.url, "db", "t").join(dimension, "day")
    text = "day = '2026-11-02'"
    assert plan_text(every).count("dynamicpruning") >= 2
    assert every.count() == lake.snapshot("db").to_arrow("t", where=text).num_rows
    assert sum(files_in_run(every)) < 26
    settings("spark.sql.adaptive.enabled", True)
    adaptive = facts.join(dimension, "day")
    assert "dynamicpruning" in plan_text(adaptive)
    assert adaptive.count() == 6


def test_tables_of_a_lake_prune_while_a_query_runs(spark, lake, settings):
    settings("spark.sql.adaptive.enabled", False)
    lakelog.spark.attach(spark, "parts", lake.url)
    try:
        joined = spark.sql(
            f"SELECT t.n FROM parts.db.t JOIN (SELECT {DAY} AS d FROM range(9) WHERE id % 8 = 1) "
            "ON t.day = d"
        )
        assert "dynamicpruning" in plan_text(joined)
        text = "day = '2026-11-02'"
        assert joined.count() == lake.snapshot("db").to_arrow("t", where=text).num_rows
        assert sum(files_in_run(joined)) < 26
    finally:
        lakelog.spark.detach(spark, "parts")


def test_hundreds_of_partitions_that_only_names_tell_are_one_relation(spark, tmp_path):
    """On the road without the index each is one of a union, and these are limited."""
    folder = tmp_path / "w/db/data/hive"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), folder / "0.parquet")
    body = (folder / "0.parquet").read_bytes()
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in range(300):
            (folder / f"{number}.parquet").write_bytes(body)
            kinds = {"m": pa.decimal128(9, 2)}
            add_own(tx, "t", f"data/hive/{number}.parquet", f"m={number}.50", partition_by=kinds)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    assert frame._jdf.queryExecution().analyzed().toString().count("Relation") == 1
    found = frame.where("m > 290").select("m").distinct()
    assert lakelog.spark.files_read(found) == (10, 300)
    assert sorted(row.m for row in found.collect())[0] == Decimal("290.50")
    assert frame.agg({"m": "sum"}).collect()[0][0] == 2 * sum(range(300)) + 300


@pytest.mark.parametrize("road", ["own reader", "format", "no file index", "data source"])
def test_who_wrote_a_row(spark, lake, road, request):
    if road == "no file index":
        request.getfixturevalue("no_file_index")
    if road in ("data source", "format"):
        options = {"database": "db", "table": "t", "withWriter": "true", "columns": '["n"]'}
        options["native"] = "true" if road == "format" else "false"
        frame = spark.read.format("lakelog").options(**options).load(lake.url)
    else:
        frame = lakelog.spark.read(spark, lake.url, "db", "t", columns=["n"], with_writer=True)
    assert frame.columns == ["n", "_writer"]
    snapshot = lake.snapshot("db")
    wanted = sorted(
        (number, name)
        for name in ("both", "days", "none", "told")
        for number in snapshot.to_arrow("t", ["n"], writer=name)["n"].to_pylist()
    )
    assert sorted(map(tuple, frame.collect())) == wanted
    of_one = frame.where("_writer = 'none' AND n > 5")
    assert sorted(row.n for row in of_one.collect()) == [6, 7, 8, 9, 10, 11, 12, 1000]
    if road in ("own reader", "format"):
        assert lakelog.spark.files_read(of_one) == (2, 26)
    assert {row[0] for row in frame.select("_writer").distinct().collect()} == {
        "both", "days", "none", "told",
    }  # fmt: skip


def test_who_wrote_rows_of_files_with_deleted_ones(spark, tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    for name in ("u", "v"):
        with catalog.writer(name, "db") as writer:
            with writer.transaction() as tx:
                tx.write("t", pa.table({"p": [1, 1, 2], "n": [1, 2, 3]}), partition_by=["p"])
            with writer.transaction() as tx:
                tx.delete("t", "n = 2", mode="rows")
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t", with_writer=True)
    wanted = [(1, 1, "u"), (1, 1, "v"), (2, 3, "u"), (2, 3, "v")]
    assert sorted(map(tuple, frame.collect())) == wanted
    narrow = lakelog.spark.read(
        spark, str(tmp_path), "db", "t", where="p = 1", columns=["n"], writer="v", with_writer=True
    )
    assert [tuple(row) for row in narrow.collect()] == [(1, "v")]
    assert "_writer" not in lakelog.spark.read(spark, str(tmp_path), "db", "t").columns


def test_a_column_that_is_called_so(spark, tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"_writer": ["ada"], "n": [1]}))
    url = str(tmp_path)
    plain = lakelog.spark.read(spark, url, "db", "t")
    assert [tuple(row) for row in plain.collect()] == [("ada", 1)]
    with pytest.raises(UsageError, match="has a column '_writer' of its own"):
        lakelog.spark.read(spark, url, "db", "t", with_writer=True)
    beside = lakelog.spark.read(spark, url, "db", "t", columns=["n"], with_writer=True)
    assert [tuple(row) for row in beside.collect()] == [(1, "w")]
    with pytest.raises(UsageError, match="withWriter is 'maybe'"):
        LakelogDataSource(
            {"path": url, "database": "db", "table": "t", "withWriter": "maybe"}
        ).schema()


def test_columns_that_changed_their_names(spark, tmp_path):
    """The files call one column as another one is called by now."""
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": [1, 2], "b": ["x", "y"]}), partition_by=["a"])
        for names in (("a", "c"), ("b", "a"), ("c", "b")):
            with writer.transaction() as tx:
                tx.evolve("t", rename={names[0]: names[1]})
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    wanted = rows_of(catalog.snapshot("db").to_arrow("t", ["a", "b"]))
    assert rows(frame.select("a", "b")) == wanted == ["('x', 1)", "('y', 2)"]
    assert lakelog.spark.files_read(frame.where("b = 2")).read == 1
    assert rows(frame.where("b = 2").select("a")) == ["('y',)"]
    assert rows(frame.where("a = 'x'").select("b")) == ["(1,)"]


def test_more_ways_to_partition_than_relations(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(file_groups, "_MAX_SHARES", 2)
    columns = {name: [1, 2, 3, 4] for name in "abcdn"}
    catalog = lakelog.open_catalog(str(tmp_path))
    for count in range(1, 5):
        with catalog.writer(f"w{count}", "db") as writer, writer.transaction() as tx:
            shifted = {name: [0, *values[1:]] for name, values in columns.items()}
            tx.write("t", pa.table(columns), partition_by=list("abcd")[:count])
            tx.write("t", pa.table({**shifted, "a": [7, 7, 7, 7]}), partition="a=7")
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    assert frame._jdf.queryExecution().analyzed().toString().count("Relation") == 2
    assert rows(frame) == rows_of(catalog.snapshot("db").to_arrow("t"))
    assert frame.where("a = 7 AND b = 2").count() == 4


def test_frames_with_partition_columns_are_like_any_other(spark, lake):
    frame = lakelog.spark.read(spark, lake.url, "db", "t", writer="both")
    found = frame.select("n", "_metadata.file_name").where("n = 3").collect()
    assert [row.n for row in found] == [3]
    assert frame.join(frame.selectExpr("day", "n m"), "day").count() == 18 * 6
    again = lakelog.spark.read(spark, lake.url, "db", "t", writer="both")
    frame.cache()
    try:
        assert frame.count() == 18
        assert "InMemoryTableScan" in plan_text(again.where("day = date '2026-11-02'"))
        assert again.where("day = date '2026-11-02'").count() == 6
    finally:
        frame.unpersist()
    only = lakelog.spark.read(spark, lake.url, "db", "u")
    assert [tuple(row) for row in only.collect()] == [(3000, DAYS[2], None)]
