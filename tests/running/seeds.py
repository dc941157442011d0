"""The seed of a run: it comes from the commit, so that each change is tested on other inputs.

    python tests/running/seeds.py

prints it. The environment variable LAKELOG_SEED overrides it, to repeat a run.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "LAKELOG_SEED"


def base_seed() -> int:
    """LAKELOG_SEED, or the first 28 bits of the commit's name; 0 where there is no commit."""
    given = os.environ.get(NAME)
    if given:
        return int(given)
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(done.stdout[:7], 16)


if __name__ == "__main__":
    print(base_seed())
