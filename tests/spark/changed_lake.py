"""A table of two writers' files that Spark's SQL changes, and how its rows are compared."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager

import lakelog
import lakelog.spark
import pyarrow as pa

ZONE = "America/New_York"
STARTS = dt.datetime(2026, 3, 8, 6, 30, tzinfo=dt.UTC)  # half an hour before the clocks change
COLUMNS = ["id", "place", "site", "temp", "seen", "note"]


def rows_from(place: str, first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "place": [place] * count,
            "site": pa.array([None if n % 7 == 3 else n % 5 for n in numbers], pa.int32()),
            "temp": [[1.5, float("nan"), -0.0, None, 0.0][n % 5] for n in numbers],
            "seen": pa.array(
                [STARTS + dt.timedelta(minutes=20 * n) for n in numbers], pa.timestamp("us", "UTC")
            ),
            "note": [None if n % 4 == 0 else f"Note {n}" for n in numbers],
        }
    )


@contextmanager
def two_writers(spark, folder):
    """Two writers' files of one table, and a third writer for SQL; attached as `lake`."""
    catalog = lakelog.open_catalog(str(folder / "lake"))
    for number, writer in enumerate(("oslo", "rome")):
        with catalog.writer(writer, "db") as opened:
            for part in range(2):
                with opened.transaction() as tx:
                    tx.write("t", rows_from(writer, 20 * number + 10 * part, 10))
    lakelog.spark.attach(spark, "lake", catalog.url, writer="sql")
    yield catalog
    lakelog.spark.detach(spark, "lake")


def sorted_rows(rows) -> list[str]:
    return sorted(map(repr, rows))


def read_by_all(spark, catalog) -> list[str]:
    """The rows of the table, which are the same for `scan`, DuckDB and Spark."""
    snapshot = catalog.snapshot("db")
    scanned = snapshot.to_arrow("t", COLUMNS)
    found = sorted_rows(tuple(row.values()) for row in _utc(scanned).to_pylist())
    duck = snapshot.to_duckdb().sql(f"SELECT {', '.join(COLUMNS)} FROM t").to_arrow_table()
    assert sorted_rows(tuple(row.values()) for row in _utc(duck).to_pylist()) == found
    by_spark = spark.table("lake.db.t").select(*COLUMNS).toArrow()
    assert sorted_rows(tuple(row.values()) for row in _utc(by_spark).to_pylist()) == found
    return found


def _utc(rows: pa.Table) -> pa.Table:
    kinds = rows_from("", 0, 9).schema
    return rows.cast(pa.schema([kinds.field(name) for name in rows.column_names]))


def copy_of(spark, catalog, tmp_path, name: str = "plain") -> str:
    """The same rows as a plain view of Spark's."""
    path = str(tmp_path / name)
    lakelog.spark.read(spark, catalog.url, "db", "t").write.mode("overwrite").parquet(path)
    spark.read.parquet(path).createOrReplaceTempView(name)
    return name


def rows_of(frame) -> list[str]:
    found = frame.select(*COLUMNS).toArrow()
    return sorted_rows(tuple(row.values()) for row in _utc(found).to_pylist())


def commits(catalog) -> dict[str, int]:
    return dict(catalog.snapshot("db").cut.revisions)


def operations(catalog, writer: str = "sql") -> list[str]:
    return catalog.history("db", writer)["operation"].to_pylist()
