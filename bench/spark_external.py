"""Selective queries of Spark over external files, which lakelog lets Spark's reader skip no row
groups and pages of, beside the same files read as plain Parquet, and as lakelog's own.

    python bench/spark_external.py [--files 4] [--rows 4000000] [--group 1000000] [--rounds 5]

Each file is sorted by `id`, and they lie one behind the other. Times are the least of the rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import lakelog
import lakelog.spark
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

QUERIES = {
    "one id": "SELECT * FROM {t} WHERE id = {one}",
    "100 ids": "SELECT sum(price) FROM {t} WHERE id BETWEEN {one} AND {one} + 99",
    "a tenth of a file": "SELECT sum(price) FROM {t} WHERE id BETWEEN {one} AND {one} + {tenth}",
    "scattered": "SELECT sum(price) FROM {t} WHERE day = DATE '2024-03-01'",
    "all": "SELECT sum(price) FROM {t} WHERE note <> 'x'",
}


def rows(number: int, count: int) -> pa.Table:
    rng = np.random.default_rng(number)
    return pa.table({
        "id": np.arange(number * count, (number + 1) * count),
        "price": rng.integers(0, 10_000, count),
        "day": pa.array(rng.integers(19_000, 20_000, count).astype(np.int32), pa.date32()),
        "note": pa.array([f"note {n}" for n in rng.integers(0, 10_000, count)]),
    })  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--group", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    spark = lakelog.spark.session("bench", **{"spark.ui.enabled": "false"})
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        catalog = lakelog.open_catalog(f"{folder}/lake")
        for number in range(given.files):
            path = Path(folder, f"{number}.parquet")
            pq.write_table(
                rows(number, given.rows), path, row_group_size=given.group, write_page_index=True
            )
            paths.append(str(path))
        with catalog.writer("w", "db") as writer, writer.transaction() as tx:
            for path in paths:
                tx.add("external", path)
            for path in paths:
                tx.write("own", pq.read_table(path))
        tables = {
            "plain": spark.read.parquet(*paths),
            "own": lakelog.spark.read(spark, catalog.url, "db", "own"),
            "external": lakelog.spark.read(spark, catalog.url, "db", "external"),
        }
        for name, frame in tables.items():
            frame.createOrReplaceTempView(name)
        least: dict[tuple[str, str], float] = {}
        words = {"one": given.rows * 3 // 2 + 7, "tenth": given.rows // 10}
        for _ in range(given.rounds + 1):
            for query, text in QUERIES.items():
                for name in tables:
                    began = time.perf_counter()
                    spark.sql(text.format(t=name, **words)).collect()
                    took = time.perf_counter() - began
                    least[query, name] = min(least.get((query, name), 1e9), took)
        size = sum(Path(path).stat().st_size for path in paths) / 1e6
        print(f"{given.files} files, {size:.0f} MB")
        for query in QUERIES:
            times = "  ".join(f"{name} {least[query, name]:.2f} s" for name in tables)
            print(f"{query:20}{times}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
