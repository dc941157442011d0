"""A driver of Spark with two workers that are two hosts to it, for only then does Spark run a task
twice at once: `speculation_driver.py URL FOLDER`. Master and workers are those of a standalone
cluster, in the driver's own JVM; executors are processes. One task's first attempt is slow: it goes
on when the second one is done with its rows."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import lakelog.spark
from pyspark import SparkContext

HOSTS = ("127.0.0.1", "127.0.0.2")
SETTINGS = {
    "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0],
    "spark.executor.memory": "600m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    # As for the driver's own JVM (tests/conftest.py): compiled for minutes, not for hours.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.cores.max": 4,
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "200s",
    "spark.speculation": True,
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": 1,
    "spark.speculation.quantile": 0.5,
    "spark.eventLog.enabled": True,
    "spark.eventLog.compress": False,
}


def cluster(folder: Path) -> str:
    """Start master and workers; where they are."""
    SparkContext._ensure_initialized()
    gateway, jvm = SparkContext._gateway, SparkContext._jvm
    conf = jvm.org.apache.spark.SparkConf()
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)
    url = f"spark://{HOSTS[0]}:{master._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = url
    none = jvm.scala.Option.empty()
    for number, host in enumerate(HOSTS):
        place = str(folder / f"work{number}")
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 2, 1024, masters, place, none, conf, none
        )
    return url


def slow_at_first(flag: Path):
    """A step of which the first attempt at one part waits for the second one."""

    def step(batches):
        from pyspark import TaskContext

        about = TaskContext.get()
        is_slow = about.partitionId() == 0
        yield from batches
        if is_slow and about.attemptNumber():
            flag.touch()
        while is_slow and not flag.exists():
            time.sleep(0.05)

    return step


if __name__ == "__main__":
    url, folder = sys.argv[1], Path(sys.argv[2])
    events = {"spark.eventLog.dir": (folder / "events").as_uri()}
    spark = lakelog.spark.session("speculation", cluster(folder), **SETTINGS, **events)
    rows = spark.range(0, 1000, 1, 4).mapInArrow(slow_at_first(folder / "second"), "id bigint")
    done = lakelog.spark.write(rows, url, "db", "t", writer="spark")
    print("written:", done.rows, len(done.files))
    spark.stop()
