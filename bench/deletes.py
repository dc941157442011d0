"""Read a table of which one row in a hundred was deleted, beside the same files with nothing
deleted: by a predicate that readers decide, and by row numbers.

    python bench/deletes.py [--rows 10000000] [--files 40] [--times 5] [--by duckdb]

Each reading is a fresh process that opens the newest snapshot and reads all rows, twice. Processor
time, the least of all processes, says more than the time where others use the machine.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import tables
from lakelog import open_catalog

WAYS = {
    "to_arrow": """
import lakelog
found["rows"] = lakelog.open_catalog(job["url"]).snapshot("db").to_arrow("t").num_rows
""",
    "scan, batch by batch": """
import lakelog
batches = lakelog.open_catalog(job["url"]).snapshot("db").scan("t")
found["rows"] = sum(batch.num_rows for batch in batches)
""",
    "to_duckdb, sum": """
import lakelog, duckdb
connection = lakelog.open_catalog(job["url"]).snapshot("db").to_duckdb()
found["rows"] = connection.sql("select count(*), sum(value), max(name) from t").fetchall()[0][0]
""",
    "to_polars, sum": """
import lakelog, polars as pl
lazy = lakelog.open_catalog(job["url"]).snapshot("db").to_polars("t")
asked = lazy.select(pl.len(), pl.col("value").sum(), pl.col("name").max())
found["rows"] = asked.collect().item(0, 0)
""",
}
DELETED = {"nothing": None, "1 %, a predicate": "predicate", "1 %, row numbers": "rows"}


def fill(url: str, files: int, count: int, mode: str | None) -> int:
    """A table of so many rows, one in a hundred of each file deleted. Returns how many are left."""
    deleted = 0
    with open_catalog(url).writer("w", "db") as writer:
        for number in range(files):
            random = np.random.default_rng(number)
            names = pa.array([f"station-{n:04}" for n in range(10_000)])
            batch = {
                "id": np.arange(number * count, (number + 1) * count),
                "value": random.random(count),
                "hundredth": random.integers(0, 100, count, dtype=np.int32),
                "name": names.take(pa.array(random.integers(0, 10_000, count))),
            }
            deleted += int((batch["hundredth"] == 7).sum())
            with writer.transaction() as tx:
                tx.write("t", pa.table(batch))
        if mode is None:
            return files * count
        with writer.transaction() as tx:
            tx.delete("t", "hundredth = 7", mode=mode)
    return files * count - deleted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--by", default="", help="only ways of reading with this in their name")
    args = parser.parse_args()
    print(f"## All of {args.rows:,} rows in {args.files} files, 1 % of them deleted")
    beside = "beside nothing deleted"
    tables.head("by", "deleted", "first", "again", beside, "processor time, again", beside)
    with tempfile.TemporaryDirectory() as folder:
        left = {
            name: fill(str(Path(folder, str(mode))), args.files, args.rows // args.files, mode)
            for name, mode in DELETED.items()
        }
        for by, script in WAYS.items():
            if args.by not in by:
                continue
            whole: dict[str, float] = {}
            for name, mode in DELETED.items():
                url = str(Path(folder, str(mode)))
                found = tables.asked_twice(script, {"url": url}, args.times)
                assert found["rows"] == left[name], (name, found)
                whole = whole or found
                taken = {key: f"{found[key] * 1e3:.0f} ms" for key in ("s", "again_s", "cpu_s")}
                ratio = {key: f"{found[key] / whole[key]:.2f}x" for key in taken}
                again, cpu = ((taken[key], ratio[key]) for key in ("again_s", "cpu_s"))
                tables.row(by, name, taken["s"], *again, *cpu)


if __name__ == "__main__":
    main()
