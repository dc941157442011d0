"""Fixtures for every test: the servers, started once and only if a test asks for them.

With xdist each worker has servers of its own, on ports that were free. How tests are ordered,
grouped, seeded and watched is in `running/`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelog.testing.servers import S3Server, moto_server, rclone_s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator


sys.path.append(str(Path(__file__).resolve().parent / "running"))
pytest_plugins = ["repeat", "turns", "order", "slow"]
ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "demo-lake", "node_modules"
)
# A JVM that ends within minutes compiles in vain what would be quick later: half of Spark's time.
# Nor need it verify Spark's own classes, or grow its heap step by step.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Xms600m -XX:NewSize=300m -XX:MetaspaceSize=200m",
)


@pytest.fixture(scope="module")
def parts_decoded_once() -> Iterator[None]:
    """For tests that read one log hundreds of times, from a store that they break and mend."""
    from decoded_once import decoded_once

    with decoded_once():
        yield


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """S3 with put-if-absent: `endpoint_url`, `storage_options` (a dict) and `make_bucket()`."""
    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def rclone_s3() -> Iterator[S3Server]:
    """S3 that ignores put-if-absent; the same attributes as `moto`."""
    with rclone_s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    argv = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder]
    subprocess.run([*argv, folder / "source"], check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built
