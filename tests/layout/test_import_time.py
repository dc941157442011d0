"""`import lakelog` is quick, and loads none of the heavy packages."""

from __future__ import annotations

import json
import subprocess
import sys

BUDGET_S = 0.3
HEAVY = {
    "pyarrow", "numpy", "pandas", "polars", "google.protobuf", "fsspec", "s3fs", "botocore",
    "pyspark", "py4j", "hypothesis",
}  # fmt: skip
SCRIPT = """
import json, sys, time
before = time.perf_counter()
import {name}
spent = time.perf_counter() - before
print(json.dumps([spent, sorted(sys.modules)]))
"""


def imported(name: str) -> tuple[float, set[str]]:
    """Seconds that an import takes in a fresh process, and the modules loaded by then."""
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name)], capture_output=True, text=True, check=True
    ).stdout
    spent, names = json.loads(out)
    return spent, set(names)


def test_import_is_quick_and_loads_nothing_heavy():
    """The fewest of five: what else runs on the machine doesn't count."""
    runs = [imported("lakelog") for _ in range(5)]
    assert not runs[0][1] & HEAVY
    assert min(spent for spent, _ in runs) < BUDGET_S


def test_the_error_tree_loads_nothing_heavy():
    _, names = imported("lakelog.errors")
    assert not names & HEAVY


def test_public_names_are_there_when_asked_for():
    import lakelog

    for name in lakelog.__all__:
        assert getattr(lakelog, name) is not None
    assert "no_such_name" not in dir(lakelog)
