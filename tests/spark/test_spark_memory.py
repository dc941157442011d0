"""A driver that lacks memory for a list of files: its error, and no other road, which would need
more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys, warnings
import pyarrow as pa
from lakelog.errors import SparkOutOfMemory
from lakelog.spark import native
from lakelog.spark.file_groups import FileGroup
from lakelog.testing.known_files import KnownFile, known_files
from lakelog.spark.session import session

def other_road(*_, **__):
    print("another road was taken")
    raise SystemExit(1)

native.relation_of_paths = other_road
warnings.simplefilter("error")
spark = session(
    "little memory",
    "local[1]",
    **{"spark.driver.memory": "200m", "spark.testing.reservedMemory": 10_000_000},
)
schema = pa.schema({"a": pa.int64()})
few = known_files([KnownFile("/nowhere/1.parquet", 1000)])
assert len(native.read_files(spark, [FileGroup(schema, few)], schema).inputFiles()) == 1
long = "x" * 4000
many = known_files([KnownFile(f"/nowhere/{long}{at}.parquet", 1000) for at in range(60_000)])
try:
    native.read_files(spark, [FileGroup(schema, many)], schema)
except SparkOutOfMemory as error:
    print(error)
else:
    print("no error")
print(len(native.read_files(spark, [FileGroup(schema, few)], schema).inputFiles()))
spark.stop()
"""


@pytest.mark.slow("starts a JVM of its own")
def test_a_driver_short_of_memory_says_so():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=dict(os.environ, SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    )
    assert "Spark's driver has too little memory: the index of 60,000 files" in done.stdout, (
        done.stdout + done.stderr[-3000:]
    )
    assert "spark.driver.memory" in done.stdout
    assert done.stdout.splitlines()[-1] == "1", "the session serves as before"
