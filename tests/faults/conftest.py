"""Helpers of these tests are plain modules beside them: make them importable. Processes to kill."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nursery import Nursery


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Forks processes that have imported lakelog already."""
    from nursery import Nursery

    with Nursery() as running:
        yield running
