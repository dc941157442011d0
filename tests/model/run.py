"""Explore the models from the command line.

`python tests/model/run.py [--size small|large] [--only WORD] [--no-mutants] [--trace] [--markdown]`

Prints states, transitions, depth and time per model and per planted bug. Exits with 1 if a model is
not clean or a planted bug is not caught.
"""

from __future__ import annotations

import argparse
import sys

from explorer import explore, report
from rows import caught_rows, model_row, mutant_row
from suite import MUTANTS, large, small


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("small", "large"), default="small")
    parser.add_argument("--only", default="", help="only models and bugs with this in their name")
    parser.add_argument("--no-mutants", action="store_true")
    parser.add_argument("--trace", action="store_true", help="print the counterexamples")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the docs")
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds per model")
    args = parser.parse_args()
    wrong = 0
    for model in small() if args.size == "small" else large():
        if args.only in model.name:
            result = explore(model, args.time_limit)
            wrong += not result.complete
            print(model_row(result) if args.markdown else report(result), flush=True)
    for name, mutant in MUTANTS.items():
        if args.no_mutants or args.only not in name:
            continue
        result = explore(mutant.model(name), args.time_limit)
        wrong += result.violation != mutant.catches
        if args.markdown:
            print(mutant_row(name, result), flush=True)
        else:
            text = report(result)
            print(f"{name}: {text if args.trace else text.splitlines()[0]}", flush=True)
    if args.markdown:
        print("", *caught_rows(), sep="\n")
    else:
        print(f"{wrong} unexpected" if wrong else "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
