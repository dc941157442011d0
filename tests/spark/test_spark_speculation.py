"""A task that Spark itself runs twice at once (speculation), each attempt on a host of its own."""

from __future__ import annotations

import json

import lakelog
import pytest
from processes import HERE


@pytest.mark.slow("a driver and two executors on two addresses, each a JVM that starts Python")
def test_of_a_task_that_runs_twice_one_attempt_counts(processes, tmp_path):
    url = tmp_path / "lake"
    (tmp_path / "events").mkdir()
    processes.python("job", HERE / "speculation_driver.py", url, tmp_path)
    assert processes.ended("job") == 0, processes.said("job")
    assert "written: 1000 4" in processes.said("job")
    logs = [path for path in (tmp_path / "events").rglob("*events*") if path.is_file()]
    events = [json.loads(line) for path in logs for line in path.read_text().splitlines()]
    tasks = [each["Task Info"] for each in events if each["Event"] == "SparkListenerTaskStart"]
    twice = [each for each in tasks if each["Index"] == 0]
    assert [each["Speculative"] for each in twice] == [False, True]
    assert {each["Host"] for each in twice} == {"127.0.0.1", "127.0.0.2"}
    catalog = lakelog.open_catalog(str(url))
    assert catalog.history("db", "spark").num_rows == 1
    found = catalog.snapshot("db").to_arrow("t")
    assert sorted(found["id"].to_pylist()) == list(range(1000))
