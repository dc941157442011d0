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
_MISFIT = re.compile(r" - (?:Attribute|Type|Name|Import|Unbound)\w*Error\b")


def run(tests: list[str], planted: str = "") -> tuple[int, str]:
    """pytest's exit code, and its first failure with the error."""
    in_children = planted and PLANTS[planted].in_children
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    path += [str(HERE / "children")] * bool(in_children)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "plants", "-p", "no:cacheprovider",
         "-m", "not long", *tests],
        cwd=HERE.parent.parent,
        env={**os.environ, "COLUMNS": "300", "LAKELOG_PLANTED": planted, "LAKELOG_TURNS": "every",
             "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"^(?:FAILED|ERROR) (.+)", done.stdout, re.MULTILINE)
    if done.returncode not in (PASSED, FAILED):
        print(done.stdout, done.stderr, file=sys.stderr)
    return done.returncode, found[1] if found else ""


def is_caught(code: int, failure: str) -> bool:
    """Whether a test failed of what the bug does, and not of how it is planted."""
    return code == FAILED and not _MISFIT.search(failure)


def main() -> int:
    names = sys.argv[1:] or list(PLANTS)
    code, failure = run(sorted({test for name in names for test in PLANTS[name].tests.split()}))
    if code != PASSED:
        print(f"Without any planted bug the tests fail: {failure}")
        return 1
    missed = 0
    for name in names:
        code, failure = run(PLANTS[name].tests.split(), name)
        caught = is_caught(code, failure)
        missed += not caught
        said = "" if caught else "NOT CAUGHT "
        print(f"{name:40} {PLANTS[name].what}\n{'':40} {said}{failure}", flush=True)
    print(f"{len(names) - missed} of {len(names)} planted bugs caught")
    return missed


if __name__ == "__main__":
    sys.exit(main())
