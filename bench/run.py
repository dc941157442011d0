"""All figures, one after the other: `make bench`. Needs a quiet machine and about two hours.

python bench/run.py [--quick]
"""

from __future__ import annotations

import argparse
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
    "maintain.py": ["--times", "3"],
    "checkpoint.py": [
        *("--files", "10000", "--commits", "100", "--onto", "10000"),
    ],
    "replicate.py": ["--sizes", "16x1", "100x0.01", "--where", "local"],
    "restore.py": ["--files", "1000", "--rounds", "2"],
    "writes.py": ["--writes", "200", "--peer-limit", "5", "--where", "local"],
    "writers.py": ["--writers", "20", *LOCAL],
    "bounds.py": ["--share", "0.01"],
    "engines.py": ["--files", "100", "--scan-files", "4", "--times", "3"],
    "skipping.py": ["--files", "1000", "10000"],
    "tpch.py": ["--scale", "0.1", "--files", "4", "--times", "3"],
    "spark_planning.py": ["--files", "1000"],
    "spark_selective.py": ["--months", "24", "--rows", "2000", "--rounds", "3"],
    "spark_external.py": ["--files", "2", "--rows", "400000", "--group", "100000", "--rounds", "1"],
    "spark_write.py": ["--scale", "0.1", "--files", "2", "--times", "2"],
    "spark_tpch.py": ["--scale", "0.1", "--files", "2", "--rounds", "2"],
    "spark_stream.py": ["--files", "10", "--rounds", "1"],
    "deletes.py": ["--rows", "400000", "--files", "4", "--times", "1"],
    "upsert.py": ["--rows", "200000", "--files", "4", "--times", "1"],
    "concurrency.py": ["--rows", "5x20", "10x50", "--peer-limit", "20", *LOCAL],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look")
    is_quick = parser.parse_args().quick
    here = Path(__file__).parent
    for name, quick in QUICK.items():
        more = quick if is_quick else []
        done = subprocess.run([sys.executable, str(here / name), *more], check=False)
        if done.returncode:
            print(f"{name} failed", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
