"""Fetches what `session(packages=["s3a"])` asks for into a folder: `fetch_s3a.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import lakelog.spark

if __name__ == "__main__":
    folder = str(Path(sys.argv[1]).resolve())
    lakelog.spark.session(packages=["s3a"], **{"spark.jars.ivy": folder}).stop()
