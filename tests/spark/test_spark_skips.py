"""What a query's own filters skip, and what they must not."""

from __future__ import annotations

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.commit import adopt
from lakelog.catalog.data.footers.read import read_footer
from lakelog.catalog.read.statistics import StatisticsWarning
from lakelog.errors import LakelogError
from lakelog.spark import file_index
from lakelog.spark.arrow_types import spark_schema
from lakelog.spark.filters import FileSkipper
from lakelog.testing.known_files import known_files
from own_files import add_own

FILES = 12
SKIPS = {
    "n > 100": 3,
    "100 < n": 3,
    "N > 100": 3,
    "n = 30.5": 0,
    "n > 100.5": 3,
    "cast(at as bigint) < 1720000000": 12,
    "to_date(at) = date '2024-03-05'": 1,
    "cast(n as decimal(30, 2)) = 25": 1,
    "n in (5, 15, 119)": 2,
    "n in (25, null)": 1,
    "n in (" + ", ".join(map(str, range(20, 35))) + ")": 2,
    "not (n > 30)": 3,
    "n <=> 25": 1,
    "cast(n as int) = 25": 12,
    "n + 1 > 100": 12,
    "n > 100 and length(s) > 1": 3,
    "n > 100 or length(s) > 1": 12,
    "day = date '2024-03-05'": 1,
    "day > timestamp '2024-10-05 00:00:00'": 2,
    "at between timestamp '2024-03-01 00:00:00' and timestamp '2024-04-30 00:00:00'": 2,
    "s like 'k1%'": 3,
    "s = 'k07'": 1,
    "s collate UNICODE_CI = 'K07'": 12,
    "s is null": 0,
    "late is null": 6,
    "late is not null": 6,
    "late > 0": 6,
    "price >= 11.5": 1,
    "price >= 11.5D": 12,
    "nested.x > 100": 12,
    "nested is null": 12,
    "_metadata.file_size > 5": 12,
    "file_size > 5": 7,
    "n > (select 100 + min(id) from range(3))": 12,
}


def month(number: int) -> pa.Table:
    start = dt.datetime(2024, number, 5, 12, tzinfo=dt.UTC)
    numbers = range(number * 10, number * 10 + 10)
    columns = {
        "n": pa.array(numbers, pa.int32() if number < 6 else pa.int64()),
        "day": [start.date()] * 10,
        "at": pa.array([start] * 10, pa.timestamp("us", "UTC")),
        "s": [f"k{number:02}"] * 10,
        "price": pa.array([Decimal(number)] * 10, pa.decimal128(15, 2)),
        "file_size": pa.array([number] * 10, pa.int64()),
        "nested": [{"x": each} for each in numbers],
    }
    return pa.table(columns | ({"late": [1] * 10} if number > 6 else {}))


def make(url: str, tables) -> str:
    catalog = lakelog.open_catalog(url)
    with catalog.writer("oslo", "db") as writer:
        for table in tables:
            with writer.transaction() as tx:
                tx.write("t", table)
    return url


@pytest.fixture(scope="module")
def year(tmp_path_factory) -> str:
    return make(str(tmp_path_factory.mktemp("year")), map(month, range(1, FILES + 1)))


def read(spark, url):
    return lakelog.spark.read(spark, url, "db", "t")


