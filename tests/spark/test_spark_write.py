"""`lakelog.spark.write` and `df.write.format("lakelog")` in real Spark: the rows come back in every
engine, one commit holds them, and the log is the one that footers give."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import shutil
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import FencedError, InvalidSchema, LakelogError, OperationInvalid, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.spark.row_batches import (
    ROWS_SETTING,
    LargeRow,
    collected,
    must_be_weighed,
)
from lakelog.spark.write_source import LakelogWriter
from pyspark.sql import functions


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "lake")


def by_write(frame, url, table="t", **options):
    return lakelog.spark.write(frame, url, "db", table, **{"writer": "w"} | options)


def by_source(frame, url, mode="append", **options):
    found = {"database": "db", "table": "t", "writer": "w"} | options
    writer = frame.write.format("lakelog").mode(mode)
    for name, value in found.items():
        writer = writer.option(name, value)
    writer.save(url)


def ids(url, table="t"):
    return sorted(lakelog.open_catalog(url).snapshot("db").to_arrow(table)["id"].to_pylist())


def revisions(url):
    return lakelog.open_catalog(url).history("db")["operation"].to_pylist()


def described(url):
    snapshot = lakelog.open_catalog(url).snapshot("db")
    names = ["path", "size_bytes", "row_count", "partition"]
    files = snapshot.files("t").select(names).sort_by("path").to_pylist()
    return files, snapshot.statistics("t").to_pylist(), snapshot.schema("t")


def of_footers(url, tmp_path):
    """A copy of the lake whose log was lost, and made anew of footers."""
    copy = tmp_path / "copy"
    shutil.copytree(url, copy)
    for name in ("transactions", "segments", "mirror"):
        shutil.rmtree(copy / "w" / "db" / name, ignore_errors=True)
    catalog = lakelog.open_catalog(str(copy))
    execute_rebuild(catalog.store, plan_rebuild(catalog.store, "w", "db"))
    return str(copy)


ALL_TYPES = """
    id, cast(id as tinyint) i8, cast(id as smallint) i16, cast(id as int) i32, id % 2 = 0 flag,
    if(id = 1, double('NaN'), id / 3) f64, if(id = 2, float('NaN'), cast(id as float)) f32,
    cast(id as decimal(5, 2)) small, cast(id as decimal(38, 10)) large,
    if(id = 3, null, concat('name ', id)) text, encode(concat('b', id), 'utf-8') bytes,
    date_add(date'1899-12-30', cast(id as int)) day,
    timestamp'1969-12-31 23:59:59.999999' + make_interval(0, 0, 0, cast(id as int)) at,
    timestamp_ntz'1500-01-01 00:00:00.000001' local,
    make_dt_interval(cast(id as int), 1, 2, 3.5) taking, array(id, null) list,
    map('k', id, 'none', null) pairs,
    named_struct('a', id, 'at', array(timestamp'2020-01-01 00:00:00')) both,
    array(map(id, named_struct('at', timestamp'2020-06-01 12:00:00'))) deep, null nothing
