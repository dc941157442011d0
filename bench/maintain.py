"""`maintain` where there is nothing to do: seconds and requests, of so many databases and writers.

    python bench/maintain.py [--databases 3] [--writers 20] [--commits 17] [--where local moto]
                             [--times 3]

Each reading is a fresh process; the time is that of the call, in brackets with the imports before
it. Requests are counted in a run of their own. Without a check, and with the default policy, which
checks a seventh of the logs.
"""

from __future__ import annotations

import argparse
import tempfile

import tables

MAKE = """
import pyarrow as pa, lakelog
catalog = lakelog.open_catalog(job["url"], job["options"])
for database in range(job["databases"]):
    for name in range(job["writers"]):
        with catalog.writer(f"w{name}", f"db{database}") as writer:
            for commit in range(job["commits"]):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"n": [commit]}))
found["rows"] = len(catalog.maintain(execute=True).rows)
"""
RUN = """
import lakelog
from lakelog.catalog.catalog import Catalog
from lakelog.store import open_store
from lakelog.testing.counting import CountingStore
store = open_store(job["url"], job["options"])
counting = CountingStore(store) if job["count"] else store
catalog = Catalog(counting)
start = time.perf_counter()
report = catalog.maintain(policy=job["policy"] or None, execute=True)
found["s"] = time.perf_counter() - start
assert report.is_idle, report.describe()
found["requests"] = sum(counting.counts.values()) if job["count"] else 0
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--databases", type=int, default=3)
    parser.add_argument("--writers", type=int, default=20)
    parser.add_argument("--commits", type=int, default=17)
    parser.add_argument("--where", nargs="+", default=["local"], choices=["local", "moto"])
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tables.places(args.where, folder) as places:
        for place, (new_url, options, _) in places.items():
            job = {"url": new_url(), "options": options, "count": False, **vars(args)}
            tables.fresh(MAKE, job, 1)
            for name, policy in (("no check", "check_level = 'none'"), ("check of 1/7", "")):
                job |= {"policy": policy}
                runs = tables.fresh(RUN, job, args.times)
                counted = tables.fresh(RUN, job | {"count": True}, 1)[0]
                middle = runs[len(runs) // 2]
                tables.row(
                    place, name, f"{middle['s']:.2f} s ({middle['whole_s']:.2f})",
                    f"{counted['requests']:,} requests",
                )  # fmt: skip


if __name__ == "__main__":
    main()
