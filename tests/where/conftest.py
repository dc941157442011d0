"""The drawing of tables and predicates, and the oracle, are modules beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
