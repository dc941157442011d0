"""Many small writes in one transaction, each a file, beside plain Parquet files and deltalake.

    python bench/writes.py [--writes 10000] [--moto-writes 1000] [--where local moto late]
                           [--late-ms 30] [--peer-limit 60]

Milliseconds a write, the commit included. Plain: `pyarrow.parquet.write_table`, one file after the
other, without a log and without fsync. The peer has no such transaction: it appends each table by
itself, and is stopped after `--peer-limit` seconds. Late: moto with `--late-ms` more for each put
of ours and of the plain files, about what S3 takes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tables
from lakelog.catalog.catalog import Catalog
from lakelog.store import open_store
from lakelog.testing.doubles import PassingStore

ROW = pa.table({"id": [1], "temp": [0.5]})


class Late(PassingStore):
    """Takes so much longer for each put."""

    late_s = 0.0

    def put(self, key, body, *, if_absent=False):
        time.sleep(self.late_s)
        super().put(key, body, if_absent=if_absent)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ours(store, writes: int) -> str:
    writer = Catalog(store).writer("w", "db", checkpoint_every=0)
    before, start = resident_bytes(), time.perf_counter()
    with writer.transaction() as tx:
        for _ in range(writes):
            tx.write("t", ROW)
        written_s = time.perf_counter() - start
        held = resident_bytes() - before
    whole_s = time.perf_counter() - start
    writer.close()
    assert Catalog(store).snapshot("db").files("t").num_rows == writes
    return (
        f"{whole_s / writes * 1e3:.2f} ({whole_s:.1f} s; {whole_s - written_s:.1f} s of it in the "
        f"commit, {held / 1e6:.0f} MB more)"
    )


def plain(store, writes: int) -> str:
    start = time.perf_counter()
    for number in range(writes):
        sink = pa.BufferOutputStream()
        pq.write_table(ROW, sink, compression="zstd")
        store.put(f"plain/{number}.parquet", sink.getvalue().to_pybytes())
    return f"{(time.perf_counter() - start) / writes * 1e3:.2f}"


def plain_local(folder: str, writes: int) -> str:
    Path(folder).mkdir()
    start = time.perf_counter()
    for number in range(writes):
        pq.write_table(ROW, f"{folder}/{number}.parquet", compression="zstd")
    return f"{(time.perf_counter() - start) / writes * 1e3:.2f}"


def peers(url: str, options, writes: int, limit_s: float) -> str:
    from deltalake import write_deltalake

    done, start = 0, time.perf_counter()
    while done < writes and time.perf_counter() - start < limit_s:
        write_deltalake(url, ROW, mode="append", storage_options=options)
        done += 1
    return f"{(time.perf_counter() - start) / done * 1e3:.2f} ({done:,} of them)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--moto-writes", type=int, default=1_000)
    parser.add_argument("--where", nargs="*", default=["local", "moto", "late"])
    parser.add_argument("--late-ms", type=float, default=30.0)
    parser.add_argument("--peer-limit", type=float, default=60.0)
    args = parser.parse_args()
    where = ["moto" if place == "late" else place for place in args.where]
    print("## Small writes in one transaction: ms a write")
    tables.head("where", "writes", "lakelog", "plain files", "deltalake, one by one")
    with tempfile.TemporaryDirectory() as folder, tables.places(where, folder) as places:
        for place in args.where:
            new_url, options, peer_options = places["moto" if place == "late" else place]
            writes = args.writes if place == "local" else args.moto_writes
            store = Late(open_store(new_url(), options))
            store.late_s = args.late_ms / 1e3 if place == "late" else 0.0
            peer = (
                "" if place == "late" else peers(new_url(), peer_options, writes, args.peer_limit)
            )
            tables.row(
                f"moto, {args.late_ms:.0f} ms later" if place == "late" else place,
                f"{writes:,}", ours(store, writes),
                plain_local(new_url(), writes) if place == "local" else plain(store, writes), peer,
            )  # fmt: skip


if __name__ == "__main__":
    main()
