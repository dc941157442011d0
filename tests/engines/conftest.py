"""Lakes for other engines; what several files of tests share lies beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import lakelog
import pytest
from lakelog.catalog.engines import bare

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path))


@pytest.fixture
def tables_of_any_size(monkeypatch):
    """DuckDB's own reader reads small tables, too."""
    monkeypatch.setattr(bare, "LEAST_ROWS", 0)
