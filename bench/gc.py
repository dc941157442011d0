"""Plan a collection of garbage over many data files, beside a bare listing of the same folder.

    python bench/gc.py [--files 100000 1000000] [--orphans 0.01] [--times 3]

The files are empty and on a local disk; the log names all but the orphans. Each figure is the best
of some runs in one process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tables
from lakelog import open_catalog


def touch(root: str, numbers: range) -> None:
    for number in numbers:
        key = Path(root) / "w" / "db" / tables.path(number)
        if number == numbers.start:
            key.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(key, os.O_CREAT | os.O_WRONLY))


def best(work: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[100_000])
    parser.add_argument("--orphans", type=float, default=0.01)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    print("## Plan gc beside a bare listing")
    tables.head("files", "s to list", "s to plan", "ratio", "orphans")
    for files in args.files:
        with tempfile.TemporaryDirectory() as root:
            tables.lakelog_table(root, files).close()
            orphans = int(files * args.orphans)
            touch(root, range(files + orphans))
            catalog = open_catalog(root)
            listed_s = best(
                lambda c=catalog: sum(1 for _ in c.store.list("w/db/data/")), args.times
            )
            planned_s = best(lambda c=catalog: c.gc("db"), args.times)
            kept = sum(group.objects for group in catalog.gc("db").logs[0].kept)
            tables.row(
                f"{files:,}", f"{listed_s:.2f}", f"{planned_s:.2f}",
                f"{planned_s / listed_s:.2f}", f"{kept - files:,} young",
            )  # fmt: skip


if __name__ == "__main__":
    main()
