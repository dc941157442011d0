"""How long Spark takes to write lineitem of TPC-H: as plain Parquet, and into a table.

    python bench/spark_write.py [--scale 1] [--files 8] [--times 5] [--driver-memory 4g]

Local disk, two threads. The frame is read from files of tpchgen, so that each time includes that
reading (`read only` is that alone: all rows to Spark's `noop`). The ways take turns after a round
that doesn't count. In brackets the processor time of Spark's JVM and its Python workers together,
which other work on the machine disturbs less than it does the clock; stderr tells of each run as it
ends. The ratios are those of the medians to `df.write.parquet`. That compresses by snappy, lakelog
by zstd: sizes are told too, and so is Spark's own zstd.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lakelog.spark
import tables
from lakelog.spark.row_batches import BYTES_SETTING
from lakelog.spark.session import session

TICK = os.sysconf("SC_CLK_TCK")


def busy_s() -> float:
    """Processor time of all processes below this one, those that ended included."""
    parents, spent = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(words[1])
        spent[int(stat.parent.name)] = sum(map(int, words[11:15])) / TICK
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(spent.get(pid, 0.0) for pid in found)


def ways(spark, frame, folder: Path) -> dict[str, Callable[[str], object]]:
    """Each writes the frame into a place of its own."""

    def source(place: str) -> None:
        writer = frame.write.format("lakelog").option("database", "db").option("table", "lineitem")
        writer.option("writer", "spark").mode("append").save(place)

    def weighed(place: str) -> None:
        # What somebody has set stays: so this is what frames with large rows get.
        spark.conf.set(BYTES_SETTING, "64MB")
        try:
            lakelog.spark.write(frame, place, "db", "lineitem", writer="spark")
        finally:
            spark.conf.unset(BYTES_SETTING)

    return {
        "read only": lambda _: frame.write.format("noop").mode("overwrite").save(),
        "df.write.parquet": frame.write.parquet,
        "df.write.parquet, zstd": frame.write.option("compression", "zstd").parquet,
        "lakelog.spark.write": lambda place: lakelog.spark.write(
            frame, place, "db", "lineitem", writer="spark"
        ),
        "the same, batches weighed": weighed,
        'df.write.format("lakelog")': source,
    }


def run(way: Callable[[str], object], place: Path) -> tuple[float, float, int]:
    """Seconds, processor time and bytes of Parquet of one write."""
    busy, start = busy_s(), time.perf_counter()
    way(str(place))
    taken, used = time.perf_counter() - start, busy_s() - busy
    size = sum(path.stat().st_size for path in place.rglob("*.parquet"))
    shutil.rmtree(place, ignore_errors=True)
    return taken, used, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=8, help="that are read")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--driver-memory", default="4g")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = Path(sys.executable).with_name("tpchgen-cli")
        argv = [program, "parquet", "-s", args.scale, f"--parts={args.files}"]
        argv += ["--tables=lineitem", f"--output-dir={folder / 'raw'}"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        spark = session("write", **{"spark.driver.memory": args.driver_memory})
        frame = spark.read.parquet(str(folder / "raw" / "lineitem"))
        todo = ways(spark, frame, folder)
        found: dict[str, list[tuple[float, float, int]]] = {each: [] for each in todo}
        for turn in range(args.times + 1):
            for each, way in todo.items():
                result = run(way, folder / "out")
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
