"""Four selective queries over a table like TPC-H's lineitem, a few files a month: lakelog's `read`
beside plain Parquet, Delta and Iceberg, in one session and over the same data files.

    python bench/spark_selective.py [--months 84] [--files-a-month 4] [--rows 20000] [--rounds 7]
        [--packages io.delta:delta-spark_4.1_2.13:4.4.0 ... | --jars delta-spark.jar ...]

Each time is that of the four queries together, each from a newly opened table to its rows; the
median of the rounds, after one that loads the classes. Delta and Iceberg take over links to the
files (CONVERT TO DELTA, add_files) where they are named for the Spark that runs: as packages, which
Spark fetches from Maven Central, or as jars, which `mvn dependency:get` fetched.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lakelog
import lakelog.spark
import numpy as np
import pyarrow as pa
import spark_peers as peers
from lakelog.spark.session import session

FIRST = dt.date(1992, 1, 1)
QUERIES = (
    "select sum(l_extendedprice * l_discount) from {t} where l_shipdate >= date '1994-01-01' and "
    "l_shipdate < date '1994-04-01' and l_discount between 0.05 and 0.07 and l_quantity < 24",
    "select l_returnflag, l_linestatus, sum(l_quantity), avg(l_extendedprice), count(*) from {t} "
    "where l_shipdate between date '1995-03-01' and date '1995-03-31' group by 1, 2 order by 1, 2",
    "select * from {t} where l_orderkey in ({key}, {key} + 1, {key} + 2) order by l_orderkey",
    "select l_shipmode, count(*) from {t} where l_shipdate = date '1996-06-15' and "
    "l_receiptdate > l_commitdate group by 1 order by 1",
)


class Month:
    """The rows of one file; the same each time."""

    def __init__(self, number: int, of: int, count: int, rows: int) -> None:
        self.rng = np.random.default_rng([number, of])
        self.rows = rows
        start = FIRST.replace(year=FIRST.year + number // 12, month=number % 12 + 1)
        self.days = self.rng.integers(0, 28, rows) + (start - dt.date(1970, 1, 1)).days
        self.first = (number * count + of) * rows

    def money(self, low: int, high: int) -> pa.Array:
        """Cents as decimals of two places: the same digits under another type."""
        cents = pa.array(self.rng.integers(low, high, self.rows)).cast(pa.decimal128(19, 0))
        return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), cents.buffers())

    def word(self, *of: str) -> pa.Array:
        return pa.array(np.array(of)[self.rng.integers(0, len(of), self.rows)])

    def day(self, within: int) -> pa.Array:
        later = self.rng.integers(1, within, self.rows) if within else 0
        return pa.array((self.days + later).astype(np.int32), pa.date32())

    def table(self) -> pa.Table:
        return pa.table(
            {
                "l_orderkey": np.arange(self.first, self.first + self.rows) // 4,
                "l_partkey": self.rng.integers(1, 200_000, self.rows),
                "l_suppkey": self.rng.integers(1, 10_000, self.rows),
                "l_linenumber": (np.arange(self.rows) % 4 + 1).astype(np.int32),
                "l_quantity": self.money(100, 5_000),
                "l_extendedprice": self.money(90_000, 10_000_000),
                "l_discount": self.money(0, 11),
                "l_tax": self.money(0, 9),
                "l_returnflag": self.word("A", "N", "R"),
                "l_linestatus": self.word("F", "O"),
                "l_shipdate": self.day(0),
                "l_commitdate": self.day(60),
                "l_receiptdate": self.day(30),
                "l_shipinstruct": self.word("COLLECT COD", "DELIVER IN PERSON", "NONE"),
                "l_shipmode": self.word("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
                "l_comment": self.word(*(f"carefully final package {n}" for n in range(500))),
            }
        )


def make_lake(url: str, args: argparse.Namespace) -> None:
    with lakelog.open_catalog(url).writer("w", "tpch") as writer:
        for number in range(args.months):
            with writer.transaction() as tx:
                for of in range(args.files_a_month):
                    rows = Month(number, of, args.files_a_month, args.rows).table()
                    tx.write("lineitem", rows)


def roads(spark: Any, url: str, root: Path, args: argparse.Namespace) -> dict[str, Any]:
    """How each opens the table."""

    def linked(name: str) -> str:
        return peers.links(url, "tpch", "lineitem", root / name)

    plain = linked("plain")
    found = {
        "lakelog": lambda: lakelog.spark.read(spark, url, "tpch", "lineitem"),
        "spark.read.parquet": lambda: spark.read.parquet(plain),
    }
    if peers.has("delta", args):
        delta = peers.to_delta(spark, linked("delta"))
        found["Delta"] = lambda: spark.read.format("delta").load(delta)
    if peers.has("iceberg", args):
        iceberg = peers.to_iceberg(spark, linked("files"), "tpch.lineitem")
        found["Iceberg"] = lambda: spark.table(iceberg)
    return found


def run(frame: Any, query: str, args: argparse.Namespace) -> Any:
    key = args.months * args.files_a_month * args.rows // 8
    frame.createOrReplaceTempView("lineitem_here")
    return frame.sparkSession.sql(query.format(t="lineitem_here", key=key))


def measure(spark: Any, found: dict[str, Any], args: argparse.Namespace) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in found}
    answers: dict[str, list[str]] = {}
    for turn in range(args.rounds + 1):
        for name, load in found.items():
            start = time.perf_counter()
            rows = [run(load(), query, args).collect() for query in QUERIES]
            if turn:
                times[name].append(time.perf_counter() - start)
            answers[name] = list(map(str, rows))
    assert all(answer == answers["lakelog"] for answer in answers.values())
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--months", type=int, default=84)
    parser.add_argument("--files-a-month", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    peers.add_arguments(parser)
    args = peers.fitting(parser.parse_args())
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        url = str(root / "lake")
        make_lake(url, args)
        given = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": 4}
        spark = session("selective", **given, **peers.settings(root / "warehouse", args))
        print(f"Spark {spark.version}, {os.cpu_count()} cores, local files", file=sys.stderr)
        found = roads(spark, url, root, args)
        frame = found["lakelog"]()
        for query in QUERIES:
            read = lakelog.spark.files_read(run(frame, query, args))
            print(f"lakelog reads {read.read} of {read.of} files: {query[:60]}…", file=sys.stderr)
        times = measure(spark, found, args)
        spark.stop()
    print("| table | four queries, median | least |\n| --- | --- | --- |")
    for road, each in times.items():
        print(f"| {road} | {statistics.median(each):.2f} s | {min(each):.2f} s |")


if __name__ == "__main__":
    main()
