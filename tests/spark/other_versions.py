"""The tests of Spark with each version of it that lakelog serves, and what it says to older ones.

    python tests/spark/other_versions.py [VERSION ...] [--pytest "-k partition"]

Each version is pinned here and comes from PyPI, once, into a folder of its own in the environment's
(`sparks/VERSION`), which then comes first on Python's path; all else is the environment's.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

SERVED = ("4.0.5", "4.1.4", "4.2.1")
REFUSED = ("3.5.9",)
ROOT = Path(__file__).resolve().parents[2]
TOO_OLD = """
import sys
from unittest.mock import sentinel

import lakelog.spark
from lakelog.errors import SparkUnsupported
import pyspark

assert pyspark.__version__ == sys.argv[1], pyspark.__version__
calls = (
    lambda: lakelog.spark.session(),
    lambda: lakelog.spark.read(sentinel.spark, "lake", "db", "t"),
    lambda: lakelog.spark.write(sentinel.frame, "lake", "db", "t", writer="w"),
    lambda: lakelog.spark.attach(sentinel.spark, "lake", "lake"),
    lambda: lakelog.spark.register(sentinel.spark),
)
for call in calls:
    try:
        call()
    except SparkUnsupported as error:
        said = str(error)
        assert "can neither read nor write" in said, said
    else:
        raise AssertionError("Spark " + sys.argv[1] + " was not refused")
print("Spark", sys.argv[1], "is refused:", said)
"""


def installed(version: str, sparks: Path) -> Path:
    """The folder with a version, which is fetched if it isn't there."""
    folder = sparks / version
    if not (folder / "done").exists():
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*command, "--target", folder, f"pyspark=={version}"], check=True)
        (folder / "done").touch()
    return folder


def run(version: str, sparks: Path, options: list[str]) -> int:
    path = f"{installed(version, sparks)}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(
        os.pathsep
    )
    known = {**os.environ, "PYTHONPATH": path, "LAKELOG_TURNS": "every"}
    known.pop("SPARK_HOME", None)
    command = [sys.executable, "-m", "pytest", "-q", "tests/spark", "-m", "not long", *options]
    if version in REFUSED:
        command = [sys.executable, "-c", TOO_OLD, version]
    return subprocess.run(command, cwd=ROOT, env=known, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", default=[*SERVED, *REFUSED])
    parser.add_argument("--folder", type=Path, default=Path(sys.prefix, "sparks"))
    parser.add_argument("--pytest", default="-n 0", help="options for pytest")
    given = parser.parse_args()
    failed = []
    for version in given.versions:
        began = time.monotonic()
        if run(version, given.folder, shlex.split(given.pytest)):
            failed.append(version)
        print(f"Spark {version}: {time.monotonic() - began:.0f} s", flush=True)
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
