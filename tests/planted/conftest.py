"""Lets the test import the bugs beside it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
