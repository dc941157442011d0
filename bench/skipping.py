"""Which files can hold rows that meet two predicates: the first call of a fresh process, and the
same question again of the snapshot that is open, beside deltalake.

    python bench/skipping.py [--files 1000 100000 1000000] [--peer-limit 100000] [--times 3]
        [--lookup 40]

Then a lookup of one id among many, drawn at random, in files with and without bloom filters, read
to the row.

The first tables are those of `tables`: bounds of four columns, no data. The peer's answer is the
fragments of its pyarrow dataset, filtered by the bounds that its log has.
"""

from __future__ import annotations

import argparse
import tempfile

import tables

OURS = """
import lakelog
start = time.perf_counter()
snapshot = lakelog.open_catalog(job["url"]).snapshot("db")
found["rows"] = snapshot.files("t", where=job["where"]).num_rows
found["s"] = time.perf_counter() - start
start = time.perf_counter()
snapshot.files("t")
found["all_s"] = time.perf_counter() - start
start = time.perf_counter()
found["again"] = snapshot.files("t", where=job["other"]).num_rows
found["again_s"] = time.perf_counter() - start
"""
THEIRS = """
import deltalake
import pyarrow.dataset as ds
start = time.perf_counter()
dataset = deltalake.DeltaTable(job["url"]).to_pyarrow_dataset()
low, high = job["range"]
found["rows"] = len(list(dataset.get_fragments((ds.field("id") >= low) & (ds.field("id") < high))))
found["s"] = time.perf_counter() - start
"""


def measure(files: int, folder: str, args: argparse.Namespace) -> None:
    url, peer_url = f"{folder}/ours{files}", f"{folder}/theirs{files}"
    tables.lakelog_table(url, files)
    middle = files // 2
    job = {
        "url": url,
        "where": f"id >= {middle} AND id < {middle + 10} AND name < 'station-{middle + 5:07}'",
        "other": f"id >= {middle + 50} AND id < {middle + 60} AND name LIKE 'station-0%'",
        "range": [middle, middle + 10],
    }
    runs = tables.fresh(OURS, job, args.times)
    ours = runs[len(runs) // 2]
    theirs = ""
    if files <= args.peer_limit:
        tables.delta_table(peer_url, files)
        peers = tables.fresh(THEIRS, job | {"url": peer_url}, args.times)
        peer = peers[len(peers) // 2]
        theirs = f"{peer['s'] * 1e3:.0f} ms, {peer['mb']:.0f} MB, {peer['rows']} files"
    tables.row(
        f"{files:,}",
        f"{ours['s'] * 1e3:.0f} ms, {ours['mb']:.0f} MB, {ours['rows']} files",
        f"{ours['again_s'] * 1e3:.0f} ms",
        theirs,
    )


LOOKUP = """
import lakelog
from lakelog.testing.counting import CountingStore
from lakelog.catalog.catalog import Catalog
store = CountingStore(lakelog.open_catalog(job["url"]).store)
snapshot = Catalog(store).snapshot("db")
list(snapshot.file_parts("t", where=job["where"]))
store.reset()
start = time.perf_counter()
found["rows"] = snapshot.to_arrow("t", where=job["where"]).num_rows
found["s"] = time.perf_counter() - start
found["gets"] = store.reset()["get"]
"""


def lookup(folder: str, args: argparse.Namespace) -> None:
    """One row of `--lookup` files of 200,000 ids each."""
    import lakelog
    import numpy as np
    import pyarrow as pa

    each = 200_000
    for bloom in ([], ["id"]):
        url, random = f"{folder}/lookup{len(bloom)}", np.random.default_rng(1)
        with lakelog.open_catalog(url).writer("w", "db") as writer, writer.transaction() as tx:
            for _ in range(args.lookup):
                ids = random.integers(0, 1 << 62, each)
                rows = {"id": ids, **{f"v{n}": random.random(each) for n in range(4)}}
                tx.write("t", pa.table(rows), bloom=bloom)
        size = sum(lakelog.open_catalog(url).snapshot("db").files("t")["size_bytes"].to_pylist())
        runs = tables.fresh(LOOKUP, {"url": url, "where": f"id = {ids[each // 2]}"}, args.times)
        run = runs[len(runs) // 2]
        assert run["rows"] == 1
        said = "with bloom filters" if bloom else "without"
        tables.row(said, f"{run['s'] * 1e3:.0f} ms", run["gets"], f"{size / 1e6:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--peer-limit", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--lookup", type=int, default=40, help="files that an id is looked up in")
    args = parser.parse_args()
    tables.head("files", "first call", "again, by other bounds", "deltalake, first call")
    with tempfile.TemporaryDirectory() as folder:
        for files in args.files:
            measure(files, folder, args)
        tables.head(f"one id of {args.lookup * 200_000:,}", "read", "GETs", "files")
        lookup(folder, args)


if __name__ == "__main__":
    main()
