"""Open a database of many writers: requests, seconds and the processor's time, on moto and locally.

    python bench/writers.py [--writers 20 200] [--where local moto] [--times 5]

Each writer's log is one commit behind nothing, or three commits with a checkpoint at the second.
Each reading is a fresh process; the first number is `catalog.snapshot`, the second its time on the
processor (the server's is not in it), in brackets the whole process with its imports.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import tables
from lakelog import open_catalog

OURS = """
import lakelog
def look(catalog):
    return len(catalog.snapshot("db", job["as_of"]).cut.writers)
if job["count"]:
    from lakelog.catalog.catalog import Catalog
    from lakelog.store import open_store
    from lakelog.testing.counting import CountingStore
    store = CountingStore(open_store(job["url"], job["options"]))
    found["writers"] = look(Catalog(store))
    found["requests"] = {kind: number for kind, number in store.counts.items() if number}
else:
    catalog = lakelog.open_catalog(job["url"], job["options"])
    catalog.store.list_folders("_refs/")  # the client is made and connected with the first request
    start, processor = time.perf_counter(), time.process_time()
    found["writers"] = look(catalog)
    found["s"], found["cpu_s"] = time.perf_counter() - start, time.process_time() - processor
"""


def build(url: str, options, writers: int, commits: int) -> None:
    catalog = open_catalog(url, options)

    def one(number: int) -> None:
        with catalog.writer(f"w{number:04d}", "db", checkpoint_every=0) as writer:
            for commit in range(commits):
                tables.commit(writer, [tables.schema_action(), tables.add_action(commit)])
                if commit == 1:
                    writer.checkpoint()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(writers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, nargs="*", default=[20, 200])
    parser.add_argument("--where", nargs="*", default=["local", "moto"])
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    print("## Open the newest snapshot of many writers")
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, _) in places.items():
            tables.head(place, "commits", "ms", "ms on the processor", "whole process", "requests")
            for writers in args.writers:
                for commits in (1, 3):
                    url = new_url()
                    build(url, options, writers, commits)
                    start = time.perf_counter()
                    open_catalog(url, options).publish("prod")
                    published_s = time.perf_counter() - start
                    for as_of in (None, "@prod"):
                        job = {"url": url, "options": options, "count": False, "as_of": as_of}
                        show(job, args.times, writers, commits)
                    tables.row(f"{writers} writers", "published in", f"{published_s * 1e3:.0f} ms")


def show(job: dict, times: int, writers: int, commits: int) -> None:
    runs = tables.fresh(OURS, job, times)
    counted = tables.fresh(OURS, job | {"count": True}, 1)[0]
    found = runs[len(runs) // 2]
    assert found["writers"] == counted["writers"] == writers
    tables.row(
        f"{writers} writers {job['as_of'] or ''}", commits, f"{found['s'] * 1e3:.0f}",
        f"{found['cpu_s'] * 1e3:.0f}", f"{found['whole_s'] * 1e3:.0f}",
        ", ".join(f"{n} {kind}" for kind, n in counted["requests"].items()),
    )  # fmt: skip


if __name__ == "__main__":
    main()
