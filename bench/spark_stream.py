"""Batches per second of a Spark stream, at one file each: lakelog's source and sink beside Spark's
own, Delta's and Iceberg's.

    python bench/spark_stream.py [--files 60] [--rows 1000] [--rounds 3]
        [--packages io.delta:delta-spark_4.1_2.13:4.4.0 ... | --jars delta-spark.jar ...]

The table is written by lakelog, a commit for each file; the others get links to the very files,
which Delta and Iceberg take over in one commit (CONVERT TO DELTA, add_files) where they are named
for the Spark that runs (see `spark_selective.py`). `read` gives the rows of a source to Spark's
`noop`. `write` puts each batch into a new table: all sinks are fed by Spark's own source of Parquet
files. What this Spark can't run is left out, and stderr says so: lakelog's source needs Spark 4.2,
and the peers are built for 4.1, so no run has these beside it.

Each run is a new query that ends when all is read. The first batch, which loads classes and starts
Python, doesn't count; in brackets the processor time of a batch, of Spark and Python together
(there the first one does).
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
Source = Callable[[], Any]  # gives the streaming frame
Sink = Callable[[Any, str], Any]  # sets up its writer for a place that nobody has used


class Way(NamedTuple):
    """How a stream is read, and where its batches go."""

    source: Source
    sink: Sink


def make_lake(url: str, files: int, rows: int) -> None:
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for number in range(files):
            ids = np.arange(number * rows, (number + 1) * rows)
            with writer.transaction() as tx:
                tx.write("t", pa.table({"id": ids, "temp": ids / 7}))


def to_nowhere(writer: Any, place: str) -> Any:
    return writer.format("noop")


def sources(spark: Any, url: str, root: Path, args: argparse.Namespace) -> dict[str, Source]:
    """A stream of each kind of table, one file a batch; Spark's own comes first."""

    def linked(name: str) -> str:
        return peers.links(url, "db", "t", root / name)

    plain = linked("plain")
    found: dict[str, Source] = {
        "Parquet": lambda: (
            spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(plain)
        )
    }
    if tuple(map(int, peers.spark_here().split("."))) >= (4, 2):
        about = {"database": "db", "table": "t", "maxFilesPerTrigger": "1"}
        ours = spark.readStream.format("lakelog").options(**about)
        found["lakelog"] = lambda: ours.load(url)
    else:
        peers.left_out("lakelog's source", f"it needs Spark 4.2, and this is {spark.version}")
    if peers.has("delta", args):
        delta = peers.to_delta(spark, linked("delta"))
        reader = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
        found["Delta"] = lambda: reader.load(delta)
    if peers.has("iceberg", args):
        name = peers.to_iceberg(spark, linked("iceberg"), "db.t")
        least = spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", 1)
        found["Iceberg"] = lambda: least.load(name)
    return found


def sinks(spark: Any, args: argparse.Namespace) -> dict[str, Sink]:
    """The roads into a new table of each kind."""

    def ours(writer: Any, place: str) -> Any:
        writer = writer.format("lakelog").option("database", "db").option("table", "copy")
        return writer.option("writer", "stream").option("path", place)

    def by_batches(writer: Any, place: str) -> Any:
        def put(frame: Any, batch: int) -> None:
            lakelog.spark.write(
                frame, place, "db", "copy", writer="stream", app_id="copy", app_version=batch
            )

        return writer.foreachBatch(put)

    def iceberg(writer: Any, place: str) -> Any:
        target = f"ice.db.{Path(place).name.replace('-', '_')}"
        spark.sql(f"CREATE TABLE {target} ({SCHEMA}) USING iceberg")
        return writer.format("iceberg").option("path", target)

    found: dict[str, Sink] = {
        "Parquet": lambda writer, place: writer.format("parquet").option("path", place),
        "lakelog": ours,
        "lakelog by foreachBatch": by_batches,
    }
    if peers.has("delta", args):
        found["Delta"] = lambda writer, place: writer.format("delta").option("path", place)
    if peers.has("iceberg", args):
        found["Iceberg"] = iceberg
    return found


def every_way(spark: Any, url: str, root: Path, args: argparse.Namespace) -> dict[str, Way]:
    """All that this Spark can run, by name."""
    read = sources(spark, url, root, args)
    write = sinks(spark, args)
    ways = {f"read {name}": Way(source, to_nowhere) for name, source in read.items()}
    ways |= {f"write {name}": Way(read["Parquet"], sink) for name, sink in write.items()}
    if "lakelog" in read:
        ways["from lakelog into lakelog"] = Way(read["lakelog"], write["lakelog"])
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
    args = peers.fitting(parser.parse_args())
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        url = str(root / "lake")
        make_lake(url, args.files, args.rows)
        given = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": 2}
        given["spark.sql.streaming.numRecentProgressUpdates"] = 10 * args.files
        spark = session("stream", **given, **peers.settings(root / "warehouse", args))
        print(f"Spark {spark.version}, {os.cpu_count()} cores, local files", file=sys.stderr)
        ways = every_way(spark, url, root, args)
        found: dict[str, list[tuple[list[int], float]]] = {each: [] for each in ways}
        for turn in range(args.rounds):
            for at, (each, way) in enumerate(ways.items()):
                found[each].append(run(way, str(root / f"out-{turn}-{at}"), args))
                print(f"round {turn}, {each}: {result(found[each][-1:])}", file=sys.stderr)
        spark.stop()
    told(found, args)


def result(runs: list[tuple[list[int], float]]) -> str:
    """The rate of the best run, the median of all batches, and the least processor time of one."""
    rate = max(len(batches[1:]) / sum(batches[1:]) * 1e3 for batches, _ in runs)
    median = statistics.median(each for batches, _ in runs for each in batches[1:])
    busy = min(busy / len(batches) for batches, busy in runs)
    return f"{rate:.1f} | {median:.0f} ms ({busy * 1e3:.0f} ms)"


def told(found: dict[str, list[tuple[list[int], float]]], args: argparse.Namespace) -> None:
    print(f"\n## A stream of {args.files} files of {args.rows} rows, one a batch")
    tables.head("stream", "batches a second", "a batch, median (processor time)")
    for name, runs in found.items():
        tables.row(name, result(runs))


if __name__ == "__main__":
    main()
