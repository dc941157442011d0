"""How long Spark takes to plan a query over many known files: our file index beside Spark's own
road, and tables of lakelog beside those of Delta and Iceberg.

    python bench/spark_planning.py [--files 1000 10000] [--repeat 3] [--listing 1000000]
    python bench/spark_planning.py --tables 10000 100000 [--repeat 3]
        [--packages io.delta:delta-spark_4.1_2.13:4.4.0 ... | --jars delta-spark.jar ...]

Writes one small Parquet file and hard-links it, so that all files exist and Spark's look-ups
succeed. Each number is the time from paths and sizes to the finished physical plan of a filtered
query; no row is read. `--count` also counts the rows: with each file held against the log in its
task, and as Spark's own relation does it. `--listing` makes a log of so many files, without any
data, and times how long the index takes to list those that a query's filters leave: the first time
that a column is asked for, and for other constants (`listFiles`, without the rest of planning); and
says how much of the driver's heap the list holds.

`--tables` makes tables of so many files without any data, whose logs have the same entries, and
times a query of each from opening the table to where its first task could start: files are listed,
skipped and put into splits by then (Iceberg does that for its physical plan, Spark's own scans
after it). Peers take part where they are named for the Spark that runs (see
`spark_selective.py`). Nothing is kept from one query to the next: Delta's cache of logs is emptied,
and Iceberg's is off. Median, and in brackets the processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import spark_logs
import spark_peers as peers
import tables
from lakelog.catalog.data.parquet import footer_digest
from lakelog.spark import file_index, native
from lakelog.spark.arrow_types import spark_schema
from lakelog.spark.session import session
from lakelog.testing.known_files import KnownFile, known_files

SCHEMA = spark_schema(pa.schema({"a": pa.int64(), "b": pa.string()}))
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
SPARKS_OWN = "10000"  # the default of Spark for LISTING


def make_files(folder: Path, count: int) -> list[KnownFile]:
    first = folder / "first.parquet"
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), first)
    size = first.stat().st_size
    body = first.read_bytes()
    footer_bytes = int.from_bytes(body[-8:-4], "little") + 8
    digest = footer_digest(body[-footer_bytes:])
    files = []
    for at in range(count):
        path = folder / f"{at % 100:02d}" / f"{at:08d}-3f2b8c1e-0001.parquet"
        path.parent.mkdir(exist_ok=True)
        os.link(first, path)
        files.append(KnownFile(f"file://{path}", size, footer_bytes, digest))
    return files


def seconds(spark, make) -> float:
    start = time.perf_counter()
    frame = make().where("a > 3").select("b")
    frame._jdf.queryExecution().executedPlan()
    return time.perf_counter() - start


def by_paths(spark, files, tasks: str):
    spark.conf.set(LISTING, tasks)
    return spark.read.schema(SCHEMA).parquet(*(file.path for file in files))


def measure(spark, files, repeat: int) -> dict[str, float]:
    ways = {
        "file index": lambda: file_index.relation(spark, schema=SCHEMA, files=known_files(files)),
        "parquet_paths (8 listing tasks)": lambda: native.relation_of_paths(
            spark, schema=SCHEMA, files=known_files(files)
        ),
        "spark.read.parquet(*paths)": lambda: by_paths(spark, files, SPARKS_OWN),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeat):
        for name, way in ways.items():
            if turn and statistics.median(times[name]) > 10:
                continue  # one measurement of what takes half a minute is enough
            times[name].append(seconds(spark, way))
    return {name: statistics.median(each) for name, each in times.items()}


def counting(spark, files, repeat: int) -> dict[str, float]:
    own = by_paths(spark, files, "8")
    frames = {
        "file index, checked": file_index.relation(spark, schema=SCHEMA, files=known_files(files)),
        "file index, size alone": file_index.relation(
            spark, schema=SCHEMA, files=known_files([KnownFile(*file[:2]) for file in files])
        ),
        "spark.read.parquet": own,
    }
    times: dict[str, list[float]] = {name: [] for name in frames}
    for _ in range(repeat):
        for name, frame in frames.items():
            start = time.perf_counter()
            assert frame.where("a > 0").count() == len(files)
            times[name].append(time.perf_counter() - start)
    return {name: min(each) for name, each in times.items()}


def listing(spark, count: int, folder: str) -> None:
    tables.lakelog_table(folder, count).close()
    lakelog.spark.read(spark, folder, "db", "t", {"w": 1}).where(
        "id = 1"
    ).explain()  # loads classes
    before = heap_bytes(spark)
    start = time.perf_counter()
    frame = lakelog.spark.read(spark, folder, "db", "t")
    print(f"read of {count:,} files: {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    frame.where("id = 1")._jdf.queryExecution().executedPlan()
    planned = time.perf_counter() - start
    held = (heap_bytes(spark) - before) / 1e6
    print(f"a query planned in {planned:.1f} s; {held:.0f} MB of the driver's heap are held")
    print("| filter | files left | first | another constant |\n| --- | --- | --- | --- |")
    middle = count // 2
    for text in (
        "id between {n} and {n} + 9",
        "name = 'station-{n:07}'",
        "id in ({n}, {n} + 5000, {n} + 90000) and temp < 1e9D",
        "at >= timestamp_micros({at}) and name like 'station-0%'",
    ):
        found = [
            listed(frame.where(text.format(n=middle + step, at=tables.START_US + count + step)))
            for step in (0, 100, 200, 300)
        ]
        times = [1e3 * time_s for time_s, _ in found]
        print(f"| `{text}` | {found[0][1]:,} | {times[0]:.0f} ms | {min(times[1:]):.0f} ms |")


def heap_bytes(spark) -> int:
    """What is in use of the driver's heap, without garbage."""
    for _ in range(3):
        spark._jvm.System.gc()
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    return runtime.totalMemory() - runtime.freeMemory()