"""
ROW = {
    "id": 1, "i8": 1, "i16": 1, "i32": 1, "flag": False, "f32": 1.0, "small": decimal.Decimal(1),
    "large": decimal.Decimal(1), "text": "name 1", "bytes": b"b1", "day": dt.date(1899, 12, 31),
    "at": dt.datetime(1970, 1, 1, 23, 59, 59, 999999, dt.UTC),
    "local": dt.datetime(1500, 1, 1, 0, 0, 0, 1),
    "taking": dt.timedelta(days=1, hours=1, minutes=2, seconds=3.5), "list": [1, None],
    "pairs": [("k", 1), ("none", None)],
    "both": {"a": 1, "at": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]},
    "deep": [[(1, {"at": dt.datetime(2020, 6, 1, 12, tzinfo=dt.UTC)})]], "nothing": None,
}  # fmt: skip


@pytest.mark.parametrize("way", [by_write, by_source])
def test_all_types_come_back_in_every_engine(spark, url, tmp_path, way, settings):
    frame = spark.range(0, 5, 1, 2).selectExpr(*_columns(ALL_TYPES))
    way(frame, url)
    snapshot = lakelog.open_catalog(url).snapshot("db")
    rows = snapshot.to_arrow("t").sort_by("id")
    row = rows.to_pylist()[1]
    assert math.isnan(row.pop("f64"))
    assert row == ROW
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    found = lakelog.spark.read(spark, url, "db", "t").orderBy("id")
    assert str(found.collect()) == str(frame.orderBy("id").collect())
    others = {"f64", "f32", "taking", "pairs", "deep", "nothing"}  # NaN, or DuckDB's own types
    small = [name for name in rows.column_names if name not in others]
    listed = ", ".join(f'"{name}"' for name in small)
    duck = snapshot.to_duckdb().sql(f"select {listed} from t order by id").to_arrow_table()
    assert duck.to_pylist() == rows.select(small).to_pylist()
    assert described(of_footers(url, tmp_path)) == described(url)


def _columns(text):
    """Expressions of a list, split at commas outside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def test_a_session_of_another_zone_writes_the_same_instants(spark, url, settings):
    settings("spark.sql.session.timeZone", "Asia/Kolkata")
    frame = spark.sql(
        "SELECT 1L id, timestamp'2020-01-01 00:00:00' at, array(timestamp'2020-01-01 00:00:00') all"
    )
    by_write(frame, url)
    row = lakelog.open_catalog(url).snapshot("db").to_arrow("t").to_pylist()[0]
    instant = dt.datetime(2019, 12, 31, 18, 30, tzinfo=dt.UTC)
    assert (row["at"], row["all"]) == (instant, [instant])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("make_ym_interval(1, 2)", "interval year to month"),
        ("parse_json('[1]')", "variant"),
        ("array(make_interval(1))", "interval"),
        ("array(map())", "map<void,void>"),
    ],
)
def test_a_type_that_lakelog_lacks_is_refused_by_name(spark, url, column, words):
    frame = spark.sql(f"SELECT 1 id, {column} AS strange")
    with pytest.raises(InvalidSchema, match=f"'strange' has Spark's type {words}"):
        by_write(frame, url)
    with pytest.raises(Exception, match=f"'strange' has Spark's type {words}|in the table schema"):
        by_source(frame, url)  # or Spark itself refuses it
    assert not list(lakelog.open_catalog(url).store.list(""))


def test_statistics_of_floats_know_nan(spark, url):
    by_write(spark.sql("SELECT 1L id, double('NaN') x UNION ALL SELECT 2L, 5.5D").coalesce(1), url)
    snapshot = lakelog.open_catalog(url).snapshot("db")
    (row,) = [row for row in snapshot.statistics("t").to_pylist() if row["column"] == "x"]
    assert not row["no_nan"]
    assert snapshot.files("t", where="x > 6").num_rows == 1
    assert lakelog.spark.read(spark, url, "db", "t").where("x > 6").count() == 1  # NaN


# --- What is replaced -----------------------------------------------------------------------------


def test_appends_and_overwrites(spark, url, tmp_path):
    frame = spark.range(0, 100, 1, 3)
    done = by_write(frame, url, summary={"why": "test"})
    assert (done.rows, len(done.files), done.commit_info.revision) == (100, 3, 0)
    done = by_write(spark.range(5), url, mode="overwrite", where="id < 10")
    assert (done.rows, done.rows_removed) == (5, 10)
    assert ids(url) == [*range(5), *range(10, 100)]
    by_source(spark.range(200, 202), url)
    by_source(spark.range(150, 160, 1, 2), url, "overwrite", where="id >= 50")
    assert ids(url) == [*range(5), *range(10, 50), *range(150, 160)]
    by_source(spark.range(300, 301), url)  # its footer proves that the overwrite was committed
    assert described(of_footers(url, tmp_path)) == described(url)
    by_source(spark.range(1), url, "overwrite")
    assert ids(url) == [0]
    assert revisions(url) == ["append", "overwrite", "append", "overwrite", "append", "overwrite"]


def test_a_table_can_be_made_of_itself(spark, url):
    by_write(spark.range(10), url)
    own = lakelog.spark.read(spark, url, "db", "t").where("id % 2 = 0")
    by_write(own, url, mode="overwrite")
    assert ids(url) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("way", [by_write, by_source])
def test_rows_beside_what_is_replaced_are_refused(spark, url, way):
    by_write(spark.range(10), url)
    with pytest.raises(Exception, match="don't meet id < 5"):
        way(spark.range(3, 7), url, mode="overwrite", where="id < 5")
    assert ids(url) == [*range(10)]
    assert len(revisions(url)) == 1


def test_errors_of_tasks_are_those_of_lakelog(spark, url):
    with pytest.raises(OperationInvalid, match="don't meet"):
        by_write(spark.range(3, 7), url, mode="overwrite", where="id < 5")


# --- Files ----------------------------------------------------------------------------------------


