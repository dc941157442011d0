"""Helpers of these tests are plain modules beside them, and those of the tests of changing data."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "changing"))
