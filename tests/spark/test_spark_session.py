"""The session: its settings, what it says when something is missing, and which URLs it can open."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from lakelog.spark.access import hadoop_scheme, supports_url
from lakelog.spark.file_groups import hadoop_files, paths_of
from lakelog.spark.session import _python_of_tasks, session
from lakelog.testing.known_files import KnownFile, known_files

if TYPE_CHECKING:
    from pathlib import Path


def run(code: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def test_settings(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_running_session_is_taken_and_settings_are_changed(spark, settings):
    settings("spark.sql.ansi.enabled", True)
    again = session(**{"spark.sql.ansi.enabled": False})
    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.ansi.enabled") == "false"


@pytest.mark.parametrize(
    ("given", "environment", "is_local", "expected"),
    [
        ({}, None, False, sys.executable),
        ({}, "./env/bin/python", False, "./env/bin/python"),
        ({"spark.pyspark.python": "py"}, "./env/bin/python", False, "py"),
        ({"spark.pyspark.python": "py"}, "./env/bin/python", True, sys.executable),
    ],
)
def test_tasks_have_the_python_that_was_chosen_for_a_cluster(
    monkeypatch, given, environment, is_local, expected
):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environment is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", environment)
    assert _python_of_tasks(given, is_local=is_local) == expected


MISSING = """
from lakelog.errors import MissingDependency
from lakelog.spark.session import session
try:
    session()
except MissingDependency as error:
    print(error)
"""


def test_no_java(tmp_path):
    done = run(MISSING, PATH=str(tmp_path), JAVA_HOME="")
    assert "Spark needs Java, and there is none" in done.stdout, done.stderr
    assert "JAVA_HOME" in done.stdout
    assert "apt install openjdk-17-jre-headless" in done.stdout


def test_java_home_that_is_none(tmp_path):
    done = run(MISSING, JAVA_HOME=str(tmp_path))
    assert f"there is none [{tmp_path}]" in done.stdout, done.stderr


def test_a_java_that_does_not_start(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    done = run(MISSING, JAVA_HOME=str(tmp_path))
    assert "Spark doesn't start on it" in done.stdout, done.stderr


NO_PACKAGE = """
from lakelog.errors import MissingDependency
from lakelog.spark.session import session
try:
    session(packages=["no.such:package:1"], **{"spark.jars.ivySettings": "ivy.xml"})
except MissingDependency as error:
    print(error)
"""
EMPTY_PLACE = """<ivysettings><settings defaultResolver="here"/>
<resolvers><filesystem name="here"><artifact pattern="./[artifact].[ext]"/></filesystem></resolvers>
</ivysettings>"""


def test_a_package_that_is_nowhere(tmp_path):
    (tmp_path / "ivy.xml").write_text(EMPTY_PLACE)
    done = run(NO_PACKAGE, tmp_path)
    assert "Spark didn't start with the packages no.such:package:1" in done.stdout, done.stderr
    assert "Maven Central" in done.stdout


def test_no_pyspark(tmp_path):
    (tmp_path / "pyspark.py").write_text("raise ImportError('not here')\n")
    done = run(MISSING, PYTHONPATH=str(tmp_path))
    assert 'pip install "lakelog[spark]"' in done.stdout, done.stderr


def test_importing_the_modules_needs_no_pyspark(tmp_path):
    (tmp_path / "pyspark.py").write_text("raise ImportError('not here')\n")
    code = (
        "import lakelog.spark.session, lakelog.spark.native, lakelog.spark.access, sys;"
        "assert 'py4j' not in sys.modules; print('fine')"
    )
    assert run(code, PYTHONPATH=str(tmp_path)).stdout == "fine\n"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/tmp/lake", True),
        ("file:///tmp/lake", True),
        ("local:///tmp/lake", True),
        ("hdfs://host/lake", True),  # the client is in Spark's own jars
        ("memory://lake", False),
        ("nonsense://lake", False),
        ("abfs://container/lake", False),
        ("gs://bucket/lake", False),
    ],
)
def test_supported_urls(spark, url, expected):
    assert supports_url(spark, url) is expected


def spelled(spark, *paths):
    files = [KnownFile(path, at, 9, b"digest 8") for at, path in enumerate(paths)]
    found = hadoop_files(spark, known_files(files))
    same = ["size_bytes", "footer_bytes", "footer_digest"]
    assert found.select(same) == known_files(files).select(same)
    return paths_of(found)


def test_s3_is_supported_where_its_connector_is(spark, monkeypatch):
    """Without hadoop-aws no; with any class of Hadoop's in that place, by the name of s3a."""
    assert supports_url(spark, "s3://bucket/lake") is False
    configuration = spark._jsc.hadoopConfiguration()
    configuration.set("fs.s3a.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    try:
        assert hadoop_scheme(spark, "s3") == "s3a"
        assert supports_url(spark, "S3://bucket/lake") is True
        assert spelled(spark, "s3://b/k 1", "s3a://b/k", "/x") == [
            "s3a://b/k 1",
            "s3a://b/k",
            "file:///x",
        ]
    finally:
        configuration.unset("fs.s3a.impl")
    assert spelled(spark, "s3://b/k") == ["s3://b/k"]
