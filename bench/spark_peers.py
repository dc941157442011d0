"""What benchmarks of Spark share: Delta and Iceberg in the session, where they are named, and the
processor time of all that runs below this process.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

# Spark keeps the code of 100 stages that it has generated and compiled. Where a bench has more, who
# goes first compiles its own anew in each round, and who plans alike takes that from it.
CODE_KEPT = {"spark.sql.codegen.cache.maxEntries": 10_000}
TICK = os.sysconf("SC_CLK_TCK")


# Of a jar or a package: which peer, and for which Spark it was built.
BUILT_FOR = re.compile(r"(delta|iceberg)-spark(?:-runtime)?[-_](\d+\.\d+)_2\.\d+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options by which peers are named."""
    parser.add_argument(
        "--packages", nargs="*", default=[], help="of peers, which Spark fetches from Maven Central"
    )
    parser.add_argument(
        "--jars", nargs="*", default=[], help="the same as jars, which `mvn dependency:get` fetched"
    )


def fitting(args: argparse.Namespace) -> argparse.Namespace:
    """The same without what was built for another Spark than the one that is here. Of that, and of
    a peer that nobody names, stderr tells."""
    here = spark_here()
    for names in (args.packages, args.jars):
        for name in list(names):
            built = BUILT_FOR.search(name)
            if built and built[2] != here:
                names.remove(name)
                left_out(name, f"it is for Spark {built[2]}, and this is {here}")
    for peer in ("delta", "iceberg"):
        if not has(peer, args):
            left_out(peer.title(), f"no jar or package of it for Spark {here} is named")
    return args


def spark_here() -> str:
    """Major and minor number of the Spark that runs."""
    import pyspark

    return ".".join(pyspark.__version__.split(".")[:2])


def left_out(what: str, why: str) -> None:
    """Say what a bench can't measure here."""
    print(f"left out: {what}: {why}", file=sys.stderr, flush=True)


def has(peer: str, args: argparse.Namespace) -> bool:
    """Whether `delta` or `iceberg` is named."""
    return any(f"{peer}-spark" in name for name in (*args.packages, *args.jars))


def settings(warehouse: Path, args: argparse.Namespace) -> dict[str, object]:
    """What the session needs for the peers that are named, and for a fair comparison with them.

    Args:
        warehouse: Where tables of Iceberg's catalog `ice` lie: `<warehouse>/<database>/<table>`.
    """
    found: dict[str, object] = {**CODE_KEPT}
    if args.packages:
        found["spark.jars.packages"] = ",".join(args.packages)
    if args.jars:
        found["spark.jars"] = ",".join(args.jars)
    extensions = []
    if has("delta", args):
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        found["spark.sql.catalog.spark_catalog"] = catalog
        # It takes 50 tasks for each state of a log, which are half a minute of a few busy cores.
        found["spark.databricks.delta.snapshotPartitions"] = 2
    if has("iceberg", args):
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        found["spark.sql.catalog.ice"] = "org.apache.iceberg.spark.SparkCatalog"
        found["spark.sql.catalog.ice.type"] = "hadoop"
        found["spark.sql.catalog.ice.warehouse"] = str(warehouse)
    if extensions:
        found["spark.sql.extensions"] = ",".join(extensions)
    return found


def links(url: str, database: str, table: str, folder: Path) -> str:
    """The very data files of a table in a folder of their own, without a copy."""
    import lakelog

    folder.mkdir(parents=True)
    snapshot = lakelog.open_catalog(url).snapshot(database)
    for at, part in enumerate(snapshot.file_parts(table)):
        os.link(Path(url, part.key), folder / f"{at:06}.parquet")
    return str(folder)


def to_delta(spark, folder: str) -> str:
    """Make a folder of Parquet files a table of Delta."""
    spark.sql(f"CONVERT TO DELTA parquet.`{folder}`")
    return folder


def to_iceberg(spark, folder: str, name: str) -> str:
    """Make a table of Iceberg of a folder of Parquet files, which stay where they are.

    Args:
        name: `database.table`.
    """
    columns = ", ".join(" ".join(each) for each in spark.read.parquet(folder).dtypes)
    spark.sql(f"CREATE TABLE ice.{name} ({columns}) USING iceberg")
    spark.sql(f"CALL ice.system.add_files('{name}', '`parquet`.`{folder}`')")
    return f"ice.{name}"


def busy_s() -> float:
    """Processor time of this process and all below it, those that ended included."""
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
