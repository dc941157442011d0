"""Tables of many files without any data, as Spark opens them: the same entries of path, size, rows
and bounds of four columns in lakelog, in Delta and in Iceberg (see `tables.py` for the first two).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lakelog.spark
import spark_peers as peers
import tables
from lakelog.spark.jvm import compile_texts, new_instance

Road = Callable[[], Any]  # opens the table anew
COLUMNS = "id bigint, at timestamp, temp double, name string"
# Entries of files that don't exist, put into one commit.
FILL = """
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Table;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;

public class Fill {
    private static Object[] values(long n, boolean high, long start) {
        long plus = high ? 999L : 0L;
        String name = String.format("station-%07d", new Object[] {Long.valueOf(high ? n + 9 : n)});
        return new Object[] {Long.valueOf(n + plus), Long.valueOf(start + n + plus),
            Double.valueOf(n * 0.5 + (high ? 30.0 : 0.0)), name};
    }

    private static Map bounds(Table table, Object[] values) {
        Map found = new HashMap();
        for (int at = 0; at < values.length; at++) {
            Types.NestedField field = (Types.NestedField) table.schema().columns().get(at);
            ByteBuffer bytes = Conversions.toByteBuffer(field.type(), values[at]);
            found.put(Integer.valueOf(field.fieldId()), bytes);
        }
        return found;
    }

    public void fill(Table table, int files, long start) {
        AppendFiles append = table.newAppend();
        Map counts = new HashMap();
        Map nulls = new HashMap();
        for (int at = 1; at <= 4; at++) {
            counts.put(Integer.valueOf(at), Long.valueOf(1000L));
            nulls.put(Integer.valueOf(at), Long.valueOf(0L));
        }
        for (int n = 0; n < files; n++) {
            Map low = bounds(table, values(n, false, start));
            Map high = bounds(table, values(n, true, start));
            Metrics metrics =
                new Metrics(Long.valueOf(1000L), null, counts, nulls, null, low, high);
            DataFiles.Builder builder = DataFiles.builder(PartitionSpec.unpartitioned());
            builder.withPath(table.location() + "/data/" + n + ".parquet").withFormat("parquet");
            builder.withFileSizeInBytes(1000000L + n % 1000).withMetrics(metrics);
            append.appendFile(builder.build());
        }
        append.commit();
    }
}
"""


@cache  # py4j finds methods by the name of a class: there must be one
def filler(context: Any) -> Any:
    return new_instance(context._gateway, compile_texts(context._jvm, [FILL])[0], "Fill")


def iceberg_table(spark: Any, name: str, files: int) -> None:
    """Make such a table of Iceberg."""
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg")
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util
    loaded = util.loadIcebergTable(spark._jsparkSession, name)
    filler(spark.sparkContext).fill(loaded, files, tables.START_US)


def roads(spark: Any, root: Path, files: int, args: argparse.Namespace) -> dict[str, Road]:
    """How the table of so many files is opened by each; nothing that was read before is kept."""
    url = str(root / f"lake-{files}")
    tables.lakelog_table(url, files).close()
    found: dict[str, Road] = {"lakelog": lambda: lakelog.spark.read(spark, url, "db", "t")}
    if peers.has("delta", args):
        place = str(root / f"delta-{files}")
        tables.delta_table(place, files)

        def delta() -> Any:
            spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
            return spark.read.format("delta").load(place)

        found["Delta"] = delta
    if peers.has("iceberg", args):
        name = f"ice.db.files{files}"
        iceberg_table(spark, name, files)
        found["Iceberg"] = lambda: spark.table(name)
    return found
