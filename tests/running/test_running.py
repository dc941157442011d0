"""The machinery of the tests themselves: seeds, groups, and the watch over slow tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import campaign
import pytest
from order import FIRST, GROUPS, group_of, rank
from repeat import repeats
from seeds import NAME, ROOT, base_seed
from turns import EACH_TIME, SINGLY, quarter, taking_turns, waiting

HERE = Path(__file__).parent

TESTS = """
import time
import pytest

def test_quick():
    pass

@pytest.mark.slow("it sleeps")
def test_slow():
    time.sleep(0.3)

def test_unmarked():
    time.sleep(0.3)
"""

CONFTEST = f"""
import sys
sys.path.append({str(HERE)!r})
import slow
slow.LIMIT_S = 0.2
pytest_plugins = ["order", "slow"]
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    marks = "[pytest]\nmarkers =\n    slow\n"
    (tmp_path / "pytest.ini").write_text(marks)

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
        env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_run_names_slow_tests_without_a_reason_and_passes(run):
    done = run("-n", "1")
    assert done.returncode == 0, done.stdout
    assert "test_unmarked: 0 s" in done.stdout
    assert "test_slow: 0 s" not in done.stdout


def test_slow_tests_come_before_quick_ones(run):
    lines = [line for line in run().stdout.splitlines() if "PASSED" in line]
    names = [line.split("::")[1].split()[0] for line in lines]
    assert names == ["test_slow", "test_quick", "test_unmarked"]


def test_groups_come_first_and_name_what_is_there():
    assert rank("tests/spark/test_spark_reads.py::test_x", False) == 0
    assert rank("tests/store/test_retry.py::test_x", True) == len(FIRST)
    assert group_of("tests/spark/test_spark_wheel.py::test_x[a@b]") == "spark processes"
    assert [start for start in GROUPS if not (ROOT / start.split("::")[0]).exists()] == []


def test_each_group_runs_in_one_worker(run, tmp_path):
    test = "import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_a(n): pass\n"
    for folder in ("docs", "spark", "other"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(test)
    lines = [line for line in run("-n", "2", "tests").stdout.splitlines() if "PASSED" in line]
    assert len(lines) == 24
    assert len({line.split()[0] for line in lines if "docs" in line or "spark" in line}) == 1


def test_the_seed_comes_from_the_commit_unless_it_is_given(monkeypatch):
    monkeypatch.setenv(NAME, "77")
    assert base_seed() == 77
    monkeypatch.delenv(NAME)
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert base_seed() == int(commit[:7] or "0", 16)


def test_the_command_that_repeats_a_failure():
    command = repeats(5, ["tests/a.py::test_b[c]"])
    assert command == "LAKELOG_SEED=5 .venv/bin/python -m pytest 'tests/a.py::test_b[c]'"


def test_a_quarter_of_what_takes_turns_runs_with_each_commit(monkeypatch):
    monkeypatch.delenv("LAKELOG_TURNS", raising=False)
    spark, single = taking_turns(), [f"{SINGLY[0]}::test_{number}" for number in range(30)]
    assert {Path(name.partition("::")[0]).name for name in spark}.isdisjoint(EACH_TIME)
    always = ["tests/spark/test_spark_reads.py::test_x", "tests/store/test_retry.py::test_x"]
    every, seen = {*spark, *single, *always}, set()
    for seed in range(60):
        monkeypatch.setenv(NAME, str(seed))
        running = every - waiting(sorted(every))
        assert len(running.intersection(spark)) == -(-len(spark) // 4)
        assert len(running.intersection(single)) == 8
        assert running.issuperset(always)
        assert quarter("one", ["alone"]) == {"alone"}
        seen |= running
    assert seen == every
    monkeypatch.setenv("LAKELOG_TURNS", "every")
    assert waiting(sorted(every)) == set()


def test_names_of_what_takes_turns_are_there():
    for name in [*(f"tests/spark/{name}" for name in EACH_TIME), *taking_turns(), *SINGLY]:
        assert (ROOT / name.partition("::")[0]).is_file(), name


def test_what_waits_is_not_run_by_make_test(monkeypatch):
    monkeypatch.delenv("LAKELOG_TURNS", raising=False)
    page, runs = "tests/docs/test_notebook.py", {}
    for seed in range(40):
        monkeypatch.setenv(NAME, str(seed))
        runs.setdefault(page in quarter("turns", taking_turns()), seed)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "not long", page]
    for its_turn, seed in runs.items():
        env = os.environ | {NAME: str(seed)}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert ("test_it_runs_and_says_what_is_stored" in done.stdout) == its_turn, done.stdout
    assert set(runs) == {True, False}


# --- Campaigns ------------------------------------------------------------------------------------


def test_a_campaign_adds_up(tmp_path):
    ledger = tmp_path / "campaign.csv"
    assert campaign.read(ledger) == []
    for commit, kind, first, count, findings in (
        ("a", "histories", 10, 5, ""),
        ("a", "histories", 15, 5, "17 19"),
        ("b", "histories", 20, 7, ""),
        ("a", "killed", 3, 4, ""),
    ):
        campaign.note(campaign.Batch(commit, kind, first, count, findings, 1), ledger)
    batches = campaign.read(ledger)
    assert [one.findings for one in batches] == ["", "17 19", "", ""]
    assert campaign.sums(batches) == {"histories": 17, "killed": 4, "stopped": 0}
    assert campaign.next_seed(batches, "histories") == 27
    assert next(campaign.turns(batches)) == "stopped"


def test_a_campaign_runs_tests_that_are_there():
    for test in campaign.TESTS.values():
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (campaign.ROOT / path).read_text()
