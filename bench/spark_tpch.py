"""Ten queries of TPC-H in Spark: lakelog's `read` beside plain Parquet, Delta and Iceberg, in one
session and over the very same data files.

    python bench/spark_tpch.py [--scale 1] [--files 8] [--rounds 4] [--driver-memory 6g]
        [--packages io.delta:delta-spark_4.1_2.13:4.4.0 ... | --jars delta-spark.jar ...]

The tables are made by tpchgen and written by lakelog, each in several files; the others get links
to these, which Delta and Iceberg take over (CONVERT TO DELTA, add_files) where they are named for
the Spark that runs (see `spark_selective.py`). Each time is one query from newly opened tables to
its rows. The roads take turns, each second round in reverse, after one that loads the classes; code
that Spark has compiled stays for all rounds (see `spark_peers.py`). That they answer the same is
checked. In brackets the processor time of Spark and Python together.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import spark_peers as peers
import tables
from lakelog.spark.session import session

NAMES = ("lineitem", "orders", "customer", "part", "supplier", "nation", "region")
SMALL = ("nation", "region")  # tpchgen makes one file of each
QUERIES = {
    1: """
select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
    sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
    avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    3: """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
from customer, orders, lineitem
where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
    and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate, l_orderkey limit 10""",
    4: """
select o_orderpriority, count(*) from orders
where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'
    and exists (select * from lineitem
        where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
group by o_orderpriority order by o_orderpriority""",
    5: """
select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
from customer, orders, lineitem, supplier, nation, region
where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
    and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
    and r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
group by n_name order by revenue desc""",
    6: """
select sum(l_extendedprice * l_discount) from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
    and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    10: """
select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name,
    c_address, c_phone, c_comment
from customer, orders, lineitem, nation
where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01'
    and o_orderdate < date '1994-01-01' and l_returnflag = 'R' and c_nationkey = n_nationkey
group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
order by revenue desc, c_custkey limit 20""",
    12: """
select l_shipmode, sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 1 else 0 end),
    sum(case when o_orderpriority not in ('1-URGENT', '2-HIGH') then 1 else 0 end)
from orders, lineitem
where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
    and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01'
    and l_receiptdate < date '1995-01-01'
group by l_shipmode order by l_shipmode""",
    14: """
select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount)
    else 0 end) / sum(l_extendedprice * (1 - l_discount))
from lineitem, part where l_partkey = p_partkey
    and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'""",
    18: """
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
from customer, orders, lineitem
where o_orderkey in
        (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300)
    and c_custkey = o_custkey and o_orderkey = l_orderkey
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate, o_orderkey limit 100""",
    19: """
select sum(l_extendedprice * (1 - l_discount)) from lineitem, part
where p_partkey = l_partkey and l_shipmode in ('AIR', 'AIR REG')
    and l_shipinstruct = 'DELIVER IN PERSON' and (
        (p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
            and l_quantity between 1 and 11 and p_size between 1 and 5)
        or (p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
            and l_quantity between 10 and 20 and p_size between 1 and 10)
        or (p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
            and l_quantity between 20 and 30 and p_size between 1 and 15))""",
}
Road = Callable[[str], Any]


def fill(url: str, raw: Path, scale: str, files: int) -> None:
    """Make the tables, and write them by lakelog."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    for names, parts in ((set(NAMES) - set(SMALL), files), (SMALL, 1)):
        argv = [str(program), "parquet", "-s", scale, f"--parts={parts}"]
        argv += [f"--tables={','.join(names)}", f"--output-dir={raw}"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for name in NAMES:
            for path in sorted(raw.rglob(f"{name}*.parquet")):
                data = pq.read_table(path)
                with writer.transaction() as tx:
                    tx.write(name, data.cast(plain(data.schema)))


def plain(schema: pa.Schema) -> pa.Schema:
    """The same with texts as most programs have them, and without the maker's metadata."""
    view = pa.string_view()
    kinds = [pa.string() if field.type == view else field.type for field in schema]
    return pa.schema(list(zip(schema.names, kinds)))


