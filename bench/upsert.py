"""Upserts into a table of many rows, beside deltalake's merge: time, bytes written, and what
reading the table takes afterwards.

    python bench/upsert.py [--rows 10000000] [--files 40] [--keys 1000] [--times 3]

Files hold one stretch of the keys each. The keys of an upsert come from all of them, half of them
new where they come from behind the last. "with a key": readers give the newest row of each key;
"by number": the rows replaced are found, and deleted in the same commit.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import tables
from lakelog import open_catalog

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.int64()), ("value", pa.float64()), ("name", pa.string())]
)


def rows(ids: np.ndarray, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    names = pa.array([f"name {n}" for n in range(1000)]).take(
        pa.array(rng.integers(0, 1000, len(ids)))
    )
    at, value = rng.integers(0, 1 << 40, len(ids)), rng.random(len(ids))
    return pa.Table.from_arrays(
        [pa.array(ids), pa.array(at), pa.array(value), names], schema=SCHEMA
    )


def stretches(count: int, files: int) -> list[np.ndarray]:
    return np.array_split(np.arange(count, dtype=np.int64), files)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def timed(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


class Ours:
    """A lakelog table, with a key or without."""

    def __init__(self, folder: Path, parts: list[np.ndarray], *, key: bool) -> None:
        self.folder, self.key = folder, key
        self.writer = open_catalog(str(folder)).writer("w", "db")
        for number, ids in enumerate(parts):
            with self.writer.transaction() as tx:
                if key and number == 0:
                    tx.write("t", SCHEMA.empty_table())
                    tx.evolve("t", key=["id"])
                tx.write("t", rows(ids, number))

    def upsert(self, data: pa.Table) -> None:
        with self.writer.transaction() as tx:
            tx.upsert("t", data, key=["id"])

    def read(self) -> int:
        found = open_catalog(str(self.folder)).snapshot("db").scan("t", ["id", "value"])
        return sum(batch.num_rows for batch in found)


class Theirs:
    """The same as a Delta table."""

    def __init__(self, folder: Path, parts: list[np.ndarray]) -> None:
        self.folder = folder
        for number, ids in enumerate(parts):
            deltalake.write_deltalake(str(folder), rows(ids, number), mode="append")

    def upsert(self, data: pa.Table) -> None:
        merge = deltalake.DeltaTable(str(self.folder)).merge(
            source=data, predicate="t.id = s.id", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def read(self) -> int:
        found = deltalake.DeltaTable(str(self.folder)).to_pyarrow_dataset()
        return sum(batch.num_rows for batch in found.to_batches(columns=["id", "value"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    parts = stretches(args.rows, args.files)
    print(f"## Upsert of {args.keys:,} keys into {args.rows:,} rows in {args.files} files")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = {
            "lakelog, with a key": Ours(place / "key", parts, key=True),
            "lakelog, by number": Ours(place / "number", parts, key=False),
            "deltalake, merge": Theirs(place / "delta", parts),
        }
        tables.head("table", "upsert", "bytes written", "read all afterwards", "rows")
        ends: dict[str, tuple[float, float]] = {}
        for name, table in made.items():
            before, read_before, times = size(table.folder), timed(table.read), []
            for turn in range(args.times):
                rng = np.random.default_rng(turn)
                old = rng.choice(args.rows, args.keys // 2, replace=False)
                new = args.rows + turn * args.keys + np.arange(args.keys - len(old))
                data = rows(np.concatenate([old, new]), 1000 + turn)
                times.append(timed(lambda table=table, data=data: table.upsert(data)))
            written = (size(table.folder) - before) / args.times
            read_s, count = timed(table.read), table.read()
            ends[name] = statistics.median(times), written
            tables.row(
                name, f"{ends[name][0] * 1e3:,.0f} ms", f"{written / 1e3:,.0f} kB",
                f"{read_s:.2f} s ({read_before:.2f} s before)", f"{count:,}",
            )  # fmt: skip
        peer_s, peer_bytes = ends.pop("deltalake, merge")
        for name, (our_s, our_bytes) in ends.items():
            speed, less = peer_s / our_s, peer_bytes / our_bytes
            print(f"\n{name}: {speed:.1f}x the peer's speed, {less:,.0f}x less written")


if __name__ == "__main__":
    main()
