"""Plants each bug of `plants.py` into the real code and runs the tests that must fail of it.

    python tests/planted/run.py [NAME ...]

First the same tests run without any: they must pass. Exits with the number of bugs that no test
caught. The models and the simulator have planted bugs of their own: `make planted` runs all three.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from plants import PLANTS

HERE = Path(__file__).parent
PASSED, FAILED = 0, 1


def run(tests: list[str], planted: str = "") -> tuple[int, str]:
    """pytest's exit code, and its first failure."""
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "plants", "-p", "no:cacheprovider",
         "-m", "not long", *tests],
        cwd=HERE.parent.parent,
        env={**os.environ, "LAKELOG_PLANTED": planted, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (PASSED, FAILED):
        print(done.stdout, done.stderr, file=sys.stderr)
    return done.returncode, found[1] if found else ""


def main() -> int:
    names = sys.argv[1:] or list(PLANTS)
    code, failure = run(sorted({PLANTS[name].tests for name in names}))
    if code != PASSED:
        print(f"Without any planted bug the tests fail: {failure}")
        return 1
    missed = 0
    for name in names:
        code, failure = run([PLANTS[name].tests], name)
        missed += code != FAILED
        print(f"{name:32} {PLANTS[name].what}\n{'':32} {failure or 'NOT CAUGHT'}", flush=True)
    print(f"{len(names) - missed} of {len(names)} planted bugs caught")
    return missed


if __name__ == "__main__":
    sys.exit(main())