def roads(spark: Any, url: str, root: Path, args: argparse.Namespace) -> dict[str, Road]:
    """How each opens a table by its name."""

    def linked(road: str) -> dict[str, str]:
        return {name: peers.links(url, "db", name, root / road / name) for name in NAMES}

    folders = linked("plain")
    found: dict[str, Road] = {
        "lakelog": lambda name: lakelog.spark.read(spark, url, "db", name),
        "spark.read.parquet": lambda name: spark.read.parquet(folders[name]),
    }
    if peers.has("delta", args):
        delta = {name: peers.to_delta(spark, each) for name, each in linked("delta").items()}
        found["Delta"] = lambda name: spark.read.format("delta").load(delta[name])
    if peers.has("iceberg", args):
        iceberg = {
            name: peers.to_iceberg(spark, each, f"db.{name}")
            for name, each in linked("iceberg").items()
        }
        found["Iceberg"] = lambda name: spark.table(iceberg[name])
    return found


def run(spark: Any, road: Road, query: str) -> tuple[float, float, str]:
    """Seconds, processor time and rows of one query, from opening its tables."""
    busy, start = peers.busy_s(), time.perf_counter()
    for name in NAMES:
        if re.search(rf"\b{name}\b", query):
            road(name).createOrReplaceTempView(name)
    rows = spark.sql(query).collect()
    return time.perf_counter() - start, peers.busy_s() - busy, str(rows)


def measure(spark: Any, found: dict[str, Road], rounds: int) -> dict[str, dict[int, list]]:
    """Times of each road and query."""
    times: dict[str, dict[int, list]] = {road: {q: [] for q in QUERIES} for road in found}
    for turn in range(rounds + 1):
        sums = dict.fromkeys(found, 0.0)
        for number, query in QUERIES.items():
            answers = set()
            turns = list(found.items())
            for name, road in turns if turn % 2 else reversed(turns):
                taken, busy, rows = run(spark, road, query)
                answers.add(rows)
                sums[name] += taken
                if turn:
                    times[name][number].append((taken, busy))
            assert len(answers) == 1, (number, answers)
        each = ", ".join(f"{name} {taken:.1f} s" for name, taken in sums.items())
        print(f"round {turn} of {rounds}: {each}", file=sys.stderr, flush=True)
    return times


def told(times: dict[str, dict[int, list]], scale: str, files: int) -> None:
    """Print the medians of each query, and their sum."""
    print(f"\n## TPC-H in Spark, scale {scale}, {files} files a table: median (processor time)")
    tables.head("query", *times)
    sums = dict.fromkeys(times, (0.0, 0.0))
    for number in QUERIES:
        cells = []
        for road, each in times.items():
            clock, busy = (statistics.median(run[at] for run in each[number]) for at in (0, 1))
            sums[road] = sums[road][0] + clock, sums[road][1] + busy
            cells.append(f"{clock:.2f} s ({busy:.1f})")
        tables.row(number, *cells)
    tables.row("all", *(f"{clock:.1f} s ({busy:.1f})" for clock, busy in sums.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=8, help="of each large table")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--driver-memory", default="6g")
    peers.add_arguments(parser)
    args = peers.fitting(parser.parse_args())
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        url = str(root / "lake")
        fill(url, root / "raw", args.scale, args.files)
        given = {"spark.driver.memory": args.driver_memory, "spark.sql.shuffle.partitions": 4}
        spark = session("tpch", **given, **peers.settings(root / "warehouse", args))
        print(f"Spark {spark.version}, {os.cpu_count()} cores, local files", file=sys.stderr)
        times = measure(spark, roads(spark, url, root, args), args.rounds)
        spark.stop()
    told(times, args.scale, args.files)


if __name__ == "__main__":
    main()
