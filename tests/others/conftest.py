"""What several files of tests share lies beside them; and a lake of two writers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    """Two writers with a file of 1 to 4 each; `w` says whose row it is."""
    from cut_cases import write

    catalog = open_catalog(str(tmp_path / "lake"))
    for name in "ab":
        write(catalog, name, [1, 2, 3, 4])
    return catalog
