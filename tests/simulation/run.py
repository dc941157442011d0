"""Random histories by the thousand: `python tests/simulation/run.py --histories 1000000`.

Each history is its seed; `--trace SEED` replays one and prints every request.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "running"))

from history_runs import outcomes, summary
from lakelog.testing.histories import run_history


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
