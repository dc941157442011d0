"""Spark with hadoop-aws: what comes of `on_s3a.py`, and what needs no JVM."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from lakelog.errors import UsageError
from lakelog.spark.session import EXCLUDES, PACKAGES, package_settings
from processes import HERE
from s3a_jars import need_jars

SESSION = sys.modules[package_settings.__module__]


@pytest.mark.s3
@pytest.mark.slow("starts a JVM with hadoop-aws, and two servers")
@pytest.mark.timeout(580)
def test_on_s3a():
    folder = need_jars()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            str(HERE / "on_s3a.py"),
        ],
        cwd=HERE.parents[1],
        env={**os.environ, "LAKELOG_IVY": folder},
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )
    said = done.stdout[-6000:] + done.stderr[-3000:]
    assert done.returncode == 0, said
    passed = re.search(r"^(\d+) passed in", done.stdout, re.M)
    assert passed is not None, said
    assert int(passed[1]) == (HERE / "on_s3a.py").read_text().count("\ndef test_"), said


@pytest.mark.parametrize("hadoop", ["3.5.0", "3.4.2"])
def test_s3a_is_that_of_sparks_hadoop(hadoop, monkeypatch):
    """Without the SDK's bundle of 686 MB, and without what Spark has itself."""
    monkeypatch.setattr(SESSION, "hadoop_version", lambda: hadoop)
    found = package_settings(["s3a", "a:b:1", "s3a"], {PACKAGES: "c:d:2", EXCLUDES: "e:f"})
    packages = found[PACKAGES].split(",")
    assert packages[:2] == ["c:d:2", f"org.apache.hadoop:hadoop-aws:{hadoop}"]
    assert packages[-1] == "a:b:1"
    assert len({each.rpartition(":")[2] for each in packages[2:-1]}) == 1
    excludes = found[EXCLUDES].split(",")
    assert excludes[:2] == ["e:f", "software.amazon.awssdk:bundle"]


def test_the_document_names_those_of_the_newest_spark(monkeypatch):
    monkeypatch.setattr(SESSION, "hadoop_version", lambda: "3.5.0")
    text = (HERE.parents[1] / "docs" / "spark.md").read_text().replace("\\\n", "")
    found = package_settings(["s3a"], {})
    assert f"--packages {found[PACKAGES]} --exclude-packages {found[EXCLUDES]} " in text


def test_another_hadoop_takes_what_its_connector_asks_for(monkeypatch):
    monkeypatch.setattr(SESSION, "hadoop_version", lambda: "3.4.0")
    assert package_settings(["s3a"], {}) == {PACKAGES: "org.apache.hadoop:hadoop-aws:3.4.0"}


@pytest.mark.parametrize("packages", ["s3a", ["hadoop-aws"], ["a:b"], ["a::1"], [""]])
def test_packages_that_cannot_be(packages):
    with pytest.raises(UsageError, match="packages="):
        package_settings(packages, {})
