"""Log objects that a hostile writer framed with right digests: typed errors only, bounded memory,
and the process lives. See `fuzz.py`, which also runs alone, for as long as one likes."""

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
    endings = {name.split(": ")[0]: set() for name in report["outcomes"]}
    for name in report["outcomes"]:
        endings[name.split(": ")[0]].add(name.split(": ")[1])
    assert len(endings) == 7
    # Each kind of input got through in part and was refused in part.
    assert all(found >= {"sound", "CorruptObject"} for found in endings.values()), endings


@pytest.mark.parametrize("part", range(PARTS))
def test_20_000_hostile_objects(tmp_path, part):
    fuzz(tmp_path, 20_000 // PARTS, part)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_million_hostile_objects(tmp_path, part):
    fuzz(tmp_path, 1_000_000 // PARTS, part)


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
