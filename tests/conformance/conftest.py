"""What the files of the ancestor's tests share: their lake, and what lies beside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelog.store import open_store
from lakelog.store.memory import MemoryStore

if TYPE_CHECKING:
    from ancestor_lake import Lake

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=["memory", "local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """An empty lake in memory, and one on disk."""
    from ancestor_lake import Lake

    in_memory = request.param == "memory"
    return Lake(MemoryStore("m") if in_memory else open_store(tmp_path / "root"))
