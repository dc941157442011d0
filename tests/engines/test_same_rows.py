"""Rows by every engine, pushed down and skipped, are those that it finds by itself in memory."""

from __future__ import annotations

import random

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from engine_lakes import condition, fill, watched
from lakelog.errors import InvalidPredicate

SEEDS = range(10)
CONDITIONS = 12
ROW = pa.schema({"row": pa.int64()})


def numbers(found: pa.Table) -> list[int]:
    return sorted(found.column("row").to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_engine_finds_the_rows_that_it_finds_without_us(tmp_path, seed):
    random_ = random.Random(seed)
    catalog, reads = watched(fill(tmp_path, random_))
    snapshot = catalog.snapshot("db")
    whole, dataset, lazy = snapshot.to_arrow("t"), snapshot.dataset("t"), snapshot.to_polars("t")
    frame = pl.from_arrow(whole)
    connection = snapshot.to_duckdb()
    connection.register("whole", whole)
    connection.execute("create table own as select * from whole")
    files = snapshot.files("t").num_rows
    skipped = 0
    for _ in range(CONDITIONS):
        asked = condition(random_, whole)
        by_duckdb = connection.execute(f"select row from own where {asked.sql}", asked.values)
        wanted = sorted(row for (row,) in by_duckdb.fetchall())
        reads.opened.clear()
        found = connection.execute(f"select row from t where {asked.sql}", asked.values)
        rows = sorted(row for (row,) in found.fetchall())
        assert rows == wanted, (asked.sql, asked.values)
        skipped += files - len(reads.opened)
        wanted = sorted(frame.filter(asked.polars)["row"].to_list())
        reads.opened.clear()
        found = lazy.filter(asked.polars).select("row").collect()["row"].to_list()
        assert sorted(found) == wanted, asked.polars
        skipped += files - len(reads.opened)
        compare_arrow(random_, dataset, snapshot, whole, asked.arrow)
    assert skipped


def compare_arrow(random_, dataset, snapshot, whole, expression):
    try:
        wanted = numbers(whole.filter(expression))
    except (pa.ArrowException, ValueError):  # pyarrow has no such comparison
        with pytest.raises(InvalidPredicate):
            dataset.to_table(filter=expression)
        return
    way = random_.choice(
        [
            lambda: dataset.to_table(["row"], expression),
            lambda: snapshot.to_arrow("t", ["row"], where=expression),
            lambda: dataset.scanner(["row"], expression).to_table(),
            lambda: dataset.filter(expression).to_table(),
            lambda: pa.Table.from_batches(dataset.to_batches(["row"], expression, 3), ROW),
            lambda: dataset.head(1_000_000, ["row"], expression),
        ]
    )
    assert numbers(way()) == wanted, expression


def test_of_one_writer_and_one_partition(tmp_path):
    snapshot = fill(tmp_path, random.Random(3)).snapshot("db")
    for writer in snapshot.cut.revisions:
        wanted = numbers(snapshot.to_arrow("t", writer=writer))
        assert wanted
        assert numbers(snapshot.dataset("t", writer=writer).to_table()) == wanted
        assert sorted(snapshot.to_polars("t", writer=writer).collect()["row"]) == wanted
        assert sorted(snapshot.to_pandas("t", writer=writer)["row"]) == wanted
    for partition in set(snapshot.files("t")["partition"].to_pylist()):
        wanted = numbers(snapshot.to_arrow("t", partition=partition))
        assert numbers(snapshot.dataset("t", partition=partition).to_table()) == wanted
        assert snapshot.dataset("t", partition=partition).count_rows() == len(wanted)
        assert sorted(snapshot.to_polars("t", partition=partition).collect()["row"]) == wanted


def test_the_rows_keep_their_order(tmp_path):
    snapshot = fill(tmp_path, random.Random(4), files=12).snapshot("db")
    wanted = snapshot.to_arrow("t")["row"].to_pylist()
    assert snapshot.dataset("t").to_table()["row"].to_pylist() == wanted
    assert snapshot.dataset("t").scanner().to_table()["row"].to_pylist() == wanted
    assert snapshot.to_polars("t").collect()["row"].to_list() == wanted
    assert snapshot.to_pandas("t")["row"].tolist() == wanted
    rows = snapshot.to_duckdb().sql("select row from t").fetchall()
    assert [row for (row,) in rows] == wanted
    assert duckdb.sql("select 1").fetchall() == [(1,)]
