"""Start-up times: `import lakelog`, `lakelog --help`, and `lakelog log` on a demo-sized catalog.

python bench/startup.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

import tables
from lakelog.cli.commands import demo


def whole_process(*argv: str, times: int = 7) -> list[float]:
    def once(_: int) -> None:
        subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL)

    return tables.timed(once, times)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("## Start-up: ms, whole process, median of 7")
    tables.head("what", "ms", "without the bare interpreter")
    bare = whole_process("-c", "pass")[3]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        list(demo.commit_year(folder))
        built = time.perf_counter() - start
        for what, argv in {
            "import lakelog": ("-c", "import lakelog"),
            "import lakelog; lakelog.open_catalog": ("-c", "import lakelog; lakelog.open_catalog"),
            "lakelog --help": ("-m", "lakelog", "--help"),
            "lakelog log (the demo's 37 commits)": ("-m", "lakelog", "log", folder, "weather"),
        }.items():
            found = whole_process(*argv)[3]
            tables.row(what, f"{found * 1e3:.0f}", f"{(found - bare) * 1e3:.0f}")
        tables.row("(the demo's 37 commits themselves)", f"{built * 1e3:.0f}", "")


if __name__ == "__main__":
    main()