def test_partitions_and_order(spark, url, tmp_path):
    frame = spark.range(0, 1000, 1, 2).selectExpr("id", "id % 3 AS p", "-id AS down")
    by_write(frame, url, partition_by=["p"], sort_by="down", bloom=["id"])
    snapshot = lakelog.open_catalog(url).snapshot("db")
    files = snapshot.files("t").to_pylist()
    assert sorted({file["partition"] for file in files}) == ["p=0", "p=1", "p=2"]
    assert len(files) == 6
    for file in files:
        down = pq.read_table(f"{url}/w/db/{file['path']}")["down"].to_pylist()
        assert down == sorted(down)
    assert snapshot.files("t", where="p = 1").num_rows == 2
    one = frame.where("p = 1 AND id < 100")
    by_source(one, url, "overwrite", partitionBy='["p"]', where="p = 1")
    assert len(ids(url)) == 1000 - 333 + 33
    by_source(one.limit(1), url)  # its footer proves that the overwrite was committed
    assert described(of_footers(url, tmp_path)) == described(url)


def test_files_are_about_as_large_as_asked_for(spark, url, monkeypatch):
    frame = spark.range(0, 3_000_000, 1, 1).selectExpr("id", "rand(1) AS x")
    done = by_write(frame, url, target_file_size_bytes=5 << 20)
    sizes = [row["size_bytes"] for row in _files(url)]
    assert len(done.files) == len(sizes) == 3  # of a row group each
    assert all(size > 5 << 20 for size in sorted(sizes)[1:])


def _files(url):
    return lakelog.open_catalog(url).snapshot("db").files("t").to_pylist()


def test_a_frame_without_rows_brings_columns_and_no_file(spark, url):
    empty = spark.range(0)
    done = by_write(empty, url)
    assert (done.rows, done.files, done.skipped) == (0, (), False)
    assert lakelog.open_catalog(url).snapshot("db").schema("t").names == ["id"]
    assert by_write(empty, url).commit_info is None  # nothing new to say
    by_write(empty, url, app_id="job", app_version=1)
    assert by_write(empty, url, app_id="job", app_version=1).skipped
    assert len(revisions(url)) == 2


# --- Once -----------------------------------------------------------------------------------------


def test_a_job_that_runs_again_commits_nothing_and_says_so(spark, url, capsys):
    frame = spark.range(10)
    assert not by_write(frame, url, app_id="job", app_version=7).skipped
    before = sorted(lakelog.open_catalog(url).store.list(""), key=lambda info: info.key)
    again = by_write(frame, url, app_id="job", app_version=7)
    assert (again.skipped, again.files, again.rows) == (True, (), 0)
    by_source(frame, url, appId="job", appVersion="6")
    options = {"path": url, "database": "db", "table": "t", "writer": "w"}
    writer = LakelogWriter(options | {"appId": "job", "appVersion": "7"}, frame.schema, False)
    writer.commit([writer.write(iter([]))])  # in this process, for Spark's stderr is elsewhere
    assert "was committed before: nothing was written" in capsys.readouterr().err
    after = sorted(lakelog.open_catalog(url).store.list(""), key=lambda info: info.key)
    assert [info.key for info in after] == [info.key for info in before]  # not one file more
    by_source(frame, url, appId="job", appVersion="8")
    assert ids(url) == sorted([*range(10)] * 2)


def test_a_job_that_was_overtaken_is_fenced(spark, url):
    """Another owner opens the writer and commits while the tasks run."""
    overtaken = []

    def overtake(batches):
        with lakelog.open_catalog(url).writer("w", "db") as writer, writer.transaction() as tx:
            if not Path(url, "once").exists():
                Path(url, "once").touch()
                tx.write("t", pa.table({"id": [100]}))
        yield from batches

    by_write(spark.range(1), url)
    for way in (by_write, by_source):
        frame = spark.range(0, 3, 1, 1).mapInArrow(overtake, "id long")
        error = FencedError if way is by_write else Exception
        with pytest.raises(error, match="taken over writer"):
            way(frame, url)
        overtaken.append(ids(url))
        Path(url, "once").unlink()
    assert overtaken == [[0, 100], [0, 100, 100]]


