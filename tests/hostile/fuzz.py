"""Fuzzes the decoding of log objects behind their digests: what a hostile writer can send.

    python tests/hostile/fuzz.py --inputs 50000000 --seed 7

Each input is a sound object spoiled from (seed, number) alone and framed with a right digest. It is
decoded, applied or made a state, and what came out is used as a reader would. Whatever happens must
be sound or an error of lakelog, in bounded memory and time. An input that breaks this is printed by
number; `--only NUMBER` runs it alone. The number under way is kept in the file of `--progress`, so
that a crash of the process can be blamed on its input.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "running"))

from decoded_once import decoded_once
from inputs import Inputs
from lakelog.errors import LakelogError

LIMIT_MIB = 256
LONGEST_S = 5.0  # of processor time, for one input
# Addresses, not memory: the libraries map much that they never touch.
ADDRESS_BYTES = 3 << 30


class Fuzzer:
    """Makes and tries inputs of one seed.

    Attributes:
        outcomes: How often each way of ending came.
        findings: Number, kind and trace of each input that broke the rule.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.outcomes: dict[str, int] = {}
        self.findings: list[dict[str, Any]] = []
        self._inputs = Inputs()
        self._tries = self._inputs.kinds()

    def run(self, number: int) -> None:
        """Try one input."""
        source = random.Random(self.seed << 32 | number)
        what = self._tries[number % len(self._tries)]
        begun = time.process_time()
        try:
            refused = what(source)
            outcome = min(refused) if refused else "sound"
        except LakelogError as error:
            outcome = type(error).__name__
            str(error)
        except (Exception, RecursionError) as error:
            outcome = f"FINDING {type(error).__name__}"
            self._found(number, what.__name__, error)
        if time.process_time() - begun > LONGEST_S:
            self._found(number, what.__name__, TimeoutError("took too long"))
        name = f"{what.__name__}: {outcome}"
        self.outcomes[name] = self.outcomes.get(name, 0) + 1

    def _found(self, number: int, name: str, error: BaseException) -> None:
        """Keep one finding for each place in the code."""
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        if all(where != found["where"] for found in self.findings):
            what = f"{type(error).__name__}: {str(error)[:300]}"
            self.findings.append({"number": number, "input": name, "what": what, "where": where})


def main() -> int:
    """Run, and print what came of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--progress", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    fuzzer = Fuzzer(args.seed)
    for number in range(args.first, args.first + 200):
        fuzzer.run(number)  # what is loaded once is no growth
    fuzzer.outcomes.clear()
    fuzzer.findings.clear()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    if args.only is not None:
        fuzzer.run(args.only)
    else:
        _loop(fuzzer, range(args.first, args.first + args.inputs * args.step, args.step), args)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(
        json.dumps(
            {
                "inputs": sum(fuzzer.outcomes.values()),
                "seconds": round(time.perf_counter() - begun, 1),
                "cpu_seconds": round(time.process_time(), 1),
                "grown_mib": round(grown / 1024, 1),
                "outcomes": dict(sorted(fuzzer.outcomes.items())),
                "findings": fuzzer.findings[:20],
            },
            indent=1,
        )
    )
    return 1 if fuzzer.findings or grown > LIMIT_MIB << 10 else 0


def _loop(fuzzer: Fuzzer, numbers: range, args: argparse.Namespace) -> None:
    progress = os.open(args.progress, os.O_RDWR | os.O_CREAT) if args.progress else -1
    with decoded_once():  # what is not spoiled is the same in every input
        for number in numbers:
            if progress >= 0:
                os.pwrite(progress, b"%020d" % number, 0)
            fuzzer.run(number)


if __name__ == "__main__":
    sys.exit(main())
