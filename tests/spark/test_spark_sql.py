"""A lake as a catalog of Spark's SQL: what it shows, at which cut, and what it leaves out."""

from __future__ import annotations

import datetime as dt
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "where"))

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.errors import InvalidName, LakelogError, UsageError
from lakelog.spark import sql_catalog
from lakes import build
from newer_spark import SOME_COLUMNS, needs


@pytest.fixture
def lake(spark, tmp_path):
    """Two writers with two tables, of which one drifts; attached as `lake`."""
    catalog = lakelog.open_catalog(str(tmp_path))
    for writer, place in (("oslo", 0), ("rome", 10)):
        with catalog.writer(writer, "weather") as opened:
            for month in range(3):
                hour = pa.array([place + month], pa.int32() if month else pa.int64())
                rows = pa.table({"hour": hour, "temp": [float(place + month)]})
                with opened.transaction() as tx:
                    tx.write("hourly", rows)
                    tx.write("sites", pa.table({"hour": hour, "site": [f"{writer}{month}"]}))
    lakelog.spark.attach(spark, "lake", catalog.url)
    yield catalog
    spark.sql("USE spark_catalog.default")
    assert lakelog.spark.detach(spark, "lake")
    assert not lakelog.spark.detach(spark, "lake")


def rows_of(spark, text):
    return [tuple(row) for row in spark.sql(text).collect()]


def commit(catalog, rows, table="hourly", writer="oslo"):
    with catalog.writer(writer, "weather") as opened, opened.transaction() as tx:
        tx.write(table, pa.table(rows))


def test_what_there_is(spark, lake):
    assert rows_of(spark, "SHOW NAMESPACES IN lake") == [("weather",)]
    shown = rows_of(spark, "SHOW TABLES IN lake.weather")
    assert [row[1] for row in shown] == ["hourly", "sites"]
    columns = rows_of(spark, "DESCRIBE TABLE lake.weather.hourly")
    assert [row[:2] for row in columns] == [("hour", "bigint"), ("temp", "double")]
    assert ("lake",) in rows_of(spark, "SHOW CATALOGS")
    assert spark.catalog.tableExists("lake.weather.hourly")
    assert not spark.catalog.tableExists("lake.weather.nothing")
    spark.sql("USE lake.weather")
    assert spark.table("sites").count() == 6  # no view of this session has that name


def test_points_in_time(spark, lake):
    token = lake.snapshot("weather").token
    half = lake.snapshot("weather", {"oslo": 1}).token
    lake.tag("half", half)
    commit(lake, {"hour": [99], "temp": [9.5]})
    count = "SELECT count(*) FROM lake.weather.hourly"
    now = dt.datetime.now(dt.UTC).isoformat()
    wanted = {
        "": 7,
        f"VERSION AS OF '{token}'": 6,
        f"VERSION AS OF '{half}'": 2,
        "VERSION AS OF '@half'": 2,
        "VERSION AS OF 'oslo=3,rome=0'": 5,
        f"TIMESTAMP AS OF '{now}'": 7,
        f"VERSION AS OF '{now}'": 7,
    }
    assert {each: rows_of(spark, f"{count} {each}")[0][0] for each in wanted} == wanted
    both = f"SELECT now.hour FROM lake.weather.hourly now LEFT ANTI JOIN lake.weather.hourly \
        VERSION AS OF '{token}' AS before ON now.hour = before.hour"
    assert rows_of(spark, both) == [(99,)]
    for point in (half, "@half"):
        lakelog.spark.attach(spark, "lake", lake.url, as_of=point)  # in the place of the other one
        assert rows_of(spark, count) == [(2,)]
    read = lakelog.spark.read(spark, lake.url, "weather", "hourly", as_of="@half")
    assert read.count() == 2
    changed = lakelog.spark.changes(spark, lake.url, "weather", "hourly", since="@half")
    assert changed.count() == 5


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("SELECT * FROM lake.weather.nothing", "AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lake.nothing.hourly", "AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lake.a.b.hourly", "AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SHOW TABLES IN lake.nothing", "AnalysisException", "SCHEMA_NOT_FOUND"),
        ("SELECT * FROM lake.weather.hourly VERSION AS OF 1", "", "2 writers"),
        ("SELECT * FROM lake.weather.hourly VERSION AS OF 'x'", "", "no point in time"),
        ("SELECT * FROM lake.weather.hourly VERSION AS OF 'ronda=1'", "", "ronda"),
        ("SELECT * FROM lake.weather.hourly TIMESTAMP AS OF '1999-01-01'", "", "lakelog log"),
        ("SELECT * FROM lake.weather.hourly TIMESTAMP AS OF '+20000-01-01'", "", "1 to 9999"),
        ("DROP TABLE lake.weather.hourly", "UnsupportedOperationException", "lakelog drop"),
        ("CREATE TABLE lake.weather.t (a int)", "UnsupportedOperationException", "first commit"),
        ("ALTER TABLE lake.weather.hourly ADD COLUMN a int", "", "lakelog schema --evolve"),
        ("CREATE NAMESPACE lake.other", "UnsupportedOperationException", "first writer"),
    ],
)
def test_errors_say_what_to_do(spark, lake, text, name, says):
    with pytest.raises(Exception, match=says) as error:
        spark.sql(text).collect()
    assert type(error.value).__name__ == (name or type(error.value).__name__)
    assert "Traceback" not in str(error.value)


