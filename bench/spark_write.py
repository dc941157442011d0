"""How long Spark takes to write lineitem of TPC-H: as plain Parquet, and into a table of lakelog,
Delta and Iceberg.

    python bench/spark_write.py [--scale 1] [--files 8] [--times 5] [--driver-memory 4g]
        [--packages io.delta:delta-spark_4.1_2.13:4.4.0 ... | --jars delta-spark.jar ...]

Local disk, two threads. The frame is read from files of tpchgen, so that each time includes that
reading (`read only` is that alone: all rows to Spark's `noop`). The ways take turns after a round
that doesn't count. In brackets the processor time of Spark's JVM and its Python workers together,
which other work on the machine disturbs less than it does the clock; stderr tells of each run as it
ends. The ratios are those of the medians to `df.write.parquet`. That and Delta compress by snappy,
lakelog and Iceberg by zstd: sizes are told too, and so is Spark's own zstd. Each write makes a new
table, whose schema and statistics are part of it; Delta and Iceberg take part where they are named
for the Spark that runs (see `spark_selective.py`).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lakelog.spark
import spark_peers as peers
import tables
from lakelog.spark.row_batches import BYTES_SETTING, NOT_WEIGHED
from lakelog.spark.session import session


def ways(spark, frame, args: argparse.Namespace) -> dict[str, Callable[[str], object]]:
    """Each writes the frame into a place of its own; Iceberg into its warehouse."""

    def source(place: str) -> None:
        writer = frame.write.format("lakelog").option("database", "db").option("table", "lineitem")
        writer.option("writer", "spark").mode("append").save(place)

    def with_bytes(size: str, way: Callable[[str], object]) -> Callable[[str], object]:
        def run_so(place: str) -> None:
            spark.conf.set(BYTES_SETTING, size)
            try:
                way(place)
            finally:
                spark.conf.unset(BYTES_SETTING)

        return run_so

    def write(place: str) -> None:
        lakelog.spark.write(frame, place, "db", "lineitem", writer="spark")

    found = {
        "read only": lambda _: frame.write.format("noop").mode("overwrite").save(),
        "df.write.parquet": frame.write.parquet,
        "df.write.parquet, zstd": frame.write.option("compression", "zstd").parquet,
        "lakelog.spark.write": write,
        # What somebody has set stays: so this is what frames with large rows get.
        "the same, batches weighed": with_bytes("64MB", write),
        'df.write.format("lakelog")': source,
        "the same, batches not weighed": with_bytes(NOT_WEIGHED, source),
    }
    if peers.has("delta", args):
        found["Delta"] = frame.write.format("delta").save
    if peers.has("iceberg", args):
        found["Iceberg"] = lambda _: frame.writeTo("ice.db.lineitem").create()
    return found


def run(way: Callable[[str], object], out: Path, turn: str) -> tuple[float, float, int]:
    """Seconds, processor time and bytes of Parquet of one write.

    Args:
        out: Where all are written; it is emptied.
        turn: Not twice the same: Delta remembers where it has written.
    """
    busy, start = peers.busy_s(), time.perf_counter()
    way(str(out / turn))
    taken, used = time.perf_counter() - start, peers.busy_s() - busy
    size = sum(path.stat().st_size for path in out.rglob("*.parquet"))
    shutil.rmtree(out, ignore_errors=True)
    return taken, used, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=8, help="that are read")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--driver-memory", default="4g")
    peers.add_arguments(parser)
    args = peers.fitting(parser.parse_args())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = Path(sys.executable).with_name("tpchgen-cli")
        argv = [program, "parquet", "-s", args.scale, f"--parts={args.files}"]
        argv += ["--tables=lineitem", f"--output-dir={folder / 'raw'}"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        given = {"spark.driver.memory": args.driver_memory}
        if peers.has("iceberg", args):  # or it remembers tables whose files were deleted
            given["spark.sql.catalog.ice.cache-enabled"] = "false"
        spark = session("write", **given, **peers.settings(folder / "out", args))
        frame = spark.read.parquet(str(folder / "raw" / "lineitem"))
        todo = ways(spark, frame, args)
        found: dict[str, list[tuple[float, float, int]]] = {each: [] for each in todo}
        for turn in range(args.times + 1):
            for at, (each, way) in enumerate(todo.items()):
                result = run(way, folder / "out", f"{turn}-{at}")
                print(f"{turn} {each}: {result[0]:.1f} s ({result[1]:.1f})", file=sys.stderr)
                if turn:
                    found[each].append(result)
        told(found, args.scale)
        spark.stop()


def told(found: dict[str, list[tuple[float, float, int]]], scale: str) -> None:
    """Print the medians beside those of Spark's own writer."""
    print(f"\n## Write of lineitem, scale {scale}, median (processor time; least)")
    tables.head("way", "time", "ratio", "ratio of processor time", "MB")
    base = [statistics.median(run[at] for run in found["df.write.parquet"]) for at in (0, 1)]
    for way, runs in found.items():
        clock, busy = (statistics.median(run[at] for run in runs) for at in (0, 1))
        least = min(run[0] for run in runs)
        tables.row(
            way, f"{clock:.1f} s ({busy:.1f}; {least:.1f})", f"{clock / base[0]:.2f}x",
            f"{busy / base[1]:.2f}x", f"{runs[0][2] / 1e6:.0f}",
        )  # fmt: skip


if __name__ == "__main__":
    main()
