"""A driver of Spark, whose executors are processes of their own: `pipeline_driver.py URL FOLDER`.
What collectors commit its stream puts into another table, in °C, until all is there; then a job
aggregates that into another database.

Once somebody reads along, one executor kills itself in the middle of a task."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import lakelog.spark
from pyspark.sql import functions

COLUMNS = "origin string, month int, time_hour timestamp, celsius double"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "600m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    # As for the driver's own JVM (tests/conftest.py): compiled for minutes, not for hours.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": 2,
}


def dying(folder):
    """A step of the stream that passes all rows on, and once kills the executor's JVM."""

    def jvm():
        pid = os.getpid()
        while b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid

    def step(batches):
        for batch in batches:
            yield batch
            if not Path(folder, "reads along").exists():
                continue
            try:
                Path(folder, "executor killed").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(jvm(), signal.SIGKILL)
            time.sleep(60)

    return step


def stream(spark, url, folder):
    """The query, started."""
    reader = spark.readStream.format("lakelog").option("database", "weather")
    rows = reader.option("table", "hourly").option("maxFilesPerTrigger", 4).load(url)
    metric = rows.selectExpr("origin", "month", "time_hour", "(temp - 32D) / 1.8D AS celsius")
    writer = metric.mapInArrow(dying(folder), COLUMNS).writeStream.format("lakelog")
    writer = writer.option("database", "weather").option("table", "metric")
    writer = writer.option("writer", "spark-stream")
    return writer.option("checkpointLocation", str(Path(folder, "progress"))).start(url)


def aggregate(spark, url):
    """Hours and mean temperature of each month; whether that was done before."""
    hours = lakelog.spark.read(spark, url, "weather", "metric")
    monthly = hours.groupBy("origin", "month").agg(
        functions.count("*").alias("hours"), functions.avg("celsius").alias("celsius")
    )
    return lakelog.spark.write(
        monthly, url, "climate", "monthly", writer="spark-batch", app_id="monthly", app_version=1
    ).skipped


if __name__ == "__main__":
    url, folder = sys.argv[1:]
    spark = lakelog.spark.session("pipeline", "local-cluster[1,2,1024]", **SETTINGS)
    query = stream(spark, url, folder)
    while query.isActive and not Path(folder, "collected").exists():
        time.sleep(0.05)
    query.processAllAvailable()
    query.stop()
    print("skipped:", [aggregate(spark, url) for _ in range(2)])
    spark.stop()
