"""The modules of the independent reader stand beside the tests, outside of any package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
