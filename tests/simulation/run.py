"""Random histories by the thousand: `python tests/simulation/run.py --histories 1000000`.

Each history is its seed; `--trace SEED` replays one and prints every request.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterator

from lakelog.testing.histories import Outcome, run_history


def outcomes(first: int, count: int, processes: int) -> Iterator[Outcome]:
    """The outcome of each seed, in no order."""
    seeds = range(first, first + count)
    if processes == 1:
        yield from map(run_history, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(run_history, seeds, chunksize=50)


def summary(found: Iterator[Outcome]) -> tuple[str, list[Outcome]]:
    """In words, and those that broke an invariant."""
    start = time.perf_counter()
    histories = steps = commits = acknowledged = 0
    bad = []
    for outcome in found:
        histories += 1
        steps += outcome.steps
        commits += outcome.commits
        acknowledged += outcome.acknowledged
        if outcome.violation:
            bad.append(outcome)
        if sys.stderr.isatty() and histories % 1000 == 0:
            print(f"\r{histories:,}", end="", file=sys.stderr)
    taken = time.perf_counter() - start
    words = (
        f"{histories:,} histories, {steps:,} requests, {commits:,} commits, "
        f"{acknowledged:,} acknowledged, {len(bad)} violations, {taken:.0f} s"
    )
    return words, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", type=int, metavar="SEED")
    args = parser.parse_args()
    if args.trace is not None:
        trace: list[str] = []
        outcome = run_history(args.trace, trace=trace)
        print(*trace, outcome, sep="\n")
        return bool(outcome.violation)
    words, bad = summary(outcomes(args.first, args.histories, args.processes))
    print(words)
    for outcome in itertools.islice(bad, 20):
        print(f"seed {outcome.seed}: {outcome.violation}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
