"""Compaction: rows a second, CPU seconds and peak memory, beside deltalake's `optimize.compact` and
DuckDB that rewrites the same files; and beside a writer that commits and deletes.

    python bench/compact.py [--cases 1000x1000 20000x5] [--partitions 1000] [--large 10]
        [--beside 60]

A case is a number of files and their size in kB. Each reading is a fresh process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE = """
import sys
import numpy as np, pyarrow as pa
files, size_kb, root = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
count = max(1, size_kb * 1000 // 16)
rng = np.random.default_rng(1)
def tables():
    for number in range(files):
        ids = np.arange(number * count, (number + 1) * count)
        yield pa.table({"id": ids, "value": rng.random(count)})
import lakelog, deltalake
with lakelog.open_catalog(root + "/lake").writer("w", "db") as writer:
    source = tables()
    while batch := [t for _, t in zip(range(500), source)]:
        with writer.transaction() as tx:
            for table in batch:
                tx.write("t", table)
import pyarrow.parquet as pq
from pathlib import Path
Path(root + "/plain").mkdir()
snapshot = lakelog.open_catalog(root + "/lake").snapshot("db")
for number, url in enumerate(snapshot.files("t").column("url").to_pylist()):
    (Path(root + "/plain") / f"{number:06}.parquet").symlink_to(url)
schema = pa.schema([("id", pa.int64()), ("value", pa.float64())])
table = deltalake.DeltaTable.create(root + "/delta", schema)
for data in tables():  # files of the same rows, in few commits
    name = f"p{data['id'][0]}.parquet"
    pq.write_table(data, root + "/delta/" + name)
from deltalake.transaction import AddAction
names = sorted(Path(root + "/delta").glob("*.parquet"))
stats = '{"numRecords": %d}' % count
adds = [AddAction(p.name, p.stat().st_size, {}, 0, True, stats) for p in names]
table.create_write_transaction(adds, "append", deltalake.Schema.from_arrow(schema))
"""
RUNS = {
    "lakelog": """
import lakelog
lakelog.open_catalog(root + "/lake").compact("db", execute=True)
""",
    "deltalake": """
import deltalake
deltalake.DeltaTable(root + "/delta").optimize.compact(target_size=256 << 20)
""",
    "DuckDB, no table": """
import duckdb
duckdb.sql(f"COPY (FROM read_parquet('{root}/plain/*.parquet')) TO '{root}/one.parquet'")
""",
}
MAKE_PARTITIONS = """
import sys
import pyarrow as pa, lakelog, deltalake
count, root = int(sys.argv[1]), sys.argv[2]
with lakelog.open_catalog(root + "/lake").writer("w", "db") as writer:
    for commit in range(5):
        part = pa.array(range(count))
        data = pa.table({"part": part, "value": pa.array(range(commit, commit + count))})
        with writer.transaction() as tx:
            tx.write("t", data, partition_by=["part"])
        deltalake.write_deltalake(root + "/delta", data, partition_by=["part"], mode="append")
"""
MAKE_LARGE = """
import sys
import numpy as np, pyarrow as pa, lakelog
rows, root = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(1)
schema = pa.schema([("id", pa.int64()), ("value", pa.float64())])
def batches():
    for start in range(0, rows, 1 << 20):
        ids = np.arange(start, min(rows, start + (1 << 20)))
        yield pa.record_batch([pa.array(ids), pa.array(rng.random(len(ids)))], schema=schema)
with lakelog.open_catalog(root + "/lake").writer("w", "db") as writer:
    with writer.transaction() as tx:
        tx.write("t", pa.RecordBatchReader.from_batches(schema, batches()), file_bytes=1 << 40)
    with writer.transaction() as tx:
        tx.delete("t", f"id < {rows * 4 // 10}", mode="rows")
"""
READ = """
import resource, sys, time
root = sys.argv[1]
began_s = time.perf_counter()
{code}
taken_s = time.perf_counter() - began_s
used = resource.getrusage(resource.RUSAGE_SELF)
print(taken_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""
BESIDE = """
import sys, threading, time
import pyarrow as pa
library, seconds, root = sys.argv[1], float(sys.argv[2]), sys.argv[3]
end = time.monotonic() + seconds
tried = done = 0
refused = []
if library == "lakelog":
    import lakelog
    catalog = lakelog.open_catalog(root + "/lake")
    owner = catalog.writer("w", "db")
    def append(n):
        with owner.transaction() as tx:
            tx.write("t", pa.table({"n": [n] * 100, "v": list(range(100))}))
    def delete(n):
        for _ in range(20):
            try:
                with owner.transaction() as tx:
                    tx.delete("t", f"n = {n} AND v < 50")
                return
            except lakelog.errors.InputRemoved:
                refused.append(n)
    from lakelog.catalog.commit.transaction import Transaction
    rewrite, calls = Transaction.rewrite, []
    def counted(*arguments, **options):
        calls.append(1)
        return rewrite(*arguments, **options)
    Transaction.rewrite = counted
    def compact():
        before = len(calls)
        groups = catalog.compact("db", execute=True).groups
        return len(calls) - before, sum(g.status == "done" for g in groups)
else:
    import deltalake
    from deltalake.exceptions import DeltaError
    where = root + "/delta"
    def append(n):
        deltalake.write_deltalake(
            where, pa.table({"n": [n] * 100, "v": list(range(100))}), mode="append")
    def delete(n):
        for _ in range(20):
            try:
                deltalake.DeltaTable(where).delete(f"n = {n} AND v < 50")
                return
            except DeltaError:
                refused.append(n)
    def compact():
        try:
            found = deltalake.DeltaTable(where).optimize.compact()
        except DeltaError:
            return 1, 0
        return (1, 1) if found["numFilesAdded"] else (0, 0)
append(0)
def write():
    number, began = 1, time.monotonic()
    while time.monotonic() < end:
        append(number)
        if number % 5 == 0:
            delete(number - 3)
        number += 1
        time.sleep(max(0.0, began + number * 0.1 - time.monotonic()))
    global commits
    commits = number
thread = threading.Thread(target=write)
thread.start()
while time.monotonic() < end:
    groups, ok = compact()
    tried, done = tried + groups, done + ok
    time.sleep(0.05)
thread.join()
if library == "lakelog":
    rows = catalog.snapshot("db").to_arrow("t").num_rows
else:
    rows = deltalake.DeltaTable(where).to_pyarrow_table().num_rows
deletes = len([n for n in range(1, commits) if n % 5 == 0])
print(tried, done, commits, len(refused), rows - (commits * 100 - deletes * 50))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=["5000x5", "200x1000"])
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--partitions", type=int, help="5 files of one row in each")
    parser.add_argument("--large", type=float, help="one file of so many GB, 40 % deleted")
    parser.add_argument(
        "--beside", type=float, help="seconds beside 10 commits, 2 deletes a second"
    )
    args = parser.parse_args()
    print("## Compaction\n")
    print("| files x kB | by | s | CPU s | M rows/s | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in args.cases:
        files, size_kb = map(int, case.split("x"))
        rows = files * max(1, size_kb * 1000 // 16)
        for _ in range(args.times):
            measured(case, rows, MAKE, str(files), str(size_kb), by=list(RUNS))
    if args.partitions:
        case = f"{args.partitions} partitions x 5 files"
        rows = args.partitions * 5
        measured(case, rows, MAKE_PARTITIONS, str(args.partitions), by=["lakelog", "deltalake"])
    if args.large:
        rows = int(args.large * 1e9 / 8.5)  # of a file of that size
        measured(f"1 of {args.large} GB, 40 % deleted", rows, MAKE_LARGE, str(rows), by=["lakelog"])
    if args.beside:
        print("\n| beside a writer | rewrites | committed | commits | deletes refused | rows off |")
        print("| --- | --- | --- | --- | --- | --- |")
        for library in ("lakelog", "deltalake"):
            with tempfile.TemporaryDirectory() as root:
                found = run(BESIDE, library, str(args.beside), root).split()
                print(f"| {library} | {' | '.join(found)} |", flush=True)


def measured(case: str, rows: int, make: str, *arguments: str, by: list[str]) -> None:
    """Prints how long each takes with the same files."""
    with tempfile.TemporaryDirectory() as root:
        run(make, *arguments, root)
        for name in by:
            found = run(READ.format(code=RUNS[name]), root).split()
            taken_s, cpu_s, peak_mib = map(float, found)
            print(f"| {case} | {name} | {taken_s:.2f} | {cpu_s:.2f} | {rows / taken_s / 1e6:.2f} "
                  f"| {peak_mib:.0f} |", flush=True)  # fmt: skip


def run(code: str, *arguments: str) -> str:
    """Runs Python in a process of its own; returns what it prints last."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parent,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )  # fmt: skip
    return done.stdout.strip().rpartition("\n")[2]  # DuckDB may show its progress before


if __name__ == "__main__":
    main()
