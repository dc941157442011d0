"""A real Spark Connect server: no JVM at hand, so the paths themselves are handed over; writing and
maintenance by executors are as ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from newer_spark import STREAMS, has, refusal

for module in ("grpc_status", "google.rpc", "zstandard", "pandas"):
    pytest.importorskip(
        module, reason=f"Spark Connect needs {module}: pip install pyspark[connect]"
    )

TALK = """
import json, os, sys, warnings
os.environ["PYSPARK_PYTHON"] = sys.executable
import pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession
from lakelog.errors import InvalidSchema
from lakelog.testing.known_files import KnownFile, known_files
from lakelog.spark.file_groups import FileGroup
from lakelog.spark.native import read_files
from lakelog.spark.access import supports_url

url, events, *paths = sys.argv[1:]
os.makedirs(events)
builder = SparkSession.builder.remote("local[1]").config("spark.eventLog.enabled", "true")
builder = builder.config("spark.eventLog.compress", "false").config("spark.eventLog.dir", events)
spark = builder.getOrCreate()
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

import lakelog, lakelog.spark
from lakelog.errors import InvalidSchema
from lakelog.rebuild import plan_rebuild
from lakelog.testing.doubles import FakeAmbient
CANARY = "canary-in-all-requests"
secret = json.dumps({"nested": {"secret": CANARY}})  # which a folder doesn't ask for
options = {"storage_options": json.loads(secret)}
told = []
rows = spark.range(0, 100, 1, 4)
for _ in range(2):
    done = lakelog.spark.write(
        rows, url, "db", "t", writer="w", app_id="job", app_version=1, progress=told.append,
        **options,
    )
    print(done.skipped, done.rows, len(done.files))
print(told[-1].tasks, told[-1].tasks_done)
lakelog.spark.register(spark)
target = rows.selectExpr("id + 1000 AS id").write.format("lakelog").option("database", "db")
target = target.option("table", "t").option("writer", "w").option("where", "id < 50")
for where in ("id < 50", "id > 50"):
    try:
        target.option("where", where).mode("overwrite").save(url)
        print("saved")
    except Exception as error:
        print("OperationInvalid" in str(error))
frame = lakelog.spark.read(spark, url, "db", "t")
print(frame.count(), frame.where("id >= 1000").count())
source = spark.read.format("lakelog").option("database", "db").option("table", "t").load(url)
print(sorted(row.id for row in source.collect()) == sorted(row.id for row in frame.collect()))
try:
    lakelog.spark.write(rows.selectExpr("parse_json('1') AS v"), url, "db", "t", writer="w")
except InvalidSchema as error:
    print(error.key)
catalog = lakelog.open_catalog(url)
engine = lakelog.spark.SparkEngine(spark, told.append)
plans = [
    plan_rebuild(catalog, "w", "db", engine=each, ambient=FakeAmbient().ambient)
    for each in (None, engine)
]
print(plans[0] == plans[1], len(plans[0].left_out))

from pathlib import Path
with catalog.writer("other", "db") as writer, writer.transaction() as tx:
    tx.write("t", pa.table({"id": [2000]}))
since = catalog.snapshot("db").token
with catalog.writer("other", "db") as writer, writer.transaction() as tx:
    tx.write("t", pa.table({"id": [2001]}))
rows = spark.readStream.format("lakelog").option("database", "db").option("table", "t")
rows = rows.option("readChangeFeed", "true").option("since", since)
out = rows.option("storageOptions", secret).load(url).writeStream.format("lakelog")
out = out.option("database", "db").option("table", "out").option("writer", "out")
out = out.option("checkpointLocation", url + "-out").option("storageOptions", secret)
try:
    query = out.trigger(availableNow=True).start(url)
    query.awaitTermination()
    print(catalog.snapshot("db").to_arrow("out", ["_change", "id"]).to_pylist(), query.exception())
except Exception as error:
    print(error)
found = lakelog.spark.changes(spark, url, "db", "t", since, **options)
print([(row._change, row.id) for row in found.collect()])
target.option("table", "u").option("where", "id < 5000").option("storageOptions", secret).save(url)
source = spark.read.format("lakelog").option("database", "db").option("table", "u")
print(source.option("storageOptions", secret).load(url).count())
token = lakelog.spark.create_views(spark, url, "db", prefix="now_", **options)
print(token == catalog.snapshot("db").token, spark.sql("SELECT count(*) n FROM now_t").collect())
spark.stop()
for path in Path(events).rglob("*"):
    if path.is_file():
        text = path.read_text()
        print("storageOptions" in text, "redacted" in text, CANARY in text)
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> list[str]:
    """What one talk with a server came to, line by line."""
    folder = tmp_path_factory.mktemp("connect")
    tables = {
        "a[0] %20*.parquet": pa.table({"id": [1, 2], "value": pa.array([1, 2], pa.int64())}),
        "a0 other.parquet": pa.table({"id": pa.array([3], pa.int32())}),
        "half.parquet": pa.table({"value": pa.array([1.5], pa.float16()), "id": [4]}),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / name)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TALK,
            str(folder / "lake"),
            str(folder / "events"),
            *(str(folder / name) for name in tables),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=290,
        env=dict(os.environ),
    )
    print(done.stderr[-3000:])
    return done.stdout.splitlines()


@pytest.mark.slow("starts a server of Spark Connect in a JVM of its own")
def test_reads_by_paths_with_one_warning(lines):
    assert lines[:7] == [
        "['Spark Connect gives no access to the JVM: "
        "Spark looks up each of the files when it plans']",
        "pyspark.sql.connect.dataframe",
        "[(1, 1.0), (2, 2.0), (3, None), (4, 1.5)]",
        "1 4",
        "0",
        "True False",
        "Set spark.sql.caseSensitive=true, or leave one of them out",
    ]


def test_writes_once_tells_how_far_it_is_and_refuses_what_it_must(lines):
    assert lines[7:16] == [
        "False 100 4",
        "True 0 0",
        "4 4",
        "True",
        "saved",
        "151 100",
        "True",
        "v",
        "True 2",
    ]


def test_streams_changes_and_views_are_as_ever(lines):
    last = lines.index("[('insert', 2001)]")
    if has(STREAMS):
        assert lines[16:last] == ["[{'_change': 'insert', 'id': 2001}] None"]
    else:
        assert refusal(STREAMS) in "".join(lines[16:last])
    assert lines[last : last + 3] == [
        "[('insert', 2001)]",
        "100",
        "True [Row(n=153)]",
    ]


def test_no_secret_is_in_the_event_log(lines):
    """A server logs what it is asked for, with the options of sources."""
    told = lines[lines.index("True [Row(n=153)]") + 1 :]
    assert "False True False" in told
    assert not [line for line in told if line.endswith(" True")]