def test_a_query_is_of_one_cut(spark, lake, monkeypatch):
    """Another commits after the query has looked up its first table."""
    looked_up = sql_catalog._Answers._table

    def then_commit(self, database, table, *rest):
        found = looked_up(self, database, table, *rest)
        number = 50 + len(lake.history("weather"))
        commit(lake, {"hour": [number], "temp": [0.0]})
        commit(lake, {"hour": [number], "site": ["new"]}, "sites")
        return found

    monkeypatch.setattr(sql_catalog._Answers, "_table", then_commit)
    joined = "SELECT count(*) FROM lake.weather.{} JOIN lake.weather.{} USING (hour)"
    assert rows_of(spark, joined.format("hourly", "sites")) == [(6,)]
    assert rows_of(spark, joined.format("sites", "hourly")) == [(8,)]  # but the next one sees more
    nested = "SELECT * FROM lake.weather.sites WHERE hour IN (SELECT hour FROM lake.weather.hourly)"
    assert rows_of(spark, f"WITH a AS ({nested}) SELECT count(*) FROM a") == [(10,)]


def test_a_frame_stays_where_it_was_made(spark, lake):
    frame = spark.table("lake.weather.hourly")
    assert frame.count() == 6
    commit(lake, {"hour": [99], "temp": [9.5]})
    assert frame.count() == 6
    assert spark.table("lake.weather.hourly").count() == 7


def test_what_is_cached_is_of_its_cut(spark, lake):
    count = "SELECT count(*) FROM lake.weather.hourly"
    spark.sql("CACHE TABLE lake.weather.hourly")
    commit(lake, {"hour": [99], "temp": [9.5]})
    spark.sql("REFRESH TABLE lake.weather.hourly")
    assert rows_of(spark, count) == [(7,)]
    spark.sql("UNCACHE TABLE lake.weather.hourly")
    assert rows_of(spark, count) == [(7,)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SELECT * FROM lake.weather.hourly WHERE temp > 11.5", 1),
        ("SELECT * FROM (SELECT hour + 1 AS h, temp AS t FROM lake.weather.hourly) WHERE t < 1", 1),
        ("SELECT hour FROM lake.weather.hourly VERSION AS OF 'oslo=1' WHERE hour = 1", 1),
        ("SELECT a.hour FROM lake.weather.hourly a JOIN lake.weather.hourly b USING (hour) "
         "WHERE a.hour = 12", 2),
        ("SELECT hour FROM lake.weather.hourly WHERE hour = 1 UNION ALL "
         "SELECT hour FROM lake.weather.sites WHERE hour > 11", 2),
        ("SELECT site FROM lake.weather.sites s WHERE EXISTS "
         "(SELECT * FROM lake.weather.hourly h WHERE h.hour = s.hour AND h.temp = 2) "
         "AND s.hour = 2", 2),
    ],
)  # fmt: skip
def test_files_are_skipped(spark, lake, text, read):
    frame = spark.sql(text)
    assert lakelog.spark.files_read(frame).read == read
    assert frame.count() == (2 if "UNION" in text else 1)


def test_only_the_columns_asked_for_are_read(spark, lake):
    frame = spark.sql("SELECT max(site) FROM lake.weather.sites")
    (scan,) = [line for line in _plan(frame).splitlines() if "ReadSchema" in line]
    assert scan.endswith("ReadSchema: struct<site:string>")


