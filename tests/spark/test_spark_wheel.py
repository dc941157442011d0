"""The wheel: what is in it, and that Spark finds `format("lakelog")` in it without registration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "demo-lake", "node_modules"
)

READ = """
import os, sys
import lakelog
assert lakelog.__file__.startswith(sys.argv[2]), lakelog.__file__
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
reader = spark.read.format("lakelog").option("database", "db").option("table", "t")
print(sorted(each.a for each in reader.load(sys.argv[1]).collect()))
spark.stop()
"""


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    run(
        *(sys.executable, "-m", "pip", "wheel", *options),
        *("--wheel-dir", str(folder), str(folder / "source")),
    )
    [built] = folder.glob("*.whl")
    return built


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


@pytest.mark.slow("installs a wheel and starts Spark on it")
def test_spark_finds_the_data_source(wheel, tmp_path):
    lake, installed = str(tmp_path / "lake"), tmp_path / "installed"
    writer = lakelog.open_catalog(lake).writer("w", "db")
    with writer, writer.transaction() as transaction:
        transaction.write("t", pa.table({"a": [2, 1]}))
    zipfile.ZipFile(wheel).extractall(installed)
    where = {"PYTHONPATH": str(installed)}
    assert run(sys.executable, "-c", READ, lake, str(installed), **where) == "[1, 2]\n"
