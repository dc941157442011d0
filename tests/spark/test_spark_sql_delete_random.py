"""DELETE of Spark's SQL on random lakes: what goes is what plain Spark finds by the same condition
in a copy, whatever types the files have, and whoever wrote them."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import lakelog.spark
import pytest

sys.path.append(str(Path(__file__).parents[1] / "where"))
sys.path.append(str(Path(__file__).parents[1] / "running"))

from lakelog.spark import sql_changes
from lakes import KINDS, build, predicate
from seeds import base_seed

LAKES, CASES = 2, 7


@pytest.mark.slow("each case is two queries of Spark and a commit")
@pytest.mark.parametrize("number", range(LAKES))
def test_what_goes_is_what_spark_selects(spark, tmp_path, settings, monkeypatch, number):
    settings("spark.sql.session.timeZone", "Australia/Lord_Howe")
    settings("spark.sql.ansi.enabled", number % 2 == 0)
    draw = random.Random(base_seed() * LAKES + number)
    catalog, database = build(str(tmp_path / "lake"), draw, 5)
    known, exact = [], sql_changes.exact_text
    monkeypatch.setattr(
        sql_changes, "exact_text", lambda *given: known.append(exact(*given)) or known[-1]
    )
    rows = lakelog.spark.read(spark, catalog.url, database, "t")
    rows.write.parquet(str(tmp_path / "copy"))
    spark.read.parquet(str(tmp_path / "copy")).createOrReplaceTempView("copy")
    left = [row.row for row in spark.table("copy").select("row").collect()]
    lakelog.spark.attach(spark, "drawn", catalog.url, writer=draw.choice(["w0", "sql"]))
    tried = refused = 0
    while left and tried < CASES:  # an empty table is listed no more
        text = as_spark(predicate(draw))
        # A column is gone once the files that had it are.
        if not names_in(text) <= set(spark.table(f"drawn.{database}.t").columns):
            continue
        try:
            found = {row.row for row in spark.sql(f"SELECT row FROM copy WHERE {text}").collect()}
        except Exception:  # a condition that Spark itself can't decide
            continue
        tried += 1
        before = catalog.snapshot(database).token
        gone, unchanged = [row for row in left if row in found], True
        try:
            spark.sql(f"DELETE FROM drawn.{database}.t WHERE {text}")
            left = [row for row in left if row not in found]
        except Exception as error:
            if "SparkUnsupported" not in str(error):
                raise
            refused += 1
            unchanged = catalog.snapshot(database).token == before
        assert unchanged, text
        there = rows_there(catalog.snapshot(database))
        assert sorted(there) == sorted(left), (text, known[-1], len(gone))
    if left:  # one that lakelog can say exactly, whatever was drawn
        spark.sql(f"DELETE FROM drawn.{database}.t WHERE row = {left.pop()}")
        assert known[-1] is not None
        assert sorted(rows_there(catalog.snapshot(database))) == sorted(left)
    if left:
        by_spark = spark.table(f"drawn.{database}.t").select("row").collect()
        assert sorted(row.row for row in by_spark) == sorted(left)
    lakelog.spark.detach(spark, "drawn")
    assert refused == 0, "each row has a number of its own"


def rows_there(snapshot) -> list[int]:
    """Numbers of the rows; a table whose last file went is listed no more."""
    if "t" not in snapshot.tables():
        return []
    return snapshot.to_arrow("t", ["row"])["row"].to_pylist()


def as_spark(text: str) -> str:
    """A condition of lakelog's as Spark spells it."""
    text = re.sub(r"TIMESTAMP '", "TIMESTAMP_NTZ '", text)
    return re.sub(r"TIMESTAMPTZ '", "TIMESTAMP_LTZ '", text)


def names_in(text: str) -> set[str]:
    bare = re.sub(r"X?'(?:[^']|'')*'", "", text)
    return {name for name in KINDS if re.search(rf"\b{name}\b", bare)}
