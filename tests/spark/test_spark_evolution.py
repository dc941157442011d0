"""Tables whose columns were changed, by Spark's own reader and by the data source."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog, open_catalog
from lakelog.spark import attach, detach, read, register, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

INT, TEXT = pa.int32(), pa.string()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two writers with every change of columns that there is."""
    folder = tmp_path_factory.mktemp("evolving") / "lake"
    catalog = open_catalog(str(folder))
    first = {"a": pa.array(["x", "y"]), "b": pa.array([5, 6], INT), "n": pa.array([1, 2], INT)}
    for writer in ("v", "w"):
        with catalog.writer(writer, "db") as opened, opened.transaction() as tx:
            tx.write("t", pa.table(first))
    catalog.evolve(
        "db", "t", drop=["b"], add={"b": INT, "f": pa.float64()}, default={"b": 50, "f": 0.1}
    )
    more = {"a": pa.array(["z"]), "b": pa.array([5], INT), "n": pa.array([3], INT)}
    with catalog.writer("v", "db") as opened, opened.transaction() as tx:
        tx.write("t", pa.table(more))
    catalog.evolve(
        "db", "t", rename={"a": "n", "n": "a"}, widen={"a": pa.int64()},
        add={"day": pa.date32(), "m": pa.decimal128(9, 2), "ok": pa.bool_(), "nothing": TEXT,
             "at": pa.timestamp("us", "UTC"), "when": pa.timestamp("us")},
        default={"day": dt.date(2024, 2, 29), "m": Decimal("-1.25"), "ok": True,
                 "at": dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC),
                 "when": dt.datetime(2024, 1, 1, 5, 0, 0, 25)},
    )  # fmt: skip
    return folder


def ways(spark: SparkSession, lake: Path, **asked: Any) -> dict[str, DataFrame]:
    options = {"database": "db", "table": "t"}
    if "where" in asked:
        options["where"] = asked["where"]
    from lakelog.spark.session import register

    register(spark)
    return {
        "native": read(spark, str(lake), "db", "t", **asked),
        "format": spark.read.format("lakelog").options(**options).load(str(lake)),
        "source": spark.read.format("lakelog").options(**options, native="false").load(str(lake)),
    }


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=repr)


def wanted(lake: Path, where: str | None = None) -> list[dict[str, Any]]:
    catalog = Catalog(open_catalog(str(lake)).store)
    found = catalog.snapshot("db").to_arrow("t", where=where).to_pylist()
    for row in found:
        row["at"] = row["at"].astimezone().replace(tzinfo=None)  # as Spark gives it to Python
    return sorted(found, key=repr)


def test_spark_reads_what_the_scan_reads(spark: SparkSession, lake: Path) -> None:
    expected = wanted(lake)
    assert {row["b"] for row in expected} == {50, 5}
    assert {row["a"] for row in expected} == {1, 2, 3}
    for way, frame in ways(spark, lake).items():
        assert frame.columns == list(expected[0]), way
        assert rows(frame) == expected, way


@pytest.mark.parametrize(
    "condition", ["b = 5", "b = 50", "a = 2", "n = 'y'", "f > 0", "day IS NULL", "nothing IS NULL"]
)
def test_conditions_mean_the_columns_of_today(
    spark: SparkSession, lake: Path, condition: str
) -> None:
    expected = wanted(lake, condition)
    for way, frame in ways(spark, lake).items():
        assert rows(frame.where(condition)) == expected, way
    for way, frame in ways(spark, lake, where=condition).items():
        assert rows(frame) == expected, way


def test_a_default_that_spark_s_own_reader_can_t_fill_in_is_read_by_the_data_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as opened:
        with opened.transaction() as tx:
            tx.write("t", pa.table({"a": [1]}))
        with opened.transaction() as tx:
            tx.evolve("t", add={"raw": pa.binary()}, default={"raw": b"\x00\xff"})
    with pytest.warns(RuntimeWarning, match="slower"):
        frame = read(spark, str(tmp_path / "lake"), "db", "t")
    assert [bytes(row.raw) for row in frame.collect()] == [b"\x00\xff"]


@pytest.mark.parametrize("road", ["insert", "merge", "write", "df.write"])
def test_who_writes_the_table_first_writes_the_columns_that_it_has(spark, tmp_path, road) -> None:
    """One was dropped and came anew in the log of another writer."""
    url = str(tmp_path / "lake")
    catalog = open_catalog(url)
    with catalog.writer("w", "db") as opened, opened.transaction() as tx:
        tx.write("t", pa.table({"a": [1], "b": [1.0]}))
    catalog.evolve("db", "t", drop=["b"])
    catalog.evolve("db", "t", add={"b": pa.float64()})
    frame = spark.sql("SELECT 2L a, 2D b")
    if road == "write":
        write(frame, url, "db", "t", writer="new")
    elif road == "df.write":
        register(spark)
        options = {"database": "db", "table": "t", "writer": "new"}
        frame.write.format("lakelog").mode("append").options(**options).save(url)
    else:
        attach(spark, "anew", url, writer="new")
        frame.createOrReplaceTempView("rows_of_two")
        spark.sql(
            "INSERT INTO anew.db.t SELECT * FROM rows_of_two" if road == "insert" else
            "MERGE INTO anew.db.t USING rows_of_two s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *"
        )  # fmt: skip
        detach(spark, "anew")
    rows = sorted(catalog.snapshot("db").to_arrow("t").to_pylist(), key=lambda row: row["a"])
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": 2.0}]
