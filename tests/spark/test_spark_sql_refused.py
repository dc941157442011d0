"""Statements that a lake in Spark's SQL doesn't serve: each is refused in a few lines, before
anything is written."""

from __future__ import annotations

import lakelog
import lakelog.spark
import pyarrow as pa
import pyspark
import pytest
from lakelog.spark.versions import is_older
from pyspark.sql.functions import expr, lit

DAYS = {"id": list(range(30)), "day": [f"d{number % 3}" for number in range(30)]}
UNKNOWN = "PARSE_SYNTAX_ERROR"  # for an older Spark
DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def lake(spark, tmp_path):
    """The writer `sql` has 30 rows of three days, in a partition for each."""
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("sql", "db") as writer, writer.transaction() as tx:
        tx.write("days", pa.table(DAYS), partition_by=["day"])
    lakelog.spark.attach(spark, "lake", catalog.url, writer="sql")
    yield catalog
    lakelog.spark.detach(spark, "lake")


def refused(lake, run, says: str) -> None:
    before = lake.snapshot("db").token
    with pytest.raises(Exception, match=says) as error:
        run()
    assert len(str(error.value).splitlines()) < 8
    assert lake.snapshot("db").token == before


# --- Columns --------------------------------------------------------------------------------------

MERGE = """MERGE WITH SCHEMA EVOLUTION INTO lake.db.days t USING new s ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
IS_4_0 = is_older(pyspark.__version__, (4, 1))
ON_4_0 = pytest.mark.xfail(IS_4_0, reason="it asks for no columns, and tells nobody")
EVOLVE = {"mergeSchema": "true"}


def merged(spark):
    found = spark.table("new").mergeInto("lake.db.days", expr("lake.db.days.id = new.id"))
    found.withSchemaEvolution().whenNotMatched().insertAll().merge()


@pytest.mark.parametrize(
    "run",
    [
        lambda spark: spark.sql(MERGE),
        pytest.param(merged, marks=ON_4_0),
        lambda spark: spark.sql("INSERT WITH SCHEMA EVOLUTION INTO lake.db.days SELECT * FROM new"),
        lambda spark: spark.sql("INSERT INTO lake.db.days BY NAME SELECT * FROM new"),
        lambda spark: spark.sql("UPDATE lake.db.days SET extra = 1"),
        lambda spark: spark.table("new").writeTo("lake.db.days").options(**EVOLVE).append(),
        lambda spark: spark.table("new").write.options(**EVOLVE).insertInto("lake.db.days"),
    ],
    ids=["merge", "mergeInto", "insert", "by name", "update", "writeTo", "insertInto"],
)  # fmt: skip
def test_a_column_that_the_table_lacks_is_never_left_out(spark, lake, run):
    spark.sql("SELECT 77L AS id, 'd9' AS day, 'x' AS extra").createOrReplaceTempView("new")
    refused(lake, lambda: run(spark), f"(?i)extra|{UNKNOWN}|leaves out the columns that")


def test_schema_evolution_without_new_columns_is_a_plain_merge(spark, lake):
    spark.sql("SELECT 77L AS id, 'd9' AS day").createOrReplaceTempView("new")
    if IS_4_0:  # which doesn't say whether there are any
        for text in (MERGE, MERGE.lower().replace("with", "-- a\n WITH /* b */ \n")):
            refused(lake, lambda text=text: spark.sql(text), "Spark 4.1 or later")
    spark.sql(MERGE.replace("WITH SCHEMA EVOLUTION", "") if IS_4_0 else MERGE)
    assert lake.snapshot("db").to_arrow("days")["id"].to_pylist().count(77) == 1


# --- Partitions -----------------------------------------------------------------------------------


def by_source(frame, lake):
    to = frame.write.format("lakelog").option("database", "db").option("table", "days")
    return to.option("writer", "sql").mode("overwrite").option("path", lake.url)


REPLACING = {
    "INSERT OVERWRITE": lambda spark, lake, frame, how: spark.sql(
        "INSERT OVERWRITE lake.db.days SELECT id, day FROM new"
    ),
    "overwritePartitions": lambda spark, lake, frame, how: frame.writeTo(
        "lake.db.days"
    ).overwritePartitions(),
    "insertInto": lambda spark, lake, frame, how: frame.write.options(**how).insertInto(
        "lake.db.days", overwrite=True
    ),
    "mode": lambda spark, lake, frame, how: (
        frame.write.options(**how).mode("overwrite").insertInto("lake.db.days")
    ),
    "writeTo": lambda spark, lake, frame, how: (
        frame.writeTo("lake.db.days").options(**how).overwrite(lit(True))
    ),
    "format": lambda spark, lake, frame, how: by_source(frame, lake).options(**how).save(),
}


@pytest.mark.parametrize("name", REPLACING)
def test_a_dynamic_overwrite_never_takes_other_partitions(spark, lake, settings, name):
    new = spark.sql("SELECT id, 'd1' AS day FROM range(2)")
    new.createOrReplaceTempView("new")
    says = "partitionOverwriteMode|does not support dynamic overwrite"
    if name not in ("INSERT OVERWRITE", "overwritePartitions"):  # where an option says it
        how = {"partitionOverwriteMode": "dynamic"}
        refused(lake, lambda: REPLACING[name](spark, lake, new, how), says)
    settings(DYNAMIC, "dynamic")
    refused(lake, lambda: REPLACING[name](spark, lake, new, {}), says)


def test_what_replaces_rows_under_dynamic_overwrite(spark, lake, settings):
    settings(DYNAMIC, "dynamic")
    new = spark.sql("SELECT id, 'd1' AS day FROM range(2)")
    by_source(new, lake).option("where", "day = 'd1'").save()
    rows = lake.snapshot("db").to_arrow("days").to_pylist()
    kept = [{"id": id, "day": day} for id, day in zip(*DAYS.values()) if day != "d1"]
    wanted = [*kept, {"id": 0, "day": "d1"}, {"id": 1, "day": "d1"}]
    assert sorted(map(str, rows)) == sorted(map(str, wanted))
    new.write.option("partitionOverwriteMode", "static").insertInto("lake.db.days", overwrite=True)
    assert lake.snapshot("db").to_arrow("days").num_rows == 2


# --- Definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ALTER TABLE lake.db.days ADD COLUMN a int", "a is new.*lakelog schema --evolve"),
        ("ALTER TABLE lake.db.days ALTER COLUMN id TYPE string", "id is to be STRING"),
        ("ALTER TABLE lake.db.days RENAME COLUMN id TO x", "lakelog schema --evolve"),
        ("ALTER TABLE lake.db.days SET TBLPROPERTIES (a = 'b')", "no properties"),
        ("ALTER TABLE lake.db.days SET LOCATION '/x'", "no properties"),
        ("ALTER TABLE lake.db.days RENAME TO lake.db.z", "keep their names"),
        ("ALTER TABLE lake.db.days ADD PARTITION (day = 'x')", "partition"),
        ("COMMENT ON TABLE lake.db.days IS 'x'", "no properties"),
        ("ALTER SCHEMA lake.db SET DBPROPERTIES (a = 'b')", "no properties"),
        ("DROP TABLE lake.db.days", "lakelog drop"),
        ("DROP SCHEMA lake.db", "not dropped"),
        ("TRUNCATE TABLE lake.db.days", "truncate"),
        ("CREATE TABLE lake.db.n LIKE lake.db.days", f"not support|{UNKNOWN}"),
        ("CREATE VIEW lake.db.v AS SELECT 1", "views"),
        ("ANALYZE TABLE lake.db.days COMPUTE STATISTICS", "not supported"),
        ("INSERT INTO lake.db.days PARTITION (day = 'a') SELECT 1", "PARTITION"),
        ("INSERT INTO lake.db.days REPLACE WHERE id = 1 SELECT 1, 'd'", "not support"),
    ],
)
def test_definitions_are_refused_in_a_few_lines(spark, lake, text, says):
    refused(lake, lambda: spark.sql(text), f"(?is){says}")


@pytest.mark.parametrize(
    "text", ["ADD CONSTRAINT c CHECK (id > 0)", "ADD CONSTRAINT c UNIQUE (id)", "DROP CONSTRAINT c"]
)
def test_constraints_are_refused_in_a_few_lines(spark, lake, text):
    refused(lake, lambda: spark.sql(f"ALTER TABLE lake.db.days {text}"), f"constraint|{UNKNOWN}")
