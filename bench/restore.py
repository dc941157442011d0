"""How long it takes to go back over a change of many files: those that came are taken out, and as
many that went are added again, with their statistics. And how long the commit of such a change
takes, when its files are written.

    python bench/restore.py [--files 10000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import lakelog
import pyarrow as pa

COLUMNS = 8


def make(url: str, files: int) -> tuple[lakelog.Catalog, str, str, float, float]:
    """A table of which a commit has replaced all files; the tokens of before and after, and how
    long it took to name those that go, and to commit."""
    catalog = lakelog.open_catalog(url)
    rows = pa.table({f"c{n}": pa.array([n, n + 1], pa.int64()) for n in range(COLUMNS)})
    with catalog.writer("w", "db") as writer:
        paths, *_ = _write(writer, rows, files, [])
        before = catalog.snapshot("db").token
        _, *seconds = _write(writer, rows, files, paths)
        writer.checkpoint()
    return catalog, before, catalog.snapshot("db").token, *seconds


def _write(writer, rows: pa.Table, files: int, gone: list[str]) -> tuple[list[str], float, float]:
    """Commit so many files in place of others."""
    with writer.transaction() as tx:
        start = time.perf_counter()
        for path in gone:
            tx.remove(path)
        removed = time.perf_counter() - start
        paths = [tx.write("t", rows)[0] for _ in range(files)]
        start = time.perf_counter()
        tx.commit()
        return paths, removed, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        catalog, *tokens, removed, committed = make(str(Path(folder) / "lake"), args.files)
        planned, done, busy = [], [], []
        for number in range(args.rounds):
            to = tokens[number % 2]
            start = time.perf_counter()
            plan = catalog.restore("db", to=to)
            planned.append(time.perf_counter() - start)
            assert (plan.files_added, plan.files_removed) == (args.files, args.files)
            start, cpu = time.perf_counter(), time.process_time()
            assert catalog.restore("db", to=to, execute=True).is_done
            done.append(time.perf_counter() - start)
            busy.append(time.process_time() - cpu)
            with catalog.writer("w", "db") as writer:
                writer.checkpoint()  # as 16 commits make one
        count = f"{args.files:,}"
        print(f"{count} files out and {count} in again, {COLUMNS} columns of statistics:")
        print(f"  plan     {statistics.median(planned):.2f} s")
        print(
            f"  execute  {statistics.median(done):.2f} s (planned anew, then committed), ", end=""
        )
        print(f"{statistics.median(busy):.2f} s of processor time")
        print(f"{count} files written in place of {count} others:")
        print(f"  remove   {removed:.2f} s")
        print(f"  commit   {committed:.2f} s")


if __name__ == "__main__":
    main()
