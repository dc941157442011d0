"""The commands of docs/spark.md, "On a cluster": a master, a worker and a job on loopback, where
the worker's Python has lakelog by the job's archive alone."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest
from processes import HERE

TEXT = (HERE.parents[1] / "docs" / "spark.md").read_text(encoding="utf-8")
BIN = Path(pyspark.__file__).parent / "bin"


def commands(port: str, job: str) -> dict[str, list[str]]:
    """Those of the document, by program, for this port and this job."""
    block = re.search(r"^## On a cluster\n.*?^```text\n(.*?)^```", TEXT, re.M | re.S)[1]
    lines = block.replace("\\\n", " ").replace("$BIN", str(BIN)).splitlines()
    argv = [shlex.split(line.replace("7077", port).replace("job.py", job)) for line in lines]
    return {
        name: next(words for words in argv if any(name in word for word in words))
        for name in ("Master", "Worker", "spark-submit")
    }


@pytest.fixture
def python(tmp_path):
    """A Python that has all that this one has, but for lakelog."""
    path = tmp_path / "python"
    packages = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def archive(wheel, tmp_path):
    """What `pip install --target` and `tar` would make of the wheel, without what it needs."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    with tarfile.open(tmp_path / "site.tar.gz", "w:gz") as file:
        file.add(tmp_path / "site", ".")
    return tmp_path / "site.tar.gz"


@pytest.mark.slow("a master, a worker, a driver and an executor, each a JVM: some 20 s alone")
def test_executors_have_lakelog_by_an_archive(processes, python, archive, tmp_path):
    env = os.environ | {"PYTHONPATH": ""}
    bare = subprocess.run(
        [python, "-c", "import pyarrow, lakelog"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'lakelog'" in bare.stderr
    url = tmp_path / "lake"
    todo = commands("0", "")
    daemon = {
        "PYTHONPATH": "",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    processes.start("master", [*todo["Master"], "--webui-port", "0"], daemon)
    started = re.compile(r"Starting Spark master at spark://127\.0\.0\.1:(\d+)")
    processes.until(lambda: started.search(processes.said("master")), "master")
    port = started.search(processes.said("master"))[1]
    todo = commands(port, f"{HERE / 'cluster_job.py'} {url}")
    small = ["--webui-port", "0", "--cores", "2", "--memory", "1g", "--work-dir", tmp_path / "work"]
    processes.start("worker", [*todo["Worker"], *small], daemon)
    where = {"PYTHONPATH": "", "PYSPARK_PYTHON": str(python)}
    where["PYSPARK_DRIVER_PYTHON"] = sys.executable
    processes.start("job", todo["spark-submit"], where)
    assert processes.ended("job") == 0, processes.said("job")
    said = dict(re.findall(r"^([a-z]+): (.*)$", processes.said("job"), re.M))
    assert said.pop("executors").count(str(tmp_path / "work")) == 1
    wanted = {"written": "1000", "native": "900", "deletes": "500", "source": "500"}
    assert said == wanted | {"master": f"spark://127.0.0.1:{port}"}
