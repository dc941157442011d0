"""The command `lakelog`, which `python -m lakelog` is, too."""

from __future__ import annotations

import os
import sys


def run() -> int:
    """Run the command. An interrupt ends it in silence even while its modules are loaded."""
    try:
        from .cli.main import main

        return main()
    except KeyboardInterrupt:
        os.write(2, b"lakelog: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
