"""Long runs on one core, over as many sessions as they take: `make campaign ARGS="--hours 2"`.

Random histories, processes that are killed, and processes that are stopped and woken, in turns.
What has run is noted in `campaign.csv` beside this file, which is committed: each line with a
digest of the core, so that runs of many days add up as long as not a byte of it changes.

    python tests/running/campaign.py --sums

tells what has run on the core that is here.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
LEDGER: Final = Path(__file__).with_name("campaign.csv")
# What decides whether data is lost: the rooms below the command line and Spark, and the libraries.
CORE: Final = ("store", "catalog", "gc", "rebuild", "plans", "proto")
ALONE: Final = ("errors.py", "constraints.txt")
GOALS: Final = {"histories": 1_000_000, "killed": 5_000, "stopped": 2_000}
BATCH: Final = {"histories": 20_000, "killed": 250, "stopped": 100}
TESTS: Final = {
    "killed": "tests/faults/test_kill_9.py::test_kill_9_five_thousand_times",
    "stopped": "tests/faults/test_split_brain.py::test_thousands_stopped_owners_find_out[local]",
}


class Batch(NamedTuple):
    """One line of the ledger.

    Attributes:
        core: The digest of the core.
        kind: What ran.
        first: The first seed, or the only one.
        count: Histories, or rounds.
        findings: What broke, by seeds or the name of a test; empty for nothing.
        seconds: How long it took.
    """

    core: str
    kind: str
    first: int
    count: int
    findings: str
    seconds: int


def core_digest(root: Path = ROOT) -> str:
    """Of the core's files, names and bytes."""
    found = hashlib.sha256()
    files = [path for room in CORE for path in (root / room).rglob("*") if _counts(path)]
    for path in sorted([*files, *(root / name for name in ALONE)]):
        body = path.read_bytes()
        found.update(f"{path.relative_to(root)} {len(body)}\n".encode())
        found.update(body)
    return found.hexdigest()[:16]


def _counts(path: Path) -> bool:
    return path.suffix in {".py", ".pyi", ".proto"}


def read(ledger: Path = LEDGER) -> list[Batch]:
    """All batches."""
    if not ledger.exists():
        return []
    with ledger.open(newline="") as file:
        return [
            Batch(row["core"], row["kind"], int(row["first"]), int(row["count"]),
                  row["findings"], int(row["seconds"]))
            for row in csv.DictReader(file)
        ]  # fmt: skip


def note(batch: Batch, ledger: Path = LEDGER) -> None:
    """One more batch; on the disk when this returns."""
    is_new = not ledger.exists()
    with ledger.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(Batch._fields)
        writer.writerow(batch)
        file.flush()
        os.fsync(file.fileno())


def sums(batches: list[Batch], core: str) -> dict[str, int]:
    """How much of each kind ran on a core."""
    return {
        kind: sum(one.count for one in batches if (one.core, one.kind) == (core, kind))
        for kind in GOALS
    }


def next_seed(batches: list[Batch], kind: str) -> int:
    """One that no batch of this kind has run, on whatever core."""
    return max((one.first + one.count for one in batches if one.kind == kind), default=10**10)


def turns(batches: list[Batch], core: str) -> Iterator[str]:
    """What to run next, for ever: the kind that is the furthest from its goal."""
    done = sums(batches, core)
    while True:
        kind = min(GOALS, key=lambda one: done[one] / GOALS[one])
        done[kind] += BATCH[kind]
        yield kind


def run(kind: str, first: int, count: int) -> str:
    """What broke; empty for nothing."""
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
    parser.add_argument("--sums", action="store_true", help="tell what has run on this core")
    parser.add_argument("--only", choices=GOALS, help="one kind alone")
    args = parser.parse_args()
    core = core_digest()
    if not args.sums:
        until_s = time.monotonic() + args.hours * 3600
        for kind in turns(read(), core):
            if time.monotonic() > until_s:
                break
            if args.only in {None, kind}:
                first, start = next_seed(read(), kind), time.monotonic()
                found = run(kind, first, BATCH[kind])
                taken = int(time.monotonic() - start)
                if core_digest() != core:
                    print("The core was changed under this batch, which counts for nothing.")
                    return 2
                note(Batch(core, kind, first, BATCH[kind], found, taken))
    batches = read()
    for kind, count in sums(batches, core).items():
        print(f"{kind}: {count:,} of {GOALS[kind]:,} on core {core}")
    bad = [one for one in batches if one.core == core and one.findings]
    for one in bad:
        print(f"{one.kind} from {one.first}: {one.findings}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
