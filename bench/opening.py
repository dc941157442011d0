"""Open the newest snapshot and list its files, beside deltalake: behind a checkpoint, and without.

    python bench/opening.py [--files 1000 ...] [--ten-million] [--parts 1000000] [--commits 100 ...]
                            [--where local moto] [--times 5]

Each reading is a fresh process that does nothing else, and does it once: no warm caches, no library
that was loaded before, and pandas is installed (whoever imports it by accident pays). The time is
that of the first call; in brackets with the imports before it. Peak memory is the whole process.
Requests are counted in a run of their own.

Parts: one table of ten, one partition of a hundred, and the bounds of one column, all of so many
files. The peer has a table for itself where we have one of ten, and its listing holds all columns.
"""

from __future__ import annotations

import argparse
import tempfile

import tables
from at_once import lakelog_table_at_once

OURS = """
import lakelog
def only(rows, column, text):
    import pyarrow as pa, pyarrow.compute as pc
    ends = len(text).to_bytes(4, "little")
    buffers = [None, pa.py_buffer(bytes(4) + ends), pa.py_buffer(text.encode())]
    wanted = pa.Array.from_buffers(pa.string(), 1, buffers)[0]  # pa.scalar imports pandas
    return rows.filter(pc.equal(rows[column], wanted))
def look(catalog):
    snapshot = catalog.snapshot("db")
    if job["what"] == "statistics":
        return only(snapshot.statistics("t"), "column", "id")
    partition = "p7" if job["what"] == "partition" else None
    return snapshot.files(job["table"], partition=partition)
if job["count"]:
    from lakelog.catalog.catalog import Catalog
    from lakelog.store import open_store
    from lakelog.testing.counting import CountingStore
    store = CountingStore(open_store(job["url"], job["options"]))
    found["rows"] = look(Catalog(store)).num_rows
    found["requests"] = sum(store.counts.values())
else:
    start = time.perf_counter()
    found["rows"] = look(lakelog.open_catalog(job["url"], job["options"])).num_rows
    found["s"] = time.perf_counter() - start
"""
THEIRS = """
import deltalake
start = time.perf_counter()
table = deltalake.DeltaTable(job["url"], storage_options=job["options"])
if job["what"] == "partition":
    found["rows"] = len(table.file_uris([("day", "=", "p7")]))
else:
    found["rows"] = table.get_add_actions(flatten=True).num_rows
found["s"] = time.perf_counter() - start
"""


def reading(script: str, url: str, options, times: int, what: str = "", table: str = "t") -> dict:
    job = {"url": url, "options": options, "what": what, "table": table, "count": False}
    runs = tables.fresh(script, job, times)
    middle = runs[len(runs) // 2]
    if script is OURS:
        counted = tables.fresh(script, job | {"count": True}, 1)[0]
        middle["requests"] = counted["requests"]
    return middle


def cell(found: dict | None) -> str:
    if found is None:
        return ""
    requests = f", {found['requests']} req." if "requests" in found else ""
    pandas = ", pandas imported" if found["pandas"] else ""
    times = f"{found['s'] * 1e3:.0f} ms ({found['whole_s'] * 1e3:.0f})"
    return f"{times}, {found['mb']:.0f} MB{requests}{pandas}"


def show(place: str, what: str, ours: dict, peer: dict | None, rows: int) -> None:
    assert ours["rows"] == rows, (ours, rows)
    ratios = ["", ""]
    if peer is not None:
        assert peer["rows"] == rows, (peer, rows)
        ratios = [f"{ours['s'] / peer['s']:.2f}", f"{ours['mb'] / peer['mb']:.2f}"]
    tables.row(place, what, cell(ours), cell(peer), *ratios)


def measure_files(place, new_url, options, peer_options, args) -> None:
    for size in args.files:
        url, peer_url = new_url(), new_url()
        tables.lakelog_table(url, size, options=options)
        ours = reading(OURS, url, options, args.times)
        peer = None
        if size <= args.peer_limit:
            tables.delta_table(peer_url, size, options=peer_options, own_options=options)
            peer = reading(THEIRS, peer_url, peer_options, args.times)
        show(place, f"{size:,} files", ours, peer, size)
        if size == args.parts:
            found = reading(OURS, url, options, args.times, "statistics")
            show(place, f"one column's bounds of {size:,} files", found, peer, size)
    for size in (1_000_000, 10_000_000) if args.ten_million else ():
        url = new_url()
        lakelog_table_at_once(url, size, options)
        found = reading(OURS, url, options, args.times)
        show(place, f"{size:,} files without statistics", found, None, size)


def measure_parts(place, new_url, options, peer_options, args) -> None:
    size = args.parts
    url, peer_url = new_url(), new_url()
    tables.lakelog_table(url, size, options=options, tables=10)
    tables.delta_table(peer_url, size // 10, options=peer_options, own_options=options)
    ours = reading(OURS, url, options, args.times, table="t3")
    peer = reading(THEIRS, peer_url, peer_options, args.times)
    show(place, f"one table of ten of {size:,} files", ours, peer, size // 10)
    url, peer_url = new_url(), new_url()
    more = {"partitions": 100}
    tables.lakelog_table(url, size, options=options, **more)
    tables.delta_table(peer_url, size, options=peer_options, own_options=options, **more)
    ours = reading(OURS, url, options, args.times, "partition")
    peer = reading(THEIRS, peer_url, peer_options, args.times, "partition")
    show(place, f"one partition of a hundred of {size:,} files", ours, peer, size // 100)


def measure_commits(place, new_url, options, peer_options, sizes, times: int) -> None:
    for size in sizes:
        url, peer_url = new_url(), new_url()
        writer = tables.lakelog_table(url, 0, options=options, checkpoint=False)
        tables.delta_table(peer_url, 1, options=peer_options, checkpoint=False)
        tables.delta_commits_by_hand(peer_url, 1, size, options)
        for number in range(size):
            tables.commit(writer, [tables.add_action(number)])
        ours = reading(OURS, url, options, times)
        peer = reading(THEIRS, peer_url, peer_options, times)
        show(place, f"{size:,} commits", ours, peer, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[1_000, 100_000, 1_000_000])
    parser.add_argument(
        "--ten-million", action="store_true", help="the log alone: minutes to build"
    )
    parser.add_argument("--peer-limit", type=int, default=10_000_000, help="no peer above it")
    parser.add_argument("--parts", type=int, default=1_000_000, help="0: none; a hundred or more")
    parser.add_argument("--commits", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--moto-commits", type=int, nargs="*", default=[100, 1_000])
    parser.add_argument("--where", nargs="*", default=["local", "moto"])
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    columns = ("lakelog", "deltalake", "time ratio", "memory ratio")
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, peer_options) in places.items():
            print("\n## Open the newest snapshot and list its files, after a checkpoint")
            tables.head(place, "what", *columns)
            measure_files(place, new_url, options, peer_options, args)
            if args.parts:
                measure_parts(place, new_url, options, peer_options, args)
            print("\n## The same without any checkpoint")
            tables.head(place, "what", *columns)
            sizes = args.commits if place == "local" else args.moto_commits
            measure_commits(place, new_url, options, peer_options, sizes, args.times)


if __name__ == "__main__":
    main()
