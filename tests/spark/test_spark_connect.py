"""A real Spark Connect server: no JVM at hand, so the paths themselves are handed over."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

pytestmark = pytest.mark.spark
for module in ("grpc_status", "google.rpc", "zstandard", "pandas"):
    pytest.importorskip(
        module, reason=f"Spark Connect needs {module}: pip install pyspark[connect]"
    )

READ = """
import os, sys, warnings
os.environ["PYSPARK_PYTHON"] = sys.executable
import pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession
from lakelog.errors import InvalidSchema
from lakelog.spark.known_files import KnownFile, known_files
from lakelog.spark.file_groups import FileGroup
from lakelog.spark.native import read_files
from lakelog.spark.urls import supports_url

spark = SparkSession.builder.remote("local[1]").getOrCreate()
paths = sys.argv[1:]
files = [KnownFile(path, os.path.getsize(path)) for path in paths]
groups = [FileGroup(pq.read_schema(file.path), known_files([file])) for file in files]
target = pa.schema({"id": pa.int64(), "value": pa.float64(), "time": pa.timestamp("us")})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", RuntimeWarning)
    frame = read_files(spark, groups, target)
    read_files(spark, groups, target)
print([str(each.message) for each in caught if each.category is RuntimeWarning])
print(type(frame).__module__)
print(sorted((tuple(each) for each in frame.select("id", "value").collect()), key=str))
print(frame.where("value = 1.5").count(), frame.where("time is null").count())
print(read_files(spark, [], target).count())
print(supports_url(spark, "file:///x"), supports_url(spark, "s3://bucket/x"))
try:
    read_files(spark, [], pa.schema({"id": pa.int64(), "ID": pa.int64()}))
except InvalidSchema as error:
    print(error.hint)
spark.stop()
"""


@pytest.mark.slow("starts a server of Spark Connect in a JVM of its own")
def test_reads_by_paths_with_one_warning(write):
    files = [
        write("a[0] %20*.parquet", pa.table({"id": [1, 2], "value": pa.array([1, 2], pa.int64())})),
        write("a0 other.parquet", pa.table({"id": pa.array([3], pa.int32())})),
        write("half.parquet", pa.table({"value": pa.array([1.5], pa.float16()), "id": [4]})),
    ]
    done = subprocess.run(
        [sys.executable, "-c", READ, *(file.path for file in files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=dict(os.environ),
    )
    lines = done.stdout.splitlines()
    assert lines[:1] == [
        "['Spark Connect gives no access to the JVM: "
        "Spark looks up each of the files when it plans']"
    ], done.stderr[-3000:]
    assert lines[1:] == [
        "pyspark.sql.connect.dataframe",
        "[(1, 1.0), (2, 2.0), (3, None), (4, 1.5)]",
        "1 4",
        "0",
        "True False",
        "Set spark.sql.caseSensitive=true, or leave one of them out",
    ], done.stderr[-3000:]
