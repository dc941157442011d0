"""Log objects that a hostile writer framed with right digests: typed errors only, bounded memory
and time, and the process lives. See `fuzz.py`, which also runs alone, for as long as one likes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from seeds import base_seed

SCRIPT = Path(__file__).with_name("fuzz.py")
PARTS = 4  # for the workers to share
KINDS = {
    "transaction", "batch", "schema", "checkpoint", "references", "pieces", "rows", "segment",
    "segment_object", "header", "token", "row_deletes",
}  # fmt: skip


def fuzz(tmp_path: Path, inputs: int, part: int) -> None:
    """Run the fuzzer in a child, with one input in `PARTS`, and check its report."""
    progress, seed = tmp_path / "progress", base_seed()
    again = f"python tests/hostile/fuzz.py --seed {seed} --only"
    command = [
        sys.executable, str(SCRIPT), "--inputs", str(inputs), "--seed", str(seed),
        "--first", str(part), "--step", str(PARTS), "--progress", str(progress),
    ]  # fmt: skip
    # One thread of Arrow in each: they are many, and memory is measured.
    env = os.environ | {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    child = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=False)
    last = int(progress.read_text()) if progress.exists() else "none yet"
    assert child.returncode in (0, 1), f"ended by {child.returncode}: {again} {last}"
    report = json.loads(child.stdout)
    assert report["findings"] == [], "".join(
        f"\n    {again} {found['number']}" for found in report["findings"]
    )
    assert report["inputs"] == inputs
    assert report["grown_mib"] < 256
    endings: dict[str, set[str]] = {}
    for name in report["outcomes"]:
        kind, _, ending = name.partition(": ")
        endings.setdefault(kind, set()).add(ending)
    assert set(endings) == KINDS
    # Each kind of input got through in part and was refused in part.
    for kind, found in endings.items():
        assert found >= {"sound", "InvalidToken" if kind == "token" else "CorruptObject"}, kind


@pytest.mark.slow("10,000 inputs, 2 to 4 ms each")
@pytest.mark.parametrize("part", range(PARTS))
def test_10_000_hostile_objects(tmp_path, part):
    fuzz(tmp_path, 10_000 // PARTS, part)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_million_hostile_objects(tmp_path, part):
    fuzz(tmp_path, 1_000_000 // PARTS, part)


GUARDS = {
    "the columns of segments": "segments._check_columns = lambda *_: None",
    "the values in segments": "segments._check_values = lambda *_: None",
    "the order of statistics": "statistics_rows._ascends = lambda *_: True",
}
WITHOUT = """
import sys; sys.path.insert(0, sys.argv[1])
import fuzz
from lakelog.catalog.format import segments, statistics_rows

fuzzer = fuzz.Fuzzer(0)
GUARD
for number in range(4_000):
    fuzzer.run(number)
    if fuzzer.findings:
        sys.exit(9)
"""


@pytest.mark.parametrize("guard", GUARDS)
def test_the_fuzzer_misses_a_guard_that_is_taken_out(guard):
    code = WITHOUT.replace("GUARD", GUARDS[guard])
    done = subprocess.run([sys.executable, "-c", code, str(SCRIPT.parent)], check=False)
    assert done.returncode == 9
