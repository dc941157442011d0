"""Compaction of many small files: rows a second and peak memory, beside deltalake's
`optimize.compact` and DuckDB that rewrites the same files.

    python bench/compact.py [--cases 5000x5 200x1000] [--times 1]

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
READ = """
import resource, sys, time
root = sys.argv[1]
began_s = time.perf_counter()
{code}
taken_s = time.perf_counter() - began_s
print(taken_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=["5000x5", "200x1000"])
    parser.add_argument("--times", type=int, default=1)
    args = parser.parse_args()
    print("## Compaction\n")
    print("| files x kB | by | s | M rows/s | peak MiB |\n| --- | --- | --- | --- | --- |")
    for case in args.cases:
        files, size_kb = map(int, case.split("x"))
        rows = files * max(1, size_kb * 1000 // 16)
        for _ in range(args.times):
            with tempfile.TemporaryDirectory() as root:
                run(MAKE, str(files), str(size_kb), root)
                for name, code in RUNS.items():
                    taken_s, peak_mib = map(float, run(READ.format(code=code), root).split())
                    print(f"| {case} | {name} | {taken_s:.2f} | {rows / taken_s / 1e6:.2f} "
                          f"| {peak_mib:.0f} |", flush=True)  # fmt: skip


def run(code: str, *arguments: str) -> str:
    """Runs Python in a process of its own; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parent,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )  # fmt: skip
    return done.stdout.strip().rpartition("\n")[2]  # DuckDB may show its progress before


if __name__ == "__main__":
    main()