def _plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_rows_are_those_of_read(spark, tmp_path, settings):
    """Over tables whose types drift, with files that only the data source can read."""
    settings("spark.sql.session.timeZone", "UTC")
    draw = random.Random(7)
    catalog, database = build(str(tmp_path), draw, 6)
    with catalog.writer("w0", database) as writer, writer.transaction() as tx:
        tx.delete("t", "i < 5", mode="rows")
    lakelog.spark.attach(spark, "drawn", catalog.url)
    columns = lakelog.spark.read(spark, catalog.url, database, "t").columns
    for condition in ["true", "row % 3 = 0", "i > 10 OR f IS NULL", "s LIKE 'key%' AND n < 20"]:
        if any(name in condition and name not in columns for name in ("i", "f", "n", "s")):
            continue
        wanted = lakelog.spark.read(spark, catalog.url, database, "t").where(condition)
        found = spark.sql(f"SELECT * FROM drawn.{database}.t WHERE {condition}")
        assert found.schema == wanted.schema
        assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect())), condition
    lakelog.spark.detach(spark, "drawn")


@pytest.mark.parametrize("name", ["", "a b", "spark_catalog", "taken", "system"])
def test_names_that_are_refused(spark, lake, settings, name):
    settings_key = "spark.sql.catalog.taken"
    spark.conf.set(settings_key, "org.example.Missing")
    try:
        with pytest.raises(InvalidName):
            lakelog.spark.attach(spark, name, lake.url)
    finally:
        spark.conf.unset(settings_key)


def test_rows_are_inserted(spark, lake):
    with pytest.raises(Exception, match="does not support append"):
        spark.sql("INSERT INTO lake.weather.hourly VALUES (1, 1.0)")
    with pytest.raises(UsageError, match="can't be written to"):
        lakelog.spark.attach(spark, "lake", lake.url, as_of={"oslo": 0}, writer="sql")
    told: list[lakelog.spark.Stages] = []
    lakelog.spark.attach(spark, "lake", lake.url, writer="sql", progress=told.append)
    spark.sql("INSERT INTO lake.weather.hourly VALUES (50, 0.5), (51, null)")
    assert told[-1].tasks_done == told[-1].tasks > 0
    spark.sql("INSERT INTO lake.weather.hourly SELECT hour + 50, null FROM lake.weather.hourly")
    assert lake.snapshot("weather").to_arrow("hourly").num_rows == 16
    spark.range(2, 4).selectExpr("id AS hour").createOrReplaceTempView("more")
    spark.sql("INSERT OVERWRITE lake.weather.hourly (hour, temp) SELECT hour + 50, null FROM more")
    own = lake.snapshot("weather").to_arrow("hourly", ["hour"], writer="sql")
    assert sorted(own["hour"].to_pylist()) == [52, 53]  # of this writer alone
    assert rows_of(spark, "SELECT count(*) FROM lake.weather.hourly") == [(8,)]
    done = lake.history("weather", "sql")["operation"].to_pylist()
    assert done == ["append", "append", "overwrite"]
    told.clear()
    spark.sql("DELETE FROM lake.weather.hourly WHERE hour % 100 = 53")
    assert told[-1].tasks_done == told[-1].tasks > 0
    with pytest.raises(Exception, match="CANNOT_SAFELY_CAST"):
        spark.sql("INSERT INTO lake.weather.hourly VALUES ('x', 0.5)")


@needs(SOME_COLUMNS)
def test_columns_that_an_insert_leaves_out_are_null(spark, lake):
    lakelog.spark.attach(spark, "lake", lake.url, writer="sql")
    spark.sql("INSERT INTO lake.weather.hourly (hour) VALUES (50)")
    found = rows_of(spark, "SELECT hour, temp FROM lake.weather.hourly WHERE hour = 50")
    assert found == [(50, None)]
    spark.sql("INSERT OVERWRITE lake.weather.hourly (temp) VALUES (0.5)")
    own = lake.snapshot("weather").to_arrow("hourly", writer="sql")
    assert own.to_pylist() == [{"hour": None, "temp": 0.5}]


def test_a_table_is_made_of_a_query(spark, lake):
    lakelog.spark.attach(spark, "lake", lake.url, writer="sql")
    made = "lake.weather.counts PARTITIONED BY (place) AS"
    query = "SELECT left(site, 4) AS place, count(*) AS n FROM lake.weather.sites GROUP BY ALL"
    spark.sql(f"CREATE TABLE {made} {query}")
    files = lake.snapshot("weather").files("counts")
    assert sorted(files["partition"].to_pylist()) == ["place=oslo", "place=rome"]
    assert rows_of(spark, "SELECT n FROM lake.weather.counts WHERE place = 'oslo'") == [(3,)]
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {made} {query}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {made} {query}")
    spark.sql("CREATE TABLE lake.weather.none AS SELECT 1 AS a WHERE false")
    assert rows_of(spark, "SELECT * FROM lake.weather.none") == []
    with pytest.raises(Exception, match="lakelog drop"):
        spark.sql(f"CREATE OR REPLACE TABLE {made} {query}")
    with pytest.raises(Exception, match="partitioned by columns"):
        spark.sql("CREATE TABLE lake.weather.b PARTITIONED BY (bucket(2, a)) AS SELECT 1 AS a")
    for elsewhere in (f"LOCATION '{lake.url}/x'", f"USING parquet OPTIONS (path '{lake.url}/x')"):
        with pytest.raises(Exception, match="are below its writer's prefix"):
            spark.sql(f"CREATE TABLE lake.weather.b {elsewhere} AS SELECT 1 AS a")
    with pytest.raises(Exception, match="leave LOCATION, EXTERNAL"):
        spark.sql("CREATE EXTERNAL TABLE lake.weather.b USING parquet AS SELECT 1 AS a")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql("CREATE TABLE lake.weather.broken AS SELECT 1 / (hour - hour) AS a FROM "
                  "lake.weather.hourly")  # fmt: skip
    assert "broken" not in lake.snapshot("weather").tables()


