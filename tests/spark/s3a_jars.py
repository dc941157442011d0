"""Where the jars of Spark's connector to S3 lie for tests."""

from __future__ import annotations

import os

import pytest
from lakelog.spark.session import hadoop_version
from processes import HERE

IVY = HERE.parents[1] / ".venv" / "ivy"  # `make setup` fetches the jars there
NEEDED = f"org.apache.hadoop_hadoop-aws-{hadoop_version()}.jar"


def need_jars() -> str:
    """Their folder, for `spark.jars.ivy`; the test is skipped without them, and fails in CI."""
    if not (IVY / "jars" / NEEDED).exists():
        if os.environ.get("CI"):
            pytest.fail(f"{IVY} lacks {NEEDED}: make setup fetches it")
        pytest.skip(f"{IVY} lacks {NEEDED}: tests/spark/fetch_s3a.py fetches it")
    return str(IVY)