def test_guests_write_beside_the_owner(spark, url):
    with lakelog.open_catalog(url).writer("w", "db") as owner:
        with owner.transaction() as tx:
            tx.write("t", pa.table({"id": [50]}))
        by_write(spark.range(2), url, shared=True)
        by_source(spark.range(2, 3), url, shared="true")
        with owner.transaction() as tx:
            tx.write("t", pa.table({"id": [51]}))
    assert ids(url) == [0, 1, 2, 50, 51]


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "ignore"}, "mode= can't be 'ignore'"),
        ({"where": "id < 5"}, "mode='append' replaces none"),
        ({"partition_by": "id"}, "list of names"),
        ({"partition_by": ["nope"]}, "no column 'nope'"),
        ({"sort_by": ["nope"]}, "no column 'nope' to be sorted by"),
        ({"target_file_size_bytes": 0}, "can't be 0"),
        ({"bloom": ["nope"]}, "nope"),
        ({"app_id": "job"}, "app_id and app_version go together"),
        ({"mode": "overwrite", "where": "nope < 5"}, "nope"),
        ({"writer": "_w"}, "_w"),
    ],
)
def test_arguments_that_cannot_be(spark, url, options, words):
    with pytest.raises(LakelogError, match=words):
        by_write(spark.range(3), url, **options)
    assert not list(lakelog.open_catalog(url).store.list("w/db/data/"))


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        ("append", {"writer": ""}, r"needs the option 'writer'. Give it: e.g. .option\('writer'"),
        ("append", {"table": ""}, "needs the option 'table'"),
        ("append", {"database": ""}, "needs the option 'database'"),
        ("append", {"partitionby": "p"}, "no JSON list"),
        ("append", {"wher": "p"}, "has no option 'wher'"),
        ("append", {"asOf": "2020-01-01T00:00:00Z"}, "(?i)has no option 'asof'"),
        ("append", {"where": "id < 5"}, "replaces none"),
        ("append", {"shared": "maybe"}, "Give true or false"),
        ("append", {"appId": "a", "appVersion": "x"}, "no whole number"),
        ("ignore", {}, "Append"),
        ("errorifexists", {}, "Append"),
    ],
)
def test_options_that_cannot_be(spark, url, mode, options, words):
    with pytest.raises(Exception, match=words):
        by_source(spark.range(3), url, mode, **options)
    assert not list(lakelog.open_catalog(url).store.list(""))


def test_a_stream_and_a_store_in_memory_are_refused(spark, url):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="foreachBatch"):
        by_write(stream, url)
    with pytest.raises(UsageError, match="other processes"):
        by_write(spark.range(3), "memory://here")


@pytest.mark.parametrize("number", ["10000", "777"])
def test_settings_of_batches_are_as_before(spark, url, settings, number):
    settings(ROWS_SETTING, number)
    before = spark.conf.getAll
    by_write(spark.range(10), url)
    assert spark.conf.getAll == before


def test_large_rows_go_in_batches_that_are_weighed(spark, url):
    """One of them ends the first attempt; its transaction is given up, and nothing of it shows."""
    texts = "concat(id, repeat('x', if(id = 77, 9000, 1)))"
    frame = spark.range(0, 100, 1, 2).selectExpr("id", f"{texts} AS text")
    done = by_write(frame, url)
    assert (done.rows, done.commit_info.revision) == (100, 0)
    found = lakelog.open_catalog(url).snapshot("db").to_arrow("t")
    assert sorted(map(len, found["text"].to_pylist()))[-2:] == [3, 9002]
    assert sorted(found["id"].to_pylist()) == list(range(100))


def test_small_rows_are_not_weighed(spark, url):
    frame = spark.range(10).selectExpr("id", "CAST(id AS STRING) AS text")
    assert not must_be_weighed(frame)
    assert must_be_weighed(frame.selectExpr("array(text) AS many"))
    large = spark.range(1).selectExpr("repeat('x', 9000) AS t")
    with pytest.raises(LargeRow):
        collected(large, lambda batches: (b for b in batches if not b), weighed=False)


def test_columns_that_make_texts_are_made_once(spark, url):
    calls = spark.sparkContext.accumulator(0)

    def make(number):
        calls.add(1)
        return f"text {number}"

    text = functions.udf(make, "string")("id").alias("text")
    assert by_write(spark.range(0, 100, 1, 2).select("id", text), url).rows == 100
    assert calls.value == 100


def test_columns_that_differ_in_case_alone_are_written(spark, url):
    frame = spark.createDataFrame([("x", "y"), ("v", "w")], "a string, A string").coalesce(1)
    by_write(frame, url, sort_by="A", partition_by=["a"])
    found = lakelog.open_catalog(url).snapshot("db").to_arrow("t").sort_by("a")
    assert found.to_pylist() == [{"a": "v", "A": "w"}, {"a": "x", "A": "y"}]