def files_in_run(frame) -> int:
    """As Spark's own metrics have it, once the query has run."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    return plan.collectLeaves().apply(0).metrics().apply("numFiles").value()


@pytest.mark.slow("thirty queries")
def test_files_are_skipped_and_no_row_is_lost(spark, year):
    frame = read(spark, year)
    known = {each.n: each for each in frame.select("n").collect()}
    assert len(known) == 10 * FILES
    rows = frame.selectExpr(
        "n", *(f"({text}) as q{at}" for at, text in enumerate(SKIPS) if "select" not in text)
    ).collect()
    skipped = {}
    for at, (text, expected) in enumerate(SKIPS.items()):
        query = frame.where(text)
        found = lakelog.spark.files_read(query)
        skipped[text] = found.read if found.of else expected  # else Spark itself saw that none is
        if "select" not in text:
            wanted = sorted(row.n for row in rows if row[f"q{at}"] is True)
            assert sorted(row.n for row in query.select("n").collect()) == wanted, text
    assert skipped == SKIPS


def test_a_column_of_metadata_is_none_of_the_table(spark, year):
    """Spark calls it by the plain name `file_size` when it asks for files."""
    frame = read(spark, year)
    query = frame.where("_metadata.file_size > 12 and file_size <= 12")
    assert query.count() == 10 * FILES
    assert lakelog.spark.files_read(query) == (FILES, FILES)


def test_a_user_sees_what_is_skipped(spark, year):
    frame = read(spark, year)
    assert files_in_run(frame.where("n > 100")) == 3
    assert files_in_run(frame) == FILES
    joined = frame.alias("a").join(frame.where("s <= 'k03'").alias("b"), "n").where("a.s > 'k05'")
    assert lakelog.spark.files_read(joined) == (7 + 3, 2 * FILES)
    assert len(frame.where("n > 100").inputFiles()) == FILES  # Spark asks for all there


def test_filters_are_told_apart_and_kept_apart(spark, year):
    """One frame, many queries, several threads at once."""
    frame = read(spark, year)

    def count(number: int) -> tuple[int, int]:
        query = frame.where(f"n >= {number * 10} and s = 'k{number:02}'")
        return query.count(), lakelog.spark.files_read(query).read

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, [*range(1, FILES + 1)] * 2)) == [(10, 1)] * (2 * FILES)
    assert frame.count() == 10 * FILES


def test_a_plan_is_not_taken_for_another_one(spark, year):
    """Scans are equal by files and filters: exchanges and caches are shared by these."""
    frame = read(spark, year)
    both = frame.where("n < 20").union(frame.where("n >= 120")).groupBy("s").count()
    assert sorted(row.s for row in both.collect()) == ["k01", "k12"]
    few = frame.where("n < 20").cache()
    try:
        assert few.count() == 10
        assert frame.where("n >= 120").count() == 10
        assert few.where("n >= 120").count() == 0
    finally:
        few.unpersist()
    joined = frame.where("n < 40").hint("broadcast").join(read(spark, year).where("n > 20"), "n")
    assert joined.count() == 19


def test_old_dates_of_another_calendar(spark, tmp_path, settings, monkeypatch):
    """Spark moves them in files of its older versions: bounds are those of before. Whoever added
    one before that was refused still has it."""
    monkeypatch.setattr(adopt, "read_new_footer", read_footer)
    url = make(str(tmp_path), [pa.table({"d": [dt.date(2024, 1, 1)], "n": [1]})])
    old = pa.table({"d": [dt.date(1500, 6, 17), dt.date(1500, 6, 18)], "n": [2, 3]})
    path = Path(url, "oslo/db/data/in/old.parquet")
    path.parent.mkdir(parents=True)
    pq.write_table(old.replace_schema_metadata({"org.apache.spark.version": "2.4.5"}), path)
    with lakelog.open_catalog(url).writer("oslo", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", "data/in/old.parquet")
    frame = read(spark, url)
    shown = {row.n: row.d for row in frame.selectExpr("n", "cast(d as string) d").collect()}
    assert shown[2] != "1500-06-17", "Spark moves it"
    for number, day in shown.items():
        query = frame.where(f"d = date '{day}'")
        assert [row.n for row in query.collect()] == [number]
    assert lakelog.spark.files_read(frame.where("d > date '2025-01-01'")).read == 1
    # What has no word of another calendar is in that of today, whatever the session says.
    settings("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    plain = make(str(tmp_path / "plain"), [old])
    given = sorted(row.d for row in read(spark, plain).selectExpr("cast(d as string) d").collect())
    assert given == ["1500-06-17", "1500-06-18"]


class Broken:
    """What answers the JVM with anything but a bit for each file."""

    def __init__(self, answer) -> None:
        self._answer = answer

    def apply(self, filters: str):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    class Java:
        implements = ("java.util.function.Function",)


@pytest.mark.parametrize("answer", [LakelogError("the store is gone"), b"", bytes(9), None, "no"])
def test_no_answer_skips_nothing(spark, write, answer):
    files = known_files([write(f"{at}.parquet", pa.table({"n": [at]})) for at in range(3)])
    schema = spark_schema(pa.schema({"n": pa.int64()}))
    frame = file_index.relation(spark, schema=schema, files=files, skipper=Broken(answer))
    assert [row.n for row in frame.where("n > 1").collect()] == [2]
    assert lakelog.spark.files_read(frame.where("n > 1")) == (3, 3)


def test_what_cant_be_judged_is_said(spark):
    def judge(wanted):
        raise LakelogError("the store is gone")

    target = pa.schema({"n": pa.int64()})
    skipper = FileSkipper(judge, range(3), spark_schema(target).fields, target)
    told = json.dumps(["and", ["=", b"n".hex(), "bigint", 1]])
    with pytest.warns(StatisticsWarning, match="the store is gone: nothing is skipped"):
        assert skipper.apply(told) == b""
