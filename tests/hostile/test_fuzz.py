"""Log objects that a hostile writer framed with right digests: typed errors only, bounded memory,
and the process lives. See `fuzz.py`, which also runs alone, for as long as one likes."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz.py")
PROCESSES = 2


def fuzz(tmp_path: Path, inputs: int, seed: int) -> list[dict]:
    """Run the fuzzer in children of about equal work; their reports."""
    children = []
    for number in range(PROCESSES):
        progress = tmp_path / f"progress{number}"
        command = [
            sys.executable, str(SCRIPT), "--inputs", str(inputs // PROCESSES), "--seed", str(seed),
            "--first", str(number), "--step", str(PROCESSES), "--progress", str(progress),
        ]  # fmt: skip
        # One thread of Arrow in each: they are many, and memory is measured.
        env = os.environ | {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
        children.append((progress, subprocess.Popen(command, stdout=subprocess.PIPE, env=env)))
    reports = []
    for progress, child in children:
        out, _ = child.communicate()
        last = progress.read_text() if progress.exists() else "none"
        assert child.returncode in (0, 1), f"seed {seed}: ended by {child.returncode} at {last}"
        reports.append(json.loads(out))
    return reports


def check(reports: list[dict], inputs: int) -> None:
    assert [found for report in reports for found in report["findings"]] == []
    assert sum(report["inputs"] for report in reports) == inputs
    assert max(report["grown_mib"] for report in reports) < 256
    for report in reports:  # each kind of input got through in part and was refused in part
        endings = {name.split(": ")[0]: set() for name in report["outcomes"]}
        for name in report["outcomes"]:
            endings[name.split(": ")[0]].add(name.split(": ")[1])
        assert len(endings) == 7
        assert all(found >= {"sound", "CorruptObject"} for found in endings.values()), endings


@pytest.mark.timeout(1_200)  # a minute on a quiet machine
def test_100_000_hostile_objects(tmp_path):
    check(fuzz(tmp_path, 100_000, seed=1), 100_000)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_million_hostile_objects_of_a_fresh_seed(tmp_path):
    seed = int(os.environ.get("LAKELOG_SEED") or secrets.randbelow(1 << 30))
    print(f"seed {seed}")
    check(fuzz(tmp_path, 1_000_000, seed), 1_000_000)


def test_the_fuzzer_reports_what_it_finds(tmp_path):
    """A guard that is taken out is missed within a few hundred inputs."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fuzz\n"
        "from lakelog.catalog.format import segment_bytes\n"
        "segment_bytes._known_columns = lambda schema, *_: schema.names\n"
        "fuzzer = fuzz.Fuzzer(0)\n"
        "for number in range(1_000): fuzzer.run(number)\n"
        "sys.exit(9 if fuzzer.findings else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SCRIPT.parent)], check=False)
    assert done.returncode == 9