def test_rows_are_inserted_into_partitions(spark, lake):
    """`test_insert_partitions` says into which."""
    lakelog.spark.attach(spark, "lake", lake.url, writer="sql")

    def partitions():
        files = lake.snapshot("weather").files("sales", writer="sql")
        return sorted(files["partition"].to_pylist())

    days = pa.table({"day": ["mon", "tue"], "shop": [1, 2], "sold": [1.0, 2.0]})
    with lake.writer("till", "weather") as writer, writer.transaction() as tx:
        tx.write("sales", days, partition_by=["day"])
    some = "('mon', 3, 3.0), ('wed/thu', 4, 4.0), (null, 5, 5.0)"
    spark.sql(f"INSERT INTO lake.weather.sales VALUES {some}")
    wanted = ["day=__HIVE_DEFAULT_PARTITION__", "day=mon", "day=wed%2Fthu"]
    assert partitions() == wanted
    mondays = lake.snapshot("weather").to_arrow("sales", partition="day=mon")
    assert sorted(mondays["shop"].to_pylist()) == [1, 3]
    monday = spark.sql("SELECT shop FROM lake.weather.sales WHERE day = 'mon'")
    assert lakelog.spark.files_read(monday).read == 2
    spark.sql("INSERT INTO lake.weather.sales SELECT repeat('x', 300), 6, 6.0")  # makes no name
    assert partitions() == ["", *wanted]
    spark.sql("INSERT OVERWRITE lake.weather.sales (shop, day, sold) VALUES (7, 'fri', null)")
    assert partitions() == ["day=fri"]
    assert rows_of(spark, "SELECT day, sold FROM lake.weather.sales WHERE shop = 7") == [
        ("fri", None)
    ]


def test_views_at_one_cut(spark, lake):
    token = lakelog.spark.create_views(spark, lake.url, "weather", prefix="now_")
    assert token == lake.snapshot("weather").token
    commit(lake, {"hour": [99], "temp": [9.5]})
    assert rows_of(spark, "SELECT count(*) FROM now_hourly JOIN now_sites USING (hour)") == [(6,)]
    lakelog.spark.create_views(spark, lake.url, "weather", {"oslo": 0}, prefix="early_")
    assert rows_of(spark, "SELECT hour, temp FROM early_hourly") == [(0, 0.0)]
    with pytest.raises(LakelogError, match="nothing"):
        lakelog.spark.create_views(spark, lake.url, "nothing")


def test_statements_of_threads_of_one_session_all_commit(spark, tmp_path):
    """In a lake that the first of them makes; each would fence the one before."""
    lakelog.spark.attach(spark, "own", str(tmp_path), writer="sql")
    assert rows_of(spark, "SHOW NAMESPACES IN own") == []
    spark.sql("CREATE TABLE own.db.t AS SELECT 0L AS id, 0L AS n")
    texts = [f"INSERT INTO own.db.t VALUES ({number}, 0)" for number in range(1, 4)]
    texts.append("UPDATE own.db.t SET n = n + 1 WHERE id = 0 AND upper('a') = 'A'")
    with ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(spark.sql, texts))
    lakelog.spark.detach(spark, "own")
    catalog = lakelog.open_catalog(str(tmp_path))
    rows = catalog.snapshot("db").to_arrow("t").to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(0, 1), (1, 0), (2, 0), (3, 0)]
    assert len(catalog.history("db")) == 5


def test_a_lake_that_is_not_there_is_refused_unless_it_can_be_made(spark, tmp_path):
    lakelog.spark.attach(spark, "own", str(tmp_path))
    with pytest.raises(Exception, match="NotACatalog"):
        spark.sql("SHOW NAMESPACES IN own").collect()
    lakelog.spark.detach(spark, "own")
