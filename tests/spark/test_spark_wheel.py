"""The wheel: what is in it, and what a new process does with it: its sessions start quietly, and
Spark finds `format("lakelog")` without registration.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[2]

# Sessions of lakelog's one after the other, and then one of Spark's own, all in one JVM.
SESSIONS = """
import os, sys
import lakelog
import pyarrow as pa, pyarrow.parquet as pq
from lakelog.spark.arrow_types import spark_schema
from lakelog.spark.file_index import relation
from lakelog.testing.known_files import KnownFile, known_files
from lakelog.spark.session import session
assert lakelog.__file__.startswith(sys.argv[2]), lakelog.__file__

table = pa.table({"a": list(range(6))})
pq.write_table(table, "a.parquet")
files = known_files([KnownFile(os.path.abspath("a.parquet"), os.path.getsize("a.parquet"))])
for master in ("local[1]", "local[2]"):
    spark = session(app_name="quiet", master=master, **{"spark.sql.shuffle.partitions": 3})
    assert spark.sparkContext.appName == "quiet", spark.sparkContext.appName
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    frame = relation(spark, schema=spark_schema(table.schema), files=files)
    print(spark.sparkContext.master, frame.repartition(3).count(), flush=True)
    spark.stop()
print("END OF THE QUIET SESSIONS", file=sys.stderr, flush=True)

from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
reader = spark.read.format("lakelog").option("database", "db").option("table", "t")
print(sorted(each.a for each in reader.load(sys.argv[1]).collect()))
spark.stop()
"""


def run(
    *command: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done


def test_contents(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    wanted = (
        *("lakelog/py.typed", "lakelog/__main__.py", "pyspark_lakelog/__init__.py"),
        *("lakelog/spark/source.py", "lakelog/fixtures/weather/weather.parquet"),
    )
    assert [each for each in wanted if each not in names] == []
    modules = {
        path.relative_to(ROOT).as_posix()
        for folder in ("catalog", "cli", "gc", "rebuild", "store", "testing")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {each for each in modules if f"lakelog/{each}" not in names} == set()
    tops = {each.split("/")[0] for each in names}
    assert {each for each in tops if not each.endswith(".dist-info")} == {
        "lakelog",
        "pyspark_lakelog",
    }
    assert [each for each in names if {"tests", "bench"} & set(each.split("/"))] == []


@pytest.fixture(scope="module")
def sessions(wheel, tmp_path_factory) -> subprocess.CompletedProcess[str]:
    """A process that has nothing of lakelog but the wheel, installed."""
    folder = tmp_path_factory.mktemp("process")
    lake, installed = str(folder / "lake"), folder / "installed"
    writer = lakelog.open_catalog(lake).writer("w", "db")
    with writer, writer.transaction() as transaction:
        transaction.write("t", pa.table({"a": [2, 1]}))
    zipfile.ZipFile(wheel).extractall(installed)
    where = {"PYTHONPATH": str(installed), "PYTHONWARNINGS": "ignore"}
    command = (sys.executable, "-c", SESSIONS, lake, str(installed))
    return run(*command, cwd=folder, **where)


@pytest.mark.slow("installs a wheel and starts Spark on it in a process of its own")
def test_new_sessions_read_and_say_next_to_nothing(sessions):
    """The second one is made after the first has stopped, in the same JVM."""
    assert sessions.stdout.startswith("local[1] 6\nlocal[2] 6\n"), sessions.stderr
    said, end, _ = sessions.stderr.partition("END OF THE QUIET SESSIONS")
    assert end
    assert " WARN " not in said
    assert " INFO " not in said
    assert "Warning" not in said
    assert len(said.splitlines()) <= 5, said


def test_spark_finds_the_data_source(sessions):
    """In a session of its own, where nobody has registered it."""
    assert sessions.stdout.splitlines()[2:] == ["[1, 2]"]
