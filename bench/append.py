"""A job that opens a writer, appends one file and ends: onto nothing, and onto tables of growing
size, beside deltalake.

    python bench/append.py [--files 0 1000000] [--where local moto] [--times 17]

Each reading is a fresh process that does nothing else, with pandas installed. The first number is
the median of the work itself, in brackets with the imports before it; then the slowest of all runs:
of 17 jobs onto one table one writes a checkpoint. Requests are ours, of the first of the jobs.
"""

from __future__ import annotations

import argparse
import tempfile

import tables

# Without pa.array, which imports pandas.
DATA = """
import struct
import pyarrow as pa
def rows():
    def column(kind, *parts):
        buffers = [None, *(pa.py_buffer(part) for part in parts)]
        return pa.Array.from_buffers(kind, 2, buffers)
    columns = [
        column(pa.int64(), struct.pack("<2q", 1, 2)),
        column(pa.timestamp("us", "UTC"), struct.pack("<2q", 0, 1)),
        column(pa.float64(), struct.pack("<2d", 0.5, 1.5)),
        column(pa.string(), struct.pack("<3i", 0, 3, 6), b"onetwo"),
    ]
    return pa.Table.from_arrays(columns, names=["id", "at", "temp", "name"])
"""
OURS = (
    DATA
    + """
import lakelog
data = rows()
def append(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", data)
if job["count"]:
    from lakelog.catalog.catalog import Catalog
    from lakelog.store import open_store
    from lakelog.testing.counting import CountingStore
    store = CountingStore(open_store(job["url"], job["options"]))
    append(Catalog(store))
    found["requests"] = {kind: number for kind, number in store.counts.items() if number}
else:
    start = time.perf_counter()
    append(lakelog.open_catalog(job["url"], job["options"]))
    found["s"] = time.perf_counter() - start
"""
)
THEIRS = (
    DATA
    + """
import deltalake
data = rows()
start = time.perf_counter()
deltalake.write_deltalake(job["url"], data, mode="append", storage_options=job["options"])
found["s"] = time.perf_counter() - start
"""
)


def jobs(script: str, new_url, url: str, options, times: int) -> list[dict]:
    """Appends onto one table; onto nothing, where no URL is given."""
    found = []
    for _ in range(times):
        job = {"url": url or new_url(), "options": options, "count": False}
        found += tables.fresh(script, job, 1)
    return sorted(found, key=lambda run: run["s"])


def cell(runs: list[dict]) -> str:
    middle = runs[len(runs) // 2]
    peak = max(run["mb"] for run in runs)
    pandas = ", pandas imported" if middle["pandas"] else ""
    return (
        f"{middle['s'] * 1e3:.0f} ms ({middle['whole_s'] * 1e3:.0f}), slowest "
        f"{runs[-1]['s'] * 1e3:.0f} ms, {middle['mb']:.0f} MB, at most {peak:.0f} MB{pandas}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[0, 1_000_000])
    parser.add_argument("--where", nargs="*", default=["local", "moto"])
    parser.add_argument("--times", type=int, default=17)
    args = parser.parse_args()
    print("## A job that appends one file, from its start to its end")
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, peer_options) in places.items():
            tables.head(place, "files before", "lakelog", "requests", "deltalake", "time ratio")
            for files in args.files:
                url = peer_url = ""
                if files:
                    url, peer_url = new_url(), new_url()
                    tables.lakelog_table(url, files, options=options)
                    tables.delta_table(peer_url, files, options=peer_options, own_options=options)
                count = {"url": url or new_url(), "options": options, "count": True}
                requests = tables.fresh(OURS, count, 1)[0]["requests"]
                ours = jobs(OURS, new_url, url, options, args.times)
                peer = jobs(THEIRS, new_url, peer_url, peer_options, args.times)
                ratio = ours[len(ours) // 2]["s"] / peer[len(peer) // 2]["s"]
                tables.row(
                    place, f"{files:,}", cell(ours),
                    ", ".join(f"{number} {kind}" for kind, number in requests.items()),
                    cell(peer), f"{ratio:.2f}",
                )  # fmt: skip


if __name__ == "__main__":
    main()
