"""What engines ask of a table reaches the log's statistics: a store tells which files were read."""

from __future__ import annotations

import math
import random

import duckdb
import lakelog
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from engine_lakes import watched
from own_files import add_own

FILES = 8


@pytest.fixture
def lake(tmp_path):
    """One table of eight files, ten rows each: `id` counts on, `day` is the file's, `x` holds NaN
    in the second file."""
    catalog = lakelog.open_catalog(str(tmp_path))
    random_ = random.Random(1)
    with catalog.writer("w", "db") as writer:
        for number in range(FILES):
            ids = range(10 * number, 10 * number + 10)
            values = [math.nan if number == 1 and i % 10 == 3 else float(i) for i in ids]
            big = [random_.randbytes(30_000) for _ in ids]
            data = {"id": ids, "day": [f"d{number}"] * 10, "x": values, "big": big}
            with writer.transaction() as tx:
                tx.write("t", pa.table({name: list(column) for name, column in data.items()}))
    seen, reads = watched(catalog)
    snapshot = seen.snapshot("db")
    reads.reset()
    return snapshot, reads


QUERIES = [
    ("id = 42", pl.col("id") == 42, 1),
    ("id between 18 and 21", pl.col("id").is_between(18, 21), 2),
    ("id in (3, 77)", pl.col("id").is_in([3, 77]), 2),
    ("day >= 'd6'", pl.col("day") >= "d6", 2),
    ("id < 5 or day = 'd7'", (pl.col("id") < 5) | (pl.col("day") == "d7"), 2),
    ("x < 9", pl.col("x") < 9, 1),
    ("day is null", pl.col("day").is_null(), 0),
    ("id > 1000", pl.col("id") > 1000, 0),
]


@pytest.mark.parametrize(("sql", "expression", "files"), QUERIES, ids=[q[0] for q in QUERIES])
def test_only_files_that_matter_are_read(lake, sql, expression, files):
    snapshot, reads = lake
    connection, lazy = snapshot.to_duckdb(), snapshot.to_polars("t")
    assert not reads.opened, "nothing is read before it is asked for"
    wanted = snapshot.to_arrow("t", ["id"], where=sql)["id"].to_pylist()
    reads.opened.clear()
    assert [i for (i,) in connection.sql(f"select id from t where {sql}").fetchall()] == wanted
    assert len(reads.opened) == files
    reads.opened.clear()
    assert lazy.filter(expression).select("id").collect()["id"].to_list() == wanted
    # NaN, in the second file, might be less than 9 to Polars, as far as its filter can tell
    assert len(reads.opened) == files + (sql == "x < 9")


def test_nan_is_the_greatest_to_duckdb_and_polars_and_nothing_to_pyarrow(lake):
    snapshot, reads = lake
    wanted = [13, *range(76, 80)]
    found = snapshot.to_duckdb().sql("select id from t where x > 75").fetchall()
    assert [i for (i,) in found] == wanted
    reads.opened.clear()
    lazy = snapshot.to_polars("t")
    assert lazy.filter(pl.col("x") > 75).collect()["id"].to_list() == wanted
    assert len(reads.opened) == 2
    assert lazy.filter(~(pl.col("x") <= 75)).collect()["id"].to_list() == wanted
    dataset = snapshot.dataset("t")
    assert dataset.to_table(filter=pc.field("x") > 75)["id"].to_pylist() == wanted[1:]
    assert snapshot.to_arrow("t", where="x > 75")["id"].to_pylist() == wanted


def test_only_columns_that_matter_are_read(lake):
    snapshot, reads = lake

    def read(work):
        spent = reads.bytes_read
        work()
        return reads.bytes_read - spent

    one, all_ = (
        read(lambda c=columns: snapshot.to_arrow("t", c).num_rows) for columns in (["id"], None)
    )
    assert one < all_
    for work in (
        lambda: snapshot.to_duckdb().sql("select sum(id) from t").fetchall(),
        lambda: snapshot.to_polars("t").select(pl.col("id").sum()).collect(),
        lambda: snapshot.dataset("t").to_table(["id"]),
    ):
        assert read(work) == one


def test_rows_are_counted_by_the_log(lake):
    snapshot, reads = lake
    assert snapshot.dataset("t").count_rows() == 80
    assert not reads.opened
    assert snapshot.dataset("t").head(3)["id"].to_pylist() == [0, 1, 2]
    assert len(reads.opened) < FILES
    assert snapshot.to_polars("t").select(pl.len()).collect().item() == 80
    assert snapshot.to_duckdb().sql("select count(*) from t").fetchall() == [(80,)]


def test_polars_filters_after_the_first_rows_are_taken(lake):
    lazy = lake[0].to_polars("t")
    assert lazy.head(12).filter(pl.col("id") > 9).collect()["id"].to_list() == [10, 11]
    assert lazy.filter(pl.col("id") > 9).head(2).collect()["id"].to_list() == [10, 11]


def test_joins_and_windows(lake):
    snapshot, _ = lake
    connection = snapshot.to_duckdb()
    connection.execute("create table few as select 42 as id, 'here' as word")
    found = connection.sql("select word, day from t join few using (id)").fetchall()
    assert found == [("here", "d4")]
    ranked = "select day, row_number() over (partition by day order by id desc) n, id from t"
    found = connection.sql(f"select id from ({ranked}) where n = 1 order by id").fetchall()
    assert found == [(10 * n + 9,) for n in range(FILES)]
    assert isinstance(connection, duckdb.DuckDBPyConnection)


INF = math.inf
NAN_FILES = [[math.nan, math.nan], [math.nan, None], [1.0, math.nan], [1.0, 2.0], [None, None]]
ASKED = [
    pl.col("x") > 5, pl.col("x") >= INF, pl.col("x") > INF, ~(pl.col("x") <= 5), ~(pl.col("x") > 5),
    ~(pl.col("x") < INF), pl.col("x") == math.nan, ~pl.col("x").is_between(-9, 9),
    pl.col("x").is_nan(), ~pl.col("x").is_nan(), pl.col("x") != 1, ~pl.col("x").is_in([1.0, 2.0]),
    (pl.col("x") > 5) | (pl.col("x") < -5), ~((pl.col("x") < 5) & (pl.col("x") > -5)),
]  # fmt: skip


def test_no_row_with_nan_is_lost_to_polars(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number, values in enumerate(NAN_FILES):
            file = tmp_path / "w/db/data" / f"{number}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            data = pa.table(
                {"x": pa.array(values, pa.float64()), "i": [2 * number, 2 * number + 1]}
            )
            tx.write("t", data)
            pq.write_table(data, file)
            add_own(tx, "foreign", f"data/{number}.parquet")
    snapshot = catalog.snapshot("db")
    for table in ("t", "foreign"):
        frame, lazy = pl.from_arrow(snapshot.to_arrow(table)), snapshot.to_polars(table)
        for asked in ASKED:
            found = lazy.filter(asked).collect()["i"].to_list()
            assert found == frame.filter(asked)["i"].to_list(), asked
