"""Read rows by the engines: a full scan beside pyarrow's dataset over the same files, one row and
one hour of many files beside plain DuckDB over the folder and beside deltalake.

    python bench/engines.py [--files 1000] [--rows 1000] [--scan-files 40] [--scan-rows 250000]
                            [--times 5] [--folder F]

Local disk, one table in time order, so that each file has its own hours and ids. Each reading is
a fresh process that opens the newest snapshot and asks, twice: the first time pays for what is
imported on the way. Beside the times: how many bytes the second one read, in how many calls of the
kernel (Linux). The peer's table has the same rows in as many files.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake
import lakelog
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tables
from deltalake.transaction import AddAction

START_US = 1_700_000_000_000_000
SCAN = {
    "lakelog to_arrow": """
import lakelog
found["rows"] = lakelog.open_catalog(job["url"]).snapshot("db").to_arrow("t").num_rows
""",
    "pyarrow.dataset": """
import pyarrow.dataset as ds
found["rows"] = ds.dataset(job["files"]).to_table().num_rows
""",
    "lakelog to_duckdb, sum": """
import lakelog, duckdb
connection = lakelog.open_catalog(job["url"]).snapshot("db").to_duckdb()
found["rows"] = connection.sql("select count(*), sum(temp), max(name) from t").fetchall()[0][0]
""",
    "duckdb read_parquet, sum": """
import duckdb
duckdb.sql("set enable_progress_bar = false")
query = "select count(*), sum(temp), max(name) from read_parquet($files)"
found["rows"] = duckdb.sql(query, params={"files": job["files"]}).fetchall()[0][0]
""",
    "lakelog to_polars, sum": """
import lakelog, polars as pl
lazy = lakelog.open_catalog(job["url"]).snapshot("db").to_polars("t")
asked = lazy.select(pl.len(), pl.col("temp").sum(), pl.col("name").max())
found["rows"] = asked.collect().item(0, 0)
""",
}
LOOK = {
    "lakelog to_arrow": """
import lakelog
snapshot = lakelog.open_catalog(job["url"]).snapshot("db")
found["rows"] = snapshot.to_arrow("t", where=job["where"]).num_rows
""",
    "lakelog to_duckdb": """
import lakelog, duckdb
connection = lakelog.open_catalog(job["url"]).snapshot("db").to_duckdb()
found["rows"] = len(connection.sql("from t where " + job["where"]).fetchall())
""",
    "lakelog to_polars": """
import lakelog, polars as pl
lazy = lakelog.open_catalog(job["url"]).snapshot("db").to_polars("t")
found["rows"] = lazy.filter(pl.sql_expr(job["where"])).collect().height
""",
    "duckdb, the folder": """
import duckdb
duckdb.sql("set enable_progress_bar = false")
query = f"from read_parquet('{job['folder']}/**/*.parquet') where " + job["where"]
found["rows"] = len(duckdb.sql(query).fetchall())
""",
    "deltalake and duckdb": """
import deltalake, duckdb
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false")
connection.register("t", deltalake.DeltaTable(job["peer"]).to_pyarrow_dataset())
found["rows"] = len(connection.sql("from t where " + job["where"]).fetchall())
""",
}


def rows(number: int, count: int) -> pa.Table:
    """Of one file: an id and a minute a row, on from the file before."""
    ids = np.arange(number * count, (number + 1) * count)
    random = np.random.default_rng(number)
    return pa.table(
        {
            "id": ids,
            "at": pa.array(START_US + ids * 60_000_000, pa.timestamp("us", "UTC")),
            "temp": random.random(count),
            "name": pa.array([f"station-{value:04}" for value in random.integers(0, 9999, count)]),
        }
    )


def fill(url: str, files: int, count: int) -> None:
    """A table of ours."""
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for first in range(0, files, 100):
            with writer.transaction() as tx:
                for number in range(first, min(files, first + 100)):
                    tx.write("t", rows(number, count))
        writer.checkpoint()


def fill_peer(url: str, files: int, count: int) -> None:
    """The same rows in the peer's table. The first file it writes itself; the others are written as
    Parquet, and told in commits of a hundred each as it would, which takes minutes and not hours.
    """
    deltalake.write_deltalake(url, rows(0, count))
    for version, first in enumerate(range(1, files, 100), start=1):
        numbers = range(first, min(files, first + 100))
        tables.delta_commit_by_hand(url, version, (peer_file(url, n, count) for n in numbers))
    deltalake.DeltaTable(url).create_checkpoint()


def peer_file(url: str, number: int, count: int) -> AddAction:
    found, path = rows(number, count), f"part-{number:06d}.parquet"
    pq.write_table(found, f"{url}/{path}", compression="snappy")
    bounds = {name: pc.min_max(found[name]) for name in found.column_names}
    stats = {"numRecords": found.num_rows, "nullCount": dict.fromkeys(bounds, 0)}
    for key, which in (("minValues", "min"), ("maxValues", "max")):
        stats[key] = {name: shown(both[which].as_py()) for name, both in bounds.items()}
    size_bytes = Path(url, path).stat().st_size
    return AddAction(path, size_bytes, {}, START_US // 1000, True, json.dumps(stats))


def shown(value: object) -> object:
    """As bounds stand in the peer's statistics."""
    if not isinstance(value, dt.datetime):
        return value
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def show(what: str, scripts: dict[str, str], job: dict, times: int, wanted: int) -> None:
    for name, script in scripts.items():
        found = tables.asked_twice(script, job, times)
        assert found["rows"] == wanted, (name, found)
        first, again = (f"{found[key] * 1e3:.0f} ms" for key in ("s", "again_s"))
        read = f"{found['bytes'] / 1e6:,.2f} MB", f"{found['reads']:,}"
        tables.row(what, name, first, again, *read, f"{found['mb']:.0f} MB")


@contextmanager
def kept(folder: str | None) -> Iterator[str]:
    """A place for the tables: the given one, or one that is gone afterwards."""
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield temporary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000, help="to look something up in")
    parser.add_argument("--rows", type=int, default=1_000, help="in each of these")
    parser.add_argument("--scan-files", type=int, default=40, help="to read in whole")
    parser.add_argument("--scan-rows", type=int, default=250_000, help="in each of these")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", help="keep the tables there, and take those that are there")
    args = parser.parse_args()
    with kept(args.folder) as folder:
        print("\n## Rows by the engines")
        tables.head("what", "by", "first", "again", "read again", "in reads", "memory")
        url = str(Path(folder, "scan"))
        if not Path(url).exists():
            fill(url, args.scan_files, args.scan_rows)
        files = lakelog.open_catalog(url).snapshot("db").files("t")["url"].to_pylist()
        total = args.scan_files * args.scan_rows
        what = f"all of {total:,} rows in {args.scan_files} files"
        show(what, SCAN, {"url": url, "files": files}, args.times, total)
        url, peer = str(Path(folder, "many")), str(Path(folder, "peer"))
        if not Path(peer, "_delta_log", "_last_checkpoint").exists():
            fill(url, args.files, args.rows)
            fill_peer(peer, args.files, args.rows)
        job = {"url": url, "peer": peer, "folder": str(Path(url, "w", "db", "data"))}
        middle = args.files * args.rows // 2 + 60
        where = f"id = {middle}"
        show(f"one row of {args.files:,} files", LOOK, job | {"where": where}, args.times, 1)
        where = f"id between {middle} and {middle + 59}"
        show(f"one hour of {args.files:,} files", LOOK, job | {"where": where}, args.times, 60)


if __name__ == "__main__":
    main()
