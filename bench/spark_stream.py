"""Batches per second of a Spark stream, at one file each: lakelog's source and sink beside Spark's
own, Delta's and Iceberg's. lakelog's source needs Spark 4.2: before that its streams are left out.

    python bench/spark_stream.py [--files 60] [--rows 1000] [--rounds 3]
        [--packages io.delta:delta-spark_4.1_2.13:4.4.0 ... | --jars delta-spark.jar ...]

The table is written by lakelog, a commit for each file; the others get links to the very files,
which Delta and Iceberg take over in one commit (CONVERT TO DELTA, add_files) where they are named
for the Spark that runs (see `spark_selective.py`). `read` gives the rows to Spark's `noop`; `copy`
writes each batch into a table of the same kind. Each run is a new query that ends when all is read.
The first batch, which loads classes and starts Python, doesn't count; in brackets the processor
time of a batch, of Spark and Python together (there the first one does).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lakelog
import lakelog.spark
import numpy as np
import pyarrow as pa
import spark_peers as peers
import tables
from lakelog.spark.session import session

SCHEMA = "id bigint, temp double"


class Way(NamedTuple):
    """How a stream is read, and where its batches go.

    Attributes:
        source: Gives the streaming frame.
        sink: Makes a writer of one for a place that nobody has used.
    """

    source: Callable[[], Any]
    sink: Callable[[Any, str], Any]


def make_lake(url: str, files: int, rows: int) -> None:
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for number in range(files):
            ids = np.arange(number * rows, (number + 1) * rows)
            with writer.transaction() as tx:
                tx.write("t", pa.table({"id": ids, "temp": ids / 7}))


def to_nowhere(writer: Any, place: str) -> Any:
    return writer.format("noop")


def ours(spark: Any, url: str) -> dict[str, Way]:
    """lakelog's source, and two roads to its tables."""

    def source() -> Any:
        reader = spark.readStream.format("lakelog").option("database", "db").option("table", "t")
        return reader.option("maxFilesPerTrigger", 1).load(url)

    def sink(writer: Any, place: str) -> Any:
        writer = writer.format("lakelog").option("database", "db").option("table", "copy")
        return writer.option("writer", "stream").option("path", place)

    def by_batches(writer: Any, place: str) -> Any:
        def put(frame: Any, batch: int) -> None:
            lakelog.spark.write(
                frame, place, "db", "copy", writer="stream", app_id="copy", app_version=batch
            )

        return writer.foreachBatch(put)

    return {
        "lakelog, read": Way(source, to_nowhere),
        "lakelog, copy": Way(source, sink),
        "lakelog, copy by foreachBatch": Way(source, by_batches),
    }


def theirs(spark: Any, url: str, root: Path, args: argparse.Namespace) -> dict[str, Way]:
    """Spark's own source of Parquet files, and those of the peers that are named."""

    def linked(name: str) -> str:
        return peers.links(url, "db", "t", root / name)

    plain = linked("plain")
    found = {
        "Parquet": Way(
            lambda: spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(plain),
            lambda writer, place: writer.format("parquet").option("path", place),
        )
    }
    if peers.has("delta", args):
        delta = peers.to_delta(spark, linked("delta"))
        reader = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
        found["Delta"] = Way(
            lambda: reader.load(delta),
            lambda writer, place: writer.format("delta").option("path", place),
        )
    if peers.has("iceberg", args):
        name = peers.to_iceberg(spark, linked("iceberg"), "db.t")
        least = spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", 1)

        def into(writer: Any, place: str) -> Any:
            target = f"ice.db.{Path(place).name.replace('-', '_')}"
            spark.sql(f"CREATE TABLE {target} ({SCHEMA}) USING iceberg")
            return writer.format("iceberg").option("path", target)

        found["Iceberg"] = Way(lambda: least.load(name), into)
    ways = {}
    for name, way in found.items():
        ways |= {f"{name}, read": way._replace(sink=to_nowhere), f"{name}, copy": way}
    return ways


def run(way: Way, place: str, args: argparse.Namespace) -> tuple[list[int], float]:
    """Milliseconds of each batch, and processor time of all, of one query to its end."""
    busy = peers.busy_s()
    writer = way.sink(way.source().writeStream, place)
    writer = writer.option("checkpointLocation", f"{place}-progress").trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    assert len(batches) == args.files, (place, len(batches))
    assert sum(each["numInputRows"] for each in batches) == args.files * args.rows
    return [each["batchDuration"] for each in batches], peers.busy_s() - busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--rows", type=int, default=1_000, help="of each file")
    parser.add_argument("--rounds", type=int, default=3)
    peers.add_arguments(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        url = str(root / "lake")
        make_lake(url, args.files, args.rows)
        given = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": 2}
        given["spark.sql.streaming.numRecentProgressUpdates"] = 10 * args.files
        spark = session("stream", **given, **peers.settings(root / "warehouse", args))
        print(f"Spark {spark.version}, {os.cpu_count()} cores, local files", file=sys.stderr)
        is_source = tuple(map(int, spark.version.split(".")[:2])) >= (4, 2)
        ways = (ours(spark, url) if is_source else {}) | theirs(spark, url, root, args)
        found: dict[str, list[tuple[list[int], float]]] = {each: [] for each in ways}
        for turn in range(args.rounds):
            for at, (each, way) in enumerate(ways.items()):
                found[each].append(run(way, str(root / f"out-{turn}-{at}"), args))
                print(f"round {turn}, {each}", file=sys.stderr, flush=True)
        spark.stop()
    told(found, args)


def told(found: dict[str, list[tuple[list[int], float]]], args: argparse.Namespace) -> None:
    """Print the rate of the best round, and the median of all batches."""
    print(f"\n## A stream of {args.files} files of {args.rows} rows, one a batch")
    tables.head("stream", "batches a second", "a batch, median (processor time)")
    for name, runs in found.items():
        rate = max(len(batches[1:]) / sum(batches[1:]) * 1e3 for batches, _ in runs)
        median = statistics.median(each for batches, _ in runs for each in batches[1:])
        busy = min(busy for _, busy in runs) / args.files
        tables.row(name, f"{rate:.1f}", f"{median:.0f} ms ({busy * 1e3:.0f} ms)")


if __name__ == "__main__":
    main()
