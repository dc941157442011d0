"""Open the newest snapshot and list its files, beside deltalake: behind a checkpoint, and without.

    python bench/opening.py [--files 1000 ...] [--commits 100 ...] [--where local moto]

Each reading is a fresh process that has its libraries loaded, opens once for warmth on another,
tiny catalog, and then opens the measured one once. Time is that of the open and the listing; peak
memory is the whole process. `with statistics` also lists the bounds of all columns, as deltalake's
listing does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile

import tables

READER = """
import json, sys, time
import pyarrow, pyarrow.compute
job = json.loads(sys.argv[1])
if job["who"] == "deltalake":
    from deltalake import DeltaTable
    def once(url):
        table = DeltaTable(url, storage_options=job["options"])
        return pyarrow.table(table.get_add_actions(flatten=True)).num_rows, 0
else:
    from lakelog.catalog.catalog import Catalog
    from lakelog.store import open_store
    from lakelog.testing.counting import CountingStore
    def once(url):
        store = CountingStore(open_store(url, job["options"]))
        snapshot = Catalog(store).snapshot("db")
        rows = snapshot.files("t", statistics=job["who"] == "lakelog, statistics").num_rows
        return rows, sum(store.counts.values())
once(job["warm"])
start = time.perf_counter()
rows, requests = once(job["url"])
taken = time.perf_counter() - start
# Not ru_maxrss: a child inherits that of the process that started it.
peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) / 1024
print(json.dumps({"s": taken, "mb": peak, "rows": rows, "requests": requests}))
"""


def reading(who: str, url: str, warm: str, options, times: int) -> dict:
    job = json.dumps({"who": who, "url": url, "warm": warm, "options": options})
    found = []
    for _ in range(times):
        run = subprocess.run(
            [sys.executable, "-c", READER, job], capture_output=True, text=True, check=True
        )
        found.append(json.loads(run.stdout))
    found.sort(key=lambda item: item["s"])
    return found[len(found) // 2]


def show(place: str, what: str, ours: dict, full: dict, peer: dict, rows: int) -> None:
    assert ours["rows"] == full["rows"] == peer["rows"] == rows, (ours, full, peer, rows)
    tables.row(
        place, what,
        f"{ours['s'] * 1e3:.0f} ms, {ours['mb']:.0f} MB, {ours['requests']} req.",
        f"{full['s'] * 1e3:.0f} ms, {full['mb']:.0f} MB",
        f"{peer['s'] * 1e3:.0f} ms, {peer['mb']:.0f} MB",
        f"{ours['s'] / peer['s']:.2f}", f"{ours['mb'] / peer['mb']:.2f}",
    )  # fmt: skip


def measure(place, new_url, options, peer_options, sizes, times: int, *, commits: bool) -> None:
    warm, peer_warm = new_url(), new_url()
    tables.lakelog_table(warm, 3, options=options)
    tables.delta_table(peer_warm, 3, options=peer_options)
    for size in sizes:
        url, peer_url = new_url(), new_url()
        if commits:
            writer = tables.lakelog_table(url, 0, options=options, checkpoint=False)
            tables.delta_table(peer_url, 1, options=peer_options, checkpoint=False)
            tables.delta_commits_by_hand(peer_url, 1, size, options)
            for number in range(size):
                tables.commit(writer, [tables.add_action(number)])
        else:
            tables.lakelog_table(url, size, options=options)
            tables.delta_table(peer_url, size, options=peer_options)
        ours = reading("lakelog", url, warm, options, times)
        full = reading("lakelog, statistics", url, warm, options, times)
        peer = reading("deltalake", peer_url, peer_warm, peer_options, times)
        show(place, f"{size:,}", ours, full, peer, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--commits", type=int, nargs="*", default=[100, 1_000, 10_000])
    parser.add_argument("--moto-commits", type=int, nargs="*", default=[100, 1_000])
    parser.add_argument("--where", nargs="*", default=["local", "moto"])
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    columns = ("lakelog", "with statistics", "deltalake", "time ratio", "memory ratio")
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, peer_options) in places.items():
            print("\n## Open the newest snapshot and list its files, after a checkpoint")
            tables.head(place, "files", *columns)
            measure(place, new_url, options, peer_options, args.files, args.times, commits=False)
            print("\n## The same without any checkpoint")
            tables.head(place, "commits", *columns)
            sizes = args.commits if place == "local" else args.moto_commits
            measure(place, new_url, options, peer_options, sizes, args.times, commits=True)


if __name__ == "__main__":
    main()
