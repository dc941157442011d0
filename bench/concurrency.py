"""Concurrent writes, one table: (threads, operations), failures and commits a second.

    python bench/concurrency.py [--rows 5x20 10x50 ...] [--where local moto] [--peer-limit 60]

Each operation writes one small Parquet file and commits it. lakelog in three ways: threads of one
writer (they share commits), a process each with a writer id of its own, and processes that are
guests of one log. The peers: threads on one table with their default retries, stopped after
`--peer-limit` seconds (the share that was tried is shown then).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import tables
from lakelog import open_catalog

ROWS = ((5, 20), (10, 50), (20, 100), (25, 200), (30, 1000), (30, 2000))
DATA = pa.table({"id": [1], "name": ["x"]})
PROCESSES = 8


def hammer(workers: int, operations: int, one: Callable[[int], None], limit_s: float = 1e9):
    """So many threads do so many operations; failures, tried, seconds."""
    failures, tried = [], []
    numbers = iter(range(operations))
    guard = threading.Lock()
    start = time.perf_counter()

    def work() -> None:
        while time.perf_counter() - start < limit_s:
            with guard:
                number = next(numbers, None)
            if number is None:
                return
            tried.append(number)
            try:
                one(number)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures), len(tried), time.perf_counter() - start


def check(url, options, expected: int) -> None:
    snapshot = open_catalog(url, options).snapshot("db")
    files = snapshot.files("t")
    assert files.num_rows == expected == len(set(files["url"].to_pylist())), files.num_rows
    assert snapshot.to_arrow("t").num_rows == expected


def lakelog_threads(url, options, threads: int, operations: int):
    writer = open_catalog(url, options).writer("w", "db")

    def one(_: int) -> None:
        with writer.transaction() as tx:
            tx.write("t", DATA)

    found = hammer(threads, operations, one)
    check(url, options, operations - found[0])
    return found


def _process(job) -> tuple[int, float, float]:
    url, options, writer_id, shared, operations = job
    from lakelog.errors import EpochChanged

    start = time.time()
    failed = 0
    with open_catalog(url, options).writer(writer_id, "db", shared=shared) as writer:
        for _ in range(operations):
            try:
                with writer.transaction() as tx:
                    tx.write("t", DATA)
            except EpochChanged:
                failed += 1
    return failed, start, time.time()


def lakelog_processes(url, options, threads: int, operations: int, *, shared: bool):
    count = min(threads, PROCESSES)
    share = [operations // count + (n < operations % count) for n in range(count)]
    jobs = [
        (url, options, "w" if shared else f"w{n}", shared, size) for n, size in enumerate(share)
    ]
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        done = pool.map(_process, jobs, chunksize=1)
    failures = sum(failed for failed, _, _ in done)
    check(url, options, operations - failures)
    return failures, operations, max(end for _, _, end in done) - min(s for _, s, _ in done)


def delta(url, options, threads: int, operations: int, limit_s: float):
    from deltalake import write_deltalake

    write_deltalake(url, DATA, storage_options=options)
    return hammer(
        threads,
        operations,
        lambda _: write_deltalake(url, DATA, mode="append", storage_options=options),
        limit_s,
    )


def iceberg(folder: str, threads: int, operations: int, limit_s: float):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(
        "c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}", pool_size="40"
    )
    with contextlib.suppress(Exception):
        catalog.create_namespace("n")
    catalog.create_table("n.t", DATA.schema)
    return hammer(threads, operations, lambda _: catalog.load_table("n.t").append(DATA), limit_s)


def cell(found) -> str:
    failures, tried, seconds = found
    return f"{failures} of {tried}, {(tried - failures) / seconds:.0f}/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[f"{a}x{b}" for a, b in ROWS])
    parser.add_argument("--where", nargs="*", default=["local", "moto"])
    parser.add_argument("--peer-limit", type=float, default=60.0)
    args = parser.parse_args()
    rows = [tuple(int(part) for part in text.split("x")) for text in args.rows]
    print("## Concurrent writes: failures of tried, commits a second")
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, peer_options) in places.items():
            tables.head(
                place, "threads, operations", "lakelog, threads of one writer",
                "lakelog, a writer a process", "lakelog, guests of one log", "deltalake",
                "pyiceberg",
            )  # fmt: skip
            for threads, operations in rows:
                sizes = (threads, operations)
                run = functools.partial(lakelog_processes, shared=False)
                guests = functools.partial(lakelog_processes, shared=True)
                peers = [delta(new_url(), peer_options, *sizes, args.peer_limit)]
                if place == "local":
                    with tempfile.TemporaryDirectory() as own:
                        peers.append(iceberg(own, *sizes, args.peer_limit))
                tables.row(
                    place, f"({threads}, {operations})",
                    cell(lakelog_threads(new_url(), options, *sizes)),
                    cell(run(new_url(), options, *sizes)),
                    cell(guests(new_url(), options, *sizes)),
                    *(cell(found) for found in peers),
                )  # fmt: skip


if __name__ == "__main__":
    main()
