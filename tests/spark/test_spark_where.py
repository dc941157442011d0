"""Spark reads the rows that a predicate asks for, and only files that may hold some."""

import random
import sys
from pathlib import Path

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest

sys.path.append(str(Path(__file__).parents[1] / "where"))
sys.path.append(str(Path(__file__).parents[1] / "running"))

from lakelog.errors import InvalidPredicate, UsageError, WriterNotFound
from lakes import build, predicate
from seeds import base_seed

CASES = 12


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("where"))
    catalog = lakelog.open_catalog(url)
    for number, kind in enumerate((pa.int32(), pa.int64(), pa.string())):
        with catalog.writer(f"w{number}", "db") as writer:
            for place in range(3):
                with writer.transaction() as tx:
                    n = pa.array(range(place * 10, place * 10 + 10)).cast(kind)
                    tx.write("t", pa.table({"n": n, "f": [float(place)] * 9 + [float("nan")]}))
    return url


def by_source(spark, url, **options):
    reader = spark.read.format("lakelog").option("database", "db").option("table", "t")
    return reader.options(**options, native="false").load(url)


def test_files_that_can_hold_no_row_are_not_planned(spark, lake):
    frame = lakelog.spark.read(spark, lake, "db", "t", where="n >= 25", columns=["n"], writer="w1")
    assert len(frame.inputFiles()) == 1
    assert sorted(row.n for row in frame.collect()) == list(range(25, 30))


def test_a_column_in_conflict_stops_nobody_who_does_not_ask_for_it(spark, lake):
    with pytest.raises(lakelog.errors.SchemaConflict):
        lakelog.spark.read(spark, lake, "db", "t")
    frame = lakelog.spark.read(spark, lake, "db", "t", columns=["f"], where="f < 1")
    assert frame.columns == ["f"]
    assert frame.count() == 27
    assert lakelog.spark.read(spark, lake, "db", "t", writer="w0", where="f > 1").count() == 12
    assert by_source(spark, lake, columns='["f"]', where="f < 1").count() == 27


def test_what_cant_be_asked_is_refused(spark, lake):
    with pytest.raises(InvalidPredicate, match="upper"):
        lakelog.spark.read(spark, lake, "db", "t", columns=["f"], where="upper(f) = 'A'")
    with pytest.raises(UsageError, match="no column 'g'"):
        lakelog.spark.read(spark, lake, "db", "t", columns=["g"])
    with pytest.raises(WriterNotFound):
        lakelog.spark.read(spark, lake, "db", "t", writer="nobody")
    with pytest.raises(Exception, match="JSON list"):
        by_source(spark, lake, columns="f").count()


@pytest.mark.parametrize("by", ["native", "source"])
def test_rows_are_those_of_scan(spark, tmp_path, by):
    """On random tables and predicates."""
    random_ = random.Random(base_seed())
    catalog, database = build(str(tmp_path), random_, 4)
    snapshot = catalog.snapshot(database)
    for _ in range(CASES):
        text = predicate(random_)
        expected = snapshot.to_arrow("t", ["row"], where=text)["row"].to_pylist()
        if by == "native":
            frame = lakelog.spark.read(
                spark, str(tmp_path), database, "t", where=text, columns=["row"]
            )
        else:
            frame = by_source(spark, str(tmp_path), where=text, columns='["row"]')
        assert sorted(row.row for row in frame.collect()) == sorted(expected), text
