"""Tests of Spark that take turns: a third of their files, drawn by the run's seed, runs with each
commit, and all of them by `make soak`. A plugin of pytest, which marks all tests of Spark as such.

What Spark is used for most runs each time; with LAKELOG_TURNS=every all of them do.
"""

from __future__ import annotations

import os

import pytest
from sample import some
from seeds import ROOT

# Reads, writes, SQL, a stream, S3A, and the pipeline of all of them.
EACH_TIME = {
    "test_spark_engines_agree.py",
    "test_spark_pipeline.py",
    "test_spark_reads.py",
    "test_spark_right_rows.py",
    "test_spark_s3a.py",
    "test_spark_session.py",
    "test_spark_sql.py",
    "test_spark_versions.py",
    "test_spark_write.py",
    "test_stream_source.py",
}
PAGES = ("tests/docs/test_notebook.py", "tests/docs/test_docs.py::test_examples_run[spark.md]")


def taking_turns() -> list[str]:
    """What tests begin with that take turns: files, and pages of docs/."""
    found = sorted((ROOT / "tests" / "spark").glob("test_*.py"))
    return [f"tests/spark/{path.name}" for path in found if path.name not in EACH_TIME] + [*PAGES]


def waiting() -> tuple[str, ...]:
    """Those whose turn it isn't, by the run's seed."""
    if os.environ.get("LAKELOG_TURNS") == "every":
        return ()
    names = taking_turns()
    running = set(some("turns", names, len(names) // 3))
    return tuple(name for name in names if name not in running)


@pytest.hookimpl(tryfirst=True)  # before `-m "not long"` looks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    others = waiting()
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.spark)
        if item.nodeid.startswith(others):
            item.add_marker(pytest.mark.long)


def pytest_report_header() -> str:
    names = sorted(set(taking_turns()) - set(waiting()))
    return "of the tests that take turns: " + ", ".join(name.rpartition("/")[2] for name in names)
