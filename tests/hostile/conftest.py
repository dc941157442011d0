"""The fuzzer's modules stand beside the tests, outside of any package: make them importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
