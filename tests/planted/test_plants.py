"""Each bug can still be planted: what it patches is there. `make planted` sees each one caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from plants import PLANTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PLANTS)
def test_a_bug_can_be_planted(name):
    with PLANTS[name].patch():
        pass
    for test in PLANTS[name].tests.split():
        path, _, function = test.partition("::")
        assert (ROOT / path).exists()
        assert not function or f"\ndef {function}(" in (ROOT / path).read_text()