def listed(frame) -> tuple[float, int]:
    """How long the files of a query's scan take to list, and how many there are."""
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    index, filters = scan.relation().location(), (scan.partitionFilters(), scan.dataFilters())
    start = time.perf_counter()
    found = index.listFiles(*filters)
    count = sum(found.apply(at).files().length() for at in range(found.length()))
    return time.perf_counter() - start, count


QUERIES = {
    "10 ids": "SELECT count(*) FROM planned WHERE id BETWEEN {n} AND {n} + 9",
    "all": "SELECT sum(id) FROM planned",
}


def planning(spark, road, query: str) -> tuple[float, float]:
    """Seconds and processor time of one query, from opening its table to its first task."""
    busy, start = peers.busy_s(), time.perf_counter()
    road().createOrReplaceTempView("planned")
    spark.sql(query)._jdf.queryExecution().toRdd()
    return time.perf_counter() - start, peers.busy_s() - busy


def beside_peers(spark, root: Path, options: argparse.Namespace) -> None:
    small = spark_logs.roads(spark, root, 100, options)
    for road in [*small.values()] * 2:  # loads the classes
        for query in QUERIES.values():
            planning(spark, road, query.format(n=50))
    for count in options.tables:
        roads = spark_logs.roads(spark, root, count, options)
        print(f"\n## From opening a table of {count:,} files to the first task")
        tables.head("rows of", *roads)
        for name, query in QUERIES.items():
            times: dict[str, list[tuple[float, float]]] = {road: [] for road in roads}
            for turn in range(options.repeat):
                for each, road in roads.items():
                    text = query.format(n=count // 2 + 100 * turn)
                    times[each].append(planning(spark, road, text))
                    print(f"{name}, {each}: {times[each][-1][0]:.2f} s", file=sys.stderr)
            cells = [
                [statistics.median(column) for column in zip(*each)] for each in times.values()
            ]
            tables.row(name, *(f"{taken:.2f} s ({busy:.1f})" for taken, busy in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--count", action="store_true", help="count the rows, too")
    parser.add_argument("--listing", type=int, default=0, help="so many files, skipped by filters")
    parser.add_argument("--tables", type=int, nargs="+", default=[], help="beside the peers")
    peers.add_arguments(parser)
    options = peers.fitting(parser.parse_args())
    if options.tables:
        with tempfile.TemporaryDirectory() as name:
            given = {"spark.driver.memory": "4g", "spark.sql.adaptive.enabled": False}
            given["spark.sql.shuffle.partitions"] = 2  # Delta reads its log by queries
            given["spark.sql.catalog.ice.cache-enabled"] = False
            given |= peers.settings(Path(name, "warehouse"), options)
            spark = session("planning", **given)
            print(f"Spark {spark.version}, {os.cpu_count()} cores, local files", file=sys.stderr)
            beside_peers(spark, Path(name), options)
            spark.stop()
        return
    spark = session("planning", **{LISTING: SPARKS_OWN, "spark.driver.memory": "4g"})
    print(
        f"Spark {spark.version}, {os.cpu_count()} cores, local files, median seconds",
        file=sys.stderr,
    )
    if options.listing:
        with tempfile.TemporaryDirectory() as name:
            listing(spark, options.listing, name)
        spark.stop()
        return
    with tempfile.TemporaryDirectory() as name:
        files = make_files(Path(name), max(options.files))
        measure(spark, files[:100], 2)  # loads the classes
        if options.count:
            for name, time_s in counting(spark, files, options.repeat).items():
                print(f"counting {len(files):,} files, {name}: {time_s:.2f} s")
        rows = {count: measure(spark, files[:count], options.repeat) for count in options.files}
    ways = list(next(iter(rows.values())))
    print("| files | " + " | ".join(ways) + " | times faster |")
    print("| --- |" + " --- |" * (len(ways) + 1))
    for count, times in rows.items():
        cells = " | ".join(f"{times[way]:.3f} s" for way in ways)
        print(f"| {count:,} | {cells} | {times[ways[-1]] / times[ways[0]]:.0f}x |")
    spark.stop()


if __name__ == "__main__":
    main()
