"""`lakelog maintain` and `lakelog policy`: the nightly job, as schedulers run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.maintenance.lease import Lease

POLICY = """\
keep_days = 30
[databases.weather]
min_input_files = 2
publish = "nightly"
"""


def keys(url):
    return {str(path) for path in Path(url).rglob("*") if path.is_file()}


def test_it_shows_what_it_would_do(cli, own_weather, tmp_path):
    before = keys(own_weather)
    policy = tmp_path / "p.toml"
    policy.write_text(POLICY)
    done = cli("maintain", own_weather, "--policy", policy)
    assert (done.code, done.err) == (0, "\nDRY RUN: nothing was done; add --execute\n")
    assert "publish     @nightly\n" in done.out
    assert keys(own_weather) == before


def test_a_night(cli, own_weather, tmp_path):
    policy, report, metrics = (tmp_path / name for name in ("p.toml", "run.jsonl", "m.prom"))
    policy.write_text(POLICY)
    args = (
        "maintain", own_weather, "--policy", policy, "--report", report,
        "--metrics-file", metrics, "--idle-exit-code", "99", "--execute",
    )  # fmt: skip
    done = cli(*args)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) <= 10
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [row["step"] for row in rows][-5:] == ["checkpoint", "prune", "gc", "check", "publish"]
    assert rows[-1]["status"] == "done"
    assert 'lakelog_live_files{database="weather",table="hourly"}' in metrics.read_text()
    again = cli(*args)
    assert again.code == 99, "there was nothing to do"
    assert "nothing to do" in again.out
    assert cli(*args[:-1]).code == 0, "a plan is no run"


def test_forms_for_programs(cli, own_weather):
    found = cli("maintain", own_weather, "-o", "json").json
    assert (found["dry_run"], found["remaining"]) == (True, 0)
    assert {row["step"] for row in found["steps"]} >= {"compact", "checkpoint", "gc", "check"}
    lines = cli("maintain", own_weather, "weather", "-o", "jsonl").out.splitlines()
    assert all(json.loads(line)["database"] == "weather" for line in lines)
    assert cli("maintain", own_weather, "-o", "csv").out.startswith("step,database,table,status,")


def test_a_policy_that_cannot_be_is_refused_before_anything_is_done(cli, own_weather, tmp_path):
    before = keys(own_weather)
    bad = tmp_path / "bad.toml"
    bad.write_text("keep_dayz = 3")
    for args in (
        ("maintain", own_weather, "--policy", bad, "--execute"),
        ("policy", "set", own_weather, bad),
    ):
        done = cli(*args)
        assert done.code == 2
        assert "hint: Did you mean 'keep_days'" in done.err
    assert cli("maintain", own_weather, "--policy", tmp_path / "none").code == 2
    assert keys(own_weather) == before


def test_the_policy_is_kept_in_the_lake(cli, own_weather, tmp_path):
    assert "no policy" in cli("policy", "show", own_weather).out
    file = tmp_path / "p.toml"
    file.write_text(POLICY)
    assert cli("policy", "set", own_weather, file).out == POLICY
    assert cli("policy", "show", own_weather).out == POLICY
    rows = cli("policy", "show", own_weather, "-o", "json").json
    assert [(row["database"], row["keep_days"]) for row in rows] == [(None, 30), ("weather", 30)]
    done = cli("maintain", own_weather, "--execute")
    assert "@nightly (move 1)" in done.out
    assert cli("policy", "set", own_weather).code == 2
    assert cli("policy", "show", own_weather, file).code == 2


def test_a_second_job_ends_with_a_conflict(cli, own_weather):
    with Lease(lakelog.open_catalog(own_weather)):
        done = cli("maintain", own_weather, "--execute")
    assert done.code == 4
    assert "A job of maintenance is running: process " in done.err


def test_what_failed_is_told_and_gives_the_exit_code(cli, own_weather, log_object):
    path = log_object("EWR", 1)
    path.unlink()
    (path.parents[1] / "mirror/transactions" / path.name).unlink()
    (log_object("EWR", 2, "checkpoint")).unlink()
    (path.parents[1] / "mirror/transactions" / path.name).unlink(missing_ok=True)
    for copy in path.parents[1].glob("mirror/transactions/*.checkpoint"):
        copy.unlink()
    done = cli("maintain", own_weather, "--execute")
    assert done.code == 5
    assert "failed: gc of weather: " in done.out


def fill(url, writers=3, commits=12):
    catalog = lakelog.open_catalog(url)
    for number in range(writers):
        with catalog.writer(f"w{number}", "db") as writer:
            for each in range(commits):
                with writer.transaction() as tx:
                    tx.write("t", pa.table({"n": [each]}))
    return catalog


@pytest.mark.parametrize("wait_s", [0.0, 0.05, 0.2])
def test_asked_to_stop_it_ends_its_piece_of_work_reports_and_exits_with_0(tmp_path, wait_s):
    """As Kubernetes and systemd ask: SIGTERM, then half a minute."""
    url, report = tmp_path / "lake", tmp_path / "run.jsonl"
    catalog = fill(url)
    before = catalog.snapshot("db").to_arrow("t").num_rows
    process = subprocess.Popen(
        [sys.executable, "-m", "lakelog", "maintain", str(url), "--execute", "--report", report],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"LAKELOG_PROGRESS": "0"},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not report.exists() and process.poll() is None:  # from then on the signal is taken
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(wait_s)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert " s" in out.splitlines()[-1]
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [row["step"] for row in rows] == ["compact", "checkpoint", "prune", "gc", "check"]
    assert not any(row["status"] == "failed" for row in rows)
    assert catalog.snapshot("db").to_arrow("t").num_rows == before
    assert catalog.check().is_sound
    done = subprocess.run(
        [sys.executable, "-m", "lakelog", "maintain", str(url), "--execute"], check=False
    )
    assert done.returncode == 0, "the lease was released"


def test_it_starts_quickly(own_weather):
    code = "import sys; from lakelog.cli.main import main; main(['maintain', '--help'])"
    code += "; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "lakelog.maintenance" not in done.stdout.splitlines()[-1]
