"""All figures, one after the other: `make bench`. Needs a quiet machine and about two hours;
`--quick` gives a look.

python bench/run.py [--quick]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOCAL = ["--where", "local"]
QUICK = {
    "startup.py": [],
    "commit.py": ["--files", "0", "10000", *LOCAL],
    "append.py": ["--files", "0", "10000", "--times", "3", *LOCAL],
    "opening.py": [
        *("--files", "1000", "10000", "--parts", "10000", "--commits", "100", "--times", "3"),
        *LOCAL,
    ],
    "checkpoint.py": [
        *("--files", "10000", "--commits", "100", "--onto", "10000"),
    ],
    "writes.py": ["--writes", "200", "--peer-limit", "5", "--where", "local"],
    "writers.py": ["--writers", "20", *LOCAL],
    "bounds.py": ["--share", "0.01"],
    "spark_planning.py": ["--files", "1000"],
    "concurrency.py": ["--rows", "5x20", "10x50", "--peer-limit", "20", *LOCAL],
}


def main() -> int:
    here = Path(__file__).parent
    for name, quick in QUICK.items():
        more = quick if "--quick" in sys.argv[1:] else []
        done = subprocess.run([sys.executable, str(here / name), *more], check=False)
        if done.returncode:
            print(f"{name} failed", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
