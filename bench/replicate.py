"""A replica beside a plain copy of the same objects: MB/s.

    python bench/replicate.py [--sizes 256x1 16x64 2000x0.01] [--where local to-moto]

Each size is so many files of so many MB. Local: onto the same disk, beside `cp -r` alone and with
the `sync` that makes it durable, which a replica is. To moto: from the disk into S3 (one server
process of Python, which takes most of the time), beside fsspec's recursive `put`. Again: the same
replication once more, which has nothing to do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import lakelog
import numpy as np
import pyarrow as pa
import tables
from lakelog.replication import replicate
from lakelog.testing.servers import moto_server

ROW_BYTES = 16  # of two columns of random doubles, which nothing compresses


def make(folder: str, files: int, size_mb: float) -> int:
    """A lake; its bytes."""
    rows = max(1, int(size_mb * 1e6 / ROW_BYTES))
    random = np.random.default_rng(files)
    with lakelog.open_catalog(folder).writer("w", "db") as writer:
        for low in range(0, files, 16):
            with writer.transaction() as tx:
                for _ in range(low, min(files, low + 16)):
                    tx.write("t", pa.table({"a": random.random(rows), "b": random.random(rows)}))
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def rate(size_bytes: int, seconds: float) -> str:
    return f"{size_bytes / 1e6 / seconds:,.0f} ({seconds:.2f} s)"


def timed(act) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def ours(source: str, destination) -> tuple[float, float]:
    """Seconds of a first replication, and of another one."""

    def act():
        report = replicate(source, destination)
        assert not report.errors, report.errors

    return timed(act), timed(act)


def local(source: str, size_bytes: int, folder: str) -> None:
    os.sync()
    first_s, again_s = ours(source, f"{folder}/copy")
    shutil.rmtree(f"{folder}/copy")
    os.sync()
    plain_s = timed(lambda: subprocess.run(["cp", "-r", source, f"{folder}/plain"], check=True))
    synced_s = plain_s + timed(lambda: subprocess.run(["sync", "-f", folder], check=True))
    shutil.rmtree(f"{folder}/plain")
    tables.row(
        "local", rate(size_bytes, first_s), rate(size_bytes, plain_s), rate(size_bytes, synced_s),
        f"{again_s * 1e3:.0f} ms",
    )  # fmt: skip


def to_moto(source: str, size_bytes: int) -> None:
    import fsspec

    with moto_server() as server:
        url = f"s3://{server.make_bucket()}/copy"
        catalog = lakelog.open_catalog(url, server.storage_options)
        first_s, again_s = ours(source, catalog)
        system = fsspec.filesystem("s3", **server.storage_options)
        bucket = server.make_bucket()
        plain_s = timed(lambda: system.put(source, f"{bucket}/plain", recursive=True))
    tables.row("to moto", rate(size_bytes, first_s), rate(size_bytes, plain_s), "",
               f"{again_s * 1e3:.0f} ms")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=["256x1", "16x64", "2000x0.01"])
    parser.add_argument("--where", nargs="*", default=["local", "to-moto"])
    args = parser.parse_args()
    for size in args.sizes:
        files, size_mb = size.split("x")
        print(f"## Replication of {files} files of {size_mb} MB: MB/s")
        tables.head("where", "lakelog", "plain copy", "and synced", "again")
        with tempfile.TemporaryDirectory(dir=".") as folder:
            source = f"{folder}/lake"
            size_bytes = make(source, int(files), float(size_mb))
            replicate(source, f"{folder}/warm")  # reads the source once, and imports
            shutil.rmtree(f"{folder}/warm")
            if "local" in args.where:
                local(source, size_bytes, folder)
            if "to-moto" in args.where:
                to_moto(source, size_bytes)


if __name__ == "__main__":
    main()
