"""The models are plain scripts beside the test, not modules of a package: make them importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
