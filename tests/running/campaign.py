"""Long runs, in as many sessions as they take: `make campaign ARGS="--hours 2"`.

Random histories, processes that are killed, and processes that are stopped and woken, in turns.
What has run is noted in `campaign.csv` beside this file, which is committed. `--sums` adds up.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
LEDGER: Final = Path(__file__).with_name("campaign.csv")
GOALS: Final = {"histories": 100_000, "killed": 500, "stopped": 200}
BATCH: Final = {"histories": 20_000, "killed": 250, "stopped": 100}
TESTS: Final = {
    "killed": "tests/faults/test_kill_9.py::test_kill_9_many_times",
    "stopped": "tests/faults/test_split_brain.py::test_many_stopped_owners_find_out[local]",
}


class Batch(NamedTuple):
    """One line of the ledger.

    Attributes:
        commit: The commit that it ran on.
        kind: What ran.
        first: The first seed, or the only one.
        count: Histories, or rounds.
        findings: What broke, by seeds or the name of a test; empty for nothing.
        seconds: How long it took.
    """

    commit: str
    kind: str
    first: int
    count: int
    findings: str
    seconds: int


def read(ledger: Path = LEDGER) -> list[Batch]:
    """Returns all batches."""
    if not ledger.exists():
        return []
    with ledger.open(newline="") as file:
        return [
            Batch(row["commit"], row["kind"], int(row["first"]), int(row["count"]),
                  row["findings"], int(row["seconds"]))
            for row in csv.DictReader(file)
        ]  # fmt: skip


def note(batch: Batch, ledger: Path = LEDGER) -> None:
    """Appends a batch; it is on the disk when this returns."""
    is_new = not ledger.exists()
    with ledger.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(Batch._fields)
        writer.writerow(batch)
        file.flush()
        os.fsync(file.fileno())


def sums(batches: list[Batch]) -> dict[str, int]:
    """Returns how much of each kind has run."""
    return {kind: sum(one.count for one in batches if one.kind == kind) for kind in GOALS}


def next_seed(batches: list[Batch], kind: str) -> int:
    """Returns a seed that no batch of a kind has run."""
    return max((one.first + one.count for one in batches if one.kind == kind), default=10**10)


def turns(batches: list[Batch]) -> Iterator[str]:
    """Yields what to run next, for ever: the kind that is the furthest from its goal."""
    done = sums(batches)
    while True:
        kind = min(GOALS, key=lambda one: done[one] / GOALS[one])
        done[kind] += BATCH[kind]
        yield kind


def run(kind: str, first: int, count: int) -> str:
    """Runs a batch; returns what broke, empty for nothing."""
    if kind != "histories":
        environment = os.environ | {"LAKELOG_SEED": str(first), "LAKELOG_ROUNDS": str(count)}
        argv = [sys.executable, "-m", "pytest", "-q", "-m", "long", TESTS[kind]]
        done = subprocess.run(argv, cwd=ROOT, env=environment, check=False)
        return "" if done.returncode == 0 else TESTS[kind].rpartition("::")[2]
    sys.path.append(str(ROOT / "tests" / "simulation"))
    from history_runs import outcomes, summary

    words, bad = summary(outcomes(first, count, os.cpu_count() or 1))
    print(words, *(f"seed {one.seed}: {one.violation}" for one in bad), sep="\n", flush=True)
    return " ".join(str(one.seed) for one in bad)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="begin no batch after so many")
    parser.add_argument("--sums", action="store_true", help="print the totals, run nothing")
    parser.add_argument("--only", choices=GOALS, help="one kind alone")
    args = parser.parse_args()
    if not args.sums:
        argv = ["git", "rev-parse", "--short=12", "HEAD"]
        commit = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        until_s = time.monotonic() + args.hours * 3600
        for kind in turns(read()):
            if time.monotonic() > until_s:
                break
            if args.only in {None, kind}:
                first, start = next_seed(read(), kind), time.monotonic()
                found = run(kind, first, BATCH[kind])
                taken_s = int(time.monotonic() - start)
                note(Batch(commit.strip(), kind, first, BATCH[kind], found, taken_s))
    batches = read()
    for kind, count in sums(batches).items():
        print(f"{kind}: {count:,} of {GOALS[kind]:,}")
    bad = [one for one in batches if one.findings]
    for one in bad:
        print(f"{one.kind} from {one.first} on {one.commit}: {one.findings}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
