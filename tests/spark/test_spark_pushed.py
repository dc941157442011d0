"""Whatever Spark hands to its Parquet reader, which skips by it, no row is lost: the value of a
condition may be finer, or larger, than what a file can hold."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.spark import native
from own_files import add_own

SECOND = dt.datetime(2020, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
GAP = dt.datetime(1582, 10, 10, 1, 2, 3, tzinfo=dt.UTC)  # java.util's calendar has no such day


@pytest.fixture(params=["file index", "paths"])
def road(request, monkeypatch) -> str:
    if request.param == "paths":
        monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off")
    return request.param


def commit(folder: Path, *tables: pa.Table) -> None:
    with lakelog.open_catalog(str(folder)).writer("w", "db") as writer:
        for table in tables:
            with writer.transaction() as tx:
                tx.write("t", table)


def check(spark: Any, folder: Path, want: dict[str, int]) -> None:
    """How many rows meet each condition: by the frame's `where`, and by that of `read`."""
    from pyspark.sql import functions as F

    def counts(frames: list[Any]) -> dict[str, int]:
        named = [f.select(F.lit(each).alias("by")) for f, each in zip(frames, want, strict=True)]
        rows = reduce(lambda a, b: a.union(b), named).groupBy("by").count().collect()
        return dict.fromkeys(want, 0) | {each.by: each["count"] for each in rows}

    url = str(folder)
    whole = lakelog.spark.read(spark, url, "db", "t")
    in_spark = [each.replace("TIMESTAMPTZ", "TIMESTAMP_LTZ") for each in want]
    assert counts([whole.where(each) for each in in_spark]) == want
    assert counts([lakelog.spark.read(spark, url, "db", "t", where=each) for each in want]) == want


def times(kind: pa.DataType) -> pa.Table:
    nested = pa.array([{"x": SECOND}] * 2, pa.struct({"x": kind}))
    return pa.table({"t": pa.array([SECOND, SECOND], kind), "s": nested})


@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_finer_than_those_of_a_file(spark, settings, tmp_path, road, zone):
    settings("spark.sql.session.timeZone", "UTC")
    commit(tmp_path, times(pa.timestamp("ms", zone)))
    at = "TIMESTAMP '2020-01-01 00:00:01.0005'" if zone is None else (
        "TIMESTAMPTZ '2020-01-01 00:00:01.0005Z'"
    )  # fmt: skip
    at_spark = at.replace("TIMESTAMPTZ", "TIMESTAMP_LTZ").replace("TIMESTAMP '", "TIMESTAMP_NTZ '")
    whole = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    for of in ("t", "s.x"):
        for condition, want in [
            ("{} < {}", 2), ("{} <> {}", 2), ("NOT {} >= {}", 2), ("NOT {} IN ({})", 2),
            ("{} < {} OR t IS NULL", 2), ("{} <= {}", 2), ("{} > {}", 0), ("{} >= {}", 0),
            ("{} = {}", 0),
        ]:  # fmt: skip
            assert whole.where(condition.format(of, at_spark)).count() == want, (of, condition)
    assert lakelog.spark.read(spark, str(tmp_path), "db", "t", where=f"t < {at}").count() == 2


def test_decimals_larger_than_those_of_a_file(spark, tmp_path, road):
    small = pa.array([Decimal("1.50"), Decimal("-2.25")], pa.decimal128(5, 2))
    large = pa.array([Decimal("12345678901234567.00")], pa.decimal128(20, 2))
    commit(tmp_path, pa.table({"t": small}), pa.table({"t": large}))
    check(spark, tmp_path, {
        "t < 21474836.48": 2, "t < 9999999999999999.99": 2, "t <> 21474836.48": 3,
        "NOT t >= 42949672.96": 2, "t > -21474836.49": 3, "t = 1.5": 1, "t > 1.5": 1,
    })  # fmt: skip


def test_decimals_in_bytes(spark, tmp_path):
    path = tmp_path / "w/db/data/in/x.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"t": pa.array([Decimal("1.50")], pa.decimal128(5, 2))}), path)
    commit(tmp_path, pa.table({"t": pa.array([Decimal("5.00")], pa.decimal128(20, 2))}))
    with (
        lakelog.open_catalog(str(tmp_path)).writer("w", "db") as writer,
        writer.transaction() as tx,
    ):
        add_own(tx, "t", "data/in/x.parquet")
    check(spark, tmp_path, {"t < 99999999.99": 2, "t = 1.50": 1})


def test_days_that_the_jvm_has_not(spark, settings, tmp_path, road):
    settings("spark.sql.session.timeZone", "UTC")
    for at in (GAP, SECOND.replace(month=2, day=29)):  # a file each, whose bounds are one day
        times = pa.array([at], pa.timestamp("us", "UTC"))
        commit(tmp_path, pa.table({"d": pa.array([at.date()]), "t": times}))
    check(spark, tmp_path, {
        "d = DATE '1582-10-10'": 1, "d > DATE '1582-10-09' AND d < DATE '1582-10-11'": 1,
        "d IN (DATE '1582-10-10', DATE '1600-01-01')": 1, "d >= DATE '1582-10-10'": 2,
        "t = TIMESTAMPTZ '1582-10-10 01:02:03Z'": 1, "t > TIMESTAMPTZ '1582-10-10 01:02:02Z'": 2,
        "d = DATE '2020-02-29'": 1, "d > DATE '2020-02-28'": 1, "NOT d < DATE '2020-02-29'": 1,
    })  # fmt: skip


def test_row_groups_are_skipped_by_days_and_times(spark, settings, tmp_path):
    """What may be handed down still is."""
    settings("spark.sql.session.timeZone", "UTC")
    count = 4000
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=number) for number in range(count)]
    at = pa.array([dt.datetime.combine(day, dt.time(), dt.UTC) for day in days],
                  pa.timestamp("us", "UTC"))  # fmt: skip
    name = f"data/in/1-{'0' * 32}-0.parquet"  # as lakelog names its own
    path = tmp_path / "w/db" / name
    path.parent.mkdir(parents=True)
    table = pa.table({"d": pa.array(days), "t": at, "i": list(range(count))})
    pq.write_table(table, path, row_group_size=1000)
    with (
        lakelog.open_catalog(str(tmp_path)).writer("w", "db") as writer,
        writer.transaction() as tx,
    ):
        add_own(tx, "t", name)
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    for condition in (
        "d = DATE '2020-02-29'", "d < DATE '2020-02-29'", "t <=> TIMESTAMP '2020-02-29 00:00:00'",
        "t < TIMESTAMP '2020-02-29 00:00:00' AND i >= 0 AND t <> TIMESTAMP '2020-01-01 00:00:00'",
    ):  # fmt: skip
        found = frame.where(condition)
        found.collect()
        assert 0 < _rows_read(found) <= 1000, condition


def _rows_read(frame: Any) -> int:
    """How many rows Spark's reader has given, of a query that has run."""
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    metrics = [leaves.apply(place).metrics() for place in range(leaves.length())]
    return sum(int(each.apply("numOutputRows").value()) for each in metrics)
