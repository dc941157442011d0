"""A driver of Spark whose executors are processes of their own, over S3: `s3a_job.py URL FOLDER`.
It takes its storage options from a file in the folder, which it deletes before Spark starts; and
tells what it read, and what its executors have of these options."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import lakelog.spark

SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    # As for the driver's own JVM (tests/conftest.py): compiled for minutes, not for hours.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": 2,
    # Half of the tasks for each of two executors, whichever is there first.
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.eventLog.enabled": True,
    "spark.eventLog.compress": False,
    "spark.jars.ivy": os.environ["LAKELOG_IVY"],
}


def who(batches):
    """Runs in the executors: of which JVM a task is, and what AWS's tools would find there."""
    import os
    from pathlib import Path

    import pyarrow as pa

    for batch in batches:
        names = " ".join(sorted(name for name in os.environ if name.startswith("AWS_")))
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        jvm = stat.rpartition(")")[2].split()[1]
        yield pa.RecordBatch.from_pydict({"told": [f"{jvm} {names}"] * batch.num_rows})


def showing(secret: str) -> list[str]:
    """Processes that have it in their command line or environment."""
    found = []
    for path in [*Path("/proc").glob("[0-9]*/environ"), *Path("/proc").glob("[0-9]*/cmdline")]:
        try:
            if secret.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:  # it has ended, or is another user's
            continue
    return found


if __name__ == "__main__":
    url, folder = sys.argv[1:]
    file = Path(folder, "options.json")
    options = json.loads(file.read_text())
    file.unlink()
    events = {"spark.eventLog.dir": Path(folder, "events").as_uri()}
    master = "local-cluster[2,1,1024]"
    spark = lakelog.spark.session("s3a", master, packages=["s3a"], **SETTINGS, **events)
    told = spark.range(0, 4, 1, 4).mapInArrow(who, "told string").distinct().collect()
    print("executors:", len(told), sorted({row.told.partition(" ")[2] for row in told}))
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 10 AS part")
    done = lakelog.spark.write(rows, url, "db", "t", writer="spark", storage_options=options)
    print("written:", done.rows, len(done.files))
    frame = lakelog.spark.read(spark, url, "db", "t", storage_options=options)
    print("native:", "FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString())
    print("read:", *frame.where("part < 5").selectExpr("count(*)", "sum(id)").first())
    lakelog.spark.attach(spark, "lake", url, writer="sql", storage_options=options)
    grouped = "SELECT count(*), sum(n) FROM (SELECT count(*) AS n FROM lake.db.t GROUP BY part)"
    print("sql:", *spark.sql(grouped).first())
    spark.sql("INSERT INTO lake.db.t VALUES (1000, 10)")
    print("inserted:", *spark.sql("SELECT max(id), count(*) FROM lake.db.t").first())
    print("shown:", showing(options["secret"]))
    spark.stop()
