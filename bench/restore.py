"""How long it takes to go back over a change of many files: those that came are taken out, and as
many that went are added again, with their statistics.

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


def make(url: str, files: int) -> tuple[lakelog.Catalog, str, str]:
    """A table of which a commit has replaced all files; the tokens of before and after."""
    catalog = lakelog.open_catalog(url)
    rows = pa.table({f"c{n}": pa.array([n, n + 1], pa.int64()) for n in range(COLUMNS)})
    with catalog.writer("w", "db") as writer:
        paths = _write(writer, rows, files, [])
        before = catalog.snapshot("db").token
        _write(writer, rows, files, paths)
        writer.checkpoint()
    return catalog, before, catalog.snapshot("db").token


def _write(writer, rows: pa.Table, files: int, gone: list[str]) -> list[str]:
    """Commit so many files in place of others."""
    with writer.transaction() as tx:
        for path in gone:
            tx.remove(path)
        return [tx.write("t", rows)[0] for _ in range(files)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        catalog, *tokens = make(str(Path(folder) / "lake"), args.files)
        planned, done = [], []
        for number in range(args.rounds):
            to = tokens[number % 2]
            start = time.perf_counter()
            plan = catalog.restore("db", to=to)
            planned.append(time.perf_counter() - start)
            assert (plan.files_added, plan.files_removed) == (args.files, args.files)
            start = time.perf_counter()
            assert catalog.restore("db", to=to, execute=True).is_done
            done.append(time.perf_counter() - start)
            with catalog.writer("w", "db") as writer:
                writer.checkpoint()  # as 16 commits make one
        count = f"{args.files:,}"
        print(f"{count} files out and {count} in again, {COLUMNS} columns of statistics:")
        print(f"  plan     {statistics.median(planned):.2f} s")
        print(f"  execute  {statistics.median(done):.2f} s (planned anew, then committed)")


if __name__ == "__main__":
    main()
