"""Queries 1, 3, 6 and 14 of TPC-H: by `to_duckdb`, by `lakelog query`, and by DuckDB alone on the
very same files.

    python bench/tpch.py [--scale 1] [--files 8] [--times 5]

Local disk. The tables are made by tpchgen and written by lakelog, each in several files. The three
take turns, each run in a fresh process: `first` is the first query of that process (opening the
snapshot and all imports are told apart), `again` the same query once more. In brackets processor
time, which other work on the machine disturbs less than it does the clock. The last three columns
are whole processes, as a user's first call is one: `python -c "import duckdb; ..."` over the bare
files, the same by `to_duckdb`, and `lakelog query`. What they need for `select 1`, without a table,
is told in a row of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import tables

NAMES = ("lineitem", "orders", "customer", "part")
QUERIES = {
    1: """
select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty,
    sum(l_extendedprice) as sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
    avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    3: """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
from customer, orders, lineitem
where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
    and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate limit 10""",
    6: """
select sum(l_extendedprice * l_discount) as revenue from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
    and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    14: """
select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount)
    else 0 end) / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from lineitem, part where l_partkey = p_partkey
    and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-09-01' + interval '1' month""",
}
OURS = """
import lakelog, duckdb
connection = lakelog.open_catalog(job["url"]).snapshot("db").to_duckdb()
"""
THEIRS = """
import duckdb
connection = duckdb.connect()
for table, files in job["files"].items():
    connection.execute(f"create view {table} as from read_parquet({files!r})")
"""
ASK = """
import hashlib
connection.execute("set enable_progress_bar = false")
for name in ("first", "again"):
    start, busy = time.perf_counter(), time.process_time()
    rows = connection.sql(job["query"]).fetchall()
    found[name] = [time.perf_counter() - start, time.process_time() - busy]
found["rows"] = hashlib.sha256(repr(rows).encode()).hexdigest()
"""


def fill(url: str, raw: str, scale: str, files: int) -> None:
    """Make the tables, and write them by lakelog."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    argv = [program, "parquet", "-s", scale, f"--parts={files}", f"--tables={','.join(NAMES)}"]
    subprocess.run([*argv, f"--output-dir={raw}"], check=True, stdout=subprocess.DEVNULL)
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for name in NAMES:
            for number in range(1, files + 1):
                data = pq.read_table(Path(raw, name, f"{name}.{number}.parquet"))
                with writer.transaction() as tx:
                    tx.write(name, data.cast(plain(data.schema)))
        writer.checkpoint()


def plain(schema: pa.Schema) -> pa.Schema:
    """The same with texts as most programs have them, and without the maker's metadata."""
    view = pa.string_view()
    kinds = [pa.string() if field.type == view else field.type for field in schema]
    return pa.schema(list(zip(schema.names, kinds)))


WHOLE_OURS = """
import lakelog
connection = lakelog.open_catalog({url!r}).snapshot("db").to_duckdb(tables={named!r})
"""
WHOLE_THEIRS = """
import duckdb
connection = duckdb.connect()
for table, names in {files!r}.items():
    connection.execute(f"create view {{table}} as from read_parquet({{names!r}})")
"""
WHOLE_ASK = """
import json
connection.execute("set enable_progress_bar = false")
rows = connection.sql({query!r}).fetchall()
print(json.dumps({{"rows": rows}}, default=str))
"""


def by_code(begin: str, query: str, job: dict) -> dict:
    """One run of `python -c`, as a whole; of the tables that the query names."""
    named = [table for table in NAMES if table in query]
    files = {table: job["files"][table] for table in named}
    code = (begin + WHOLE_ASK).format(url=job["url"], files=files, named=named, query=query)
    return as_a_whole([sys.executable, "-c", code])


def by_command(url: str, query: str) -> dict:
    """One run of `lakelog query`, as a whole."""
    argv = [sys.executable, "-m", "lakelog", "query", url, "db", query, "--output", "json"]
    return as_a_whole(argv)


def as_a_whole(argv: list[str]) -> dict:
    """One run of a process that prints rows as JSON."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    taken, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"first": [taken, busy], "rows": json.loads(done.stdout)["rows"]}


def told(runs: list[dict], name: str) -> str:
    """The median of each of two times."""
    clock, busy = (statistics.median(run[name][at] for run in runs) * 1e3 for at in (0, 1))
    return f"{clock:.0f} ms ({busy:.0f})"


def measure(query: str, job: dict, times: int) -> dict[str, list[dict]]:
    """Runs of all three, in turn."""
    names = ("to_duckdb", "duckdb", "their process", "our process", "query")
    runs: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(times):
        runs["duckdb"] += tables.fresh(THEIRS + ASK, job | {"query": query}, 1)
        runs["to_duckdb"] += tables.fresh(OURS + ASK, job | {"query": query}, 1)
        runs["their process"].append(by_code(WHOLE_THEIRS, query, job))
        runs["our process"].append(by_code(WHOLE_OURS, query, job))
        runs["query"].append(by_command(job["url"], query))
    answers = {run["rows"] for name in ("to_duckdb", "duckdb") for run in runs[name]}
    assert len(answers) == 1, answers
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=8, help="of each table")
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder, "lake"))
        fill(url, str(Path(folder, "raw")), args.scale, args.files)
        snapshot = lakelog.open_catalog(url).snapshot("db")
        files = {t: [f"{url}/{part.key}" for part in snapshot.file_parts(t)] for t in NAMES}
        print(f"\n## TPC-H, scale {args.scale}, {args.files} files a table")
        tables.head(
            "query", "duckdb first", "to_duckdb first", "duckdb again", "to_duckdb again",
            "again, of processor time", "a process: duckdb", "to_duckdb", "lakelog query",
        )  # fmt: skip
        for number, query in QUERIES.items():
            runs = measure(query, {"url": url, "files": files}, args.times)
            ours, theirs = (
                statistics.median(run["again"][1] for run in runs[name])
                for name in ("to_duckdb", "duckdb")
            )
            tables.row(
                number, told(runs["duckdb"], "first"), told(runs["to_duckdb"], "first"),
                told(runs["duckdb"], "again"), told(runs["to_duckdb"], "again"),
                f"{ours / theirs:.2f}x", told(runs["their process"], "first"),
                told(runs["our process"], "first"), told(runs["query"], "first"),
            )  # fmt: skip
        job = {"url": url, "files": files}
        wholes = [
            [by_code(begin, "select 1", job) for _ in range(args.times)]
            for begin in (WHOLE_THEIRS, WHOLE_OURS)
        ]
        wholes.append([by_command(url, "select 1") for _ in range(args.times)])
        tables.row("none", "", "", "", "", "", *(told(runs, "first") for runs in wholes))


if __name__ == "__main__":
    main()
