"""Tables whose columns were changed, by Spark's own reader and by the data source."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog, open_catalog
from lakelog.spark import attach, detach, read, write

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


@pytest.fixture
def anew(tmp_path: Path) -> Catalog:
    """A table of which a column was dropped and came anew, in the log of its only writer."""
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as opened, opened.transaction() as tx:
        tx.write("t", pa.table({"a": [1], "b": [1.0]}))
    catalog.evolve("db", "t", drop=["b"])
    catalog.evolve("db", "t", add={"b": pa.float64()})
    return catalog


def rows_of(catalog: Catalog) -> list[tuple[Any, ...]]:
    rows = catalog.snapshot("db").to_arrow("t").select(["a", "b"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


@pytest.mark.parametrize("road", ["insert", "merge", "write", "df.write"])
def test_another_writer_writes_the_columns_that_the_table_has(spark, anew, road) -> None:
    """With its first write, and with later ones, when its own log knows the table."""
    for number in (2, 3):
        frame = spark.sql(f"SELECT {number}L a, {number}D b")
        if road == "write":
            write(frame, anew.url, "db", "t", writer="new")
        elif road == "df.write":
            options = {"database": "db", "table": "t", "writer": "new"}
            frame.write.format("lakelog").mode("append").options(**options).save(anew.url)
        else:
            insert(spark, anew, frame, by_merge=road == "merge")
    assert rows_of(anew) == [(1, None), (2, 2.0), (3, 3.0)]


def insert(spark: Any, catalog: Catalog, frame: DataFrame, *, by_merge: bool) -> None:
    attach(spark, "anew", catalog.url, writer="new")
    frame.createOrReplaceTempView("some_rows")
    try:
        spark.sql(
            "MERGE INTO anew.db.t USING some_rows s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *"
            if by_merge
            else "INSERT INTO anew.db.t SELECT * FROM some_rows"
        )
    finally:
        detach(spark, "anew")


def test_a_column_that_the_writers_log_lacks_is_that_of_the_others(spark, anew) -> None:
    write(spark.sql("SELECT 2L a"), anew.url, "db", "t", writer="new")
    write(spark.sql("SELECT 3L a, 3D b"), anew.url, "db", "t", writer="new")
    assert rows_of(anew) == [(1, None), (2, None), (3, 3.0)]


def test_batches_of_a_stream_are_written_to_the_columns_that_the_table_has(
    spark, anew, tmp_path
) -> None:
    source = open_catalog(str(tmp_path / "from"))
    with source.writer("w", "db") as opened:
        for number in (2, 3, 4):
            with opened.transaction() as tx:
                tx.write("s", pa.table({"a": [number], "b": [float(number)]}))
    reader = spark.readStream.format("lakelog").option("maxFilesPerTrigger", "1")
    frame = reader.options(database="db", table="s").load(source.url)
    sink = frame.writeStream.format("lakelog").options(database="db", table="t", writer="new")
    sink = sink.option("checkpointLocation", str(tmp_path / "progress"))
    query = sink.trigger(availableNow=True).start(anew.url)
    query.awaitTermination()
    assert len(query.recentProgress) >= 3
    assert rows_of(anew) == [(1, None), (2, 2.0), (3, 3.0), (4, 4.0)]
