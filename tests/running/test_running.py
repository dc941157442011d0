"""The machinery of the tests themselves: seeds, groups, and the watch over slow tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repeat import repeats
from seeds import NAME, ROOT, base_seed

HERE = Path(__file__).parent

TESTS = """
import time
import pytest

def test_quick():
    pass

@pytest.mark.slow("it sleeps")
def test_slow():
    time.sleep(0.3)

@pytest.mark.timing
def test_late():
    pass

def test_unmarked():
    time.sleep(0.3)
"""

CONFTEST = f"""
import sys
sys.path.append({str(HERE)!r})
import slow
slow.Watch.__init__.__defaults__ = (0.2,)
pytest_plugins = ["order", "slow"]
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    marks = "[pytest]\nmarkers =\n    slow\n    timing\n    spark\n    xdist_group\n"
    (tmp_path / "pytest.ini").write_text(marks)

    def run(*options, ci="true"):
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
        env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            command, cwd=tmp_path, env=env | {"CI": ci}, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_slow_test_without_a_reason_fails_the_run_in_ci(run, workers):
    done = run("-n", workers)
    assert done.returncode == 1, done.stdout
    assert "test_unmarked: 0 s" in done.stdout
    assert "test_slow: 0 s" not in done.stdout
    assert run("-n", workers, ci="").returncode == 0
    assert run("-n", workers, "-k", "not unmarked").returncode == 0


def test_groups_and_slow_tests_come_first(run):
    lines = [line for line in run().stdout.splitlines() if "PASSED" in line]
    names = [line.split("::")[1].split()[0] for line in lines]
    assert names == ["test_late", "test_slow", "test_quick", "test_unmarked"]


def test_the_seed_comes_from_the_commit_unless_it_is_given(monkeypatch):
    monkeypatch.setenv(NAME, "77")
    assert base_seed() == 77
    monkeypatch.delenv(NAME)
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert base_seed() == int(commit[:7] or "0", 16)


def test_the_command_that_repeats_a_failure():
    command = repeats(5, ["tests/a.py::test_b[c]@spark session"])
    assert command == "LAKELOG_SEED=5 .venv/bin/python -m pytest 'tests/a.py::test_b[c]'"
