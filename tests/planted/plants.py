"""Bugs to plant into the real code, and the tests that must fail of each.

Loaded into pytest with `-p plants`, it plants the one that `LAKELOG_PLANTED` names.
"""

from __future__ import annotations

import os

import plants_clocks
import plants_commit
import plants_gc
import plants_read
import plants_rebuild
import plants_rows
import plants_store
from planting import PLANTS

PARTS = (
    plants_clocks,
    plants_commit,
    plants_gc,
    plants_read,
    plants_rebuild,
    plants_rows,
    plants_store,
)


def pytest_configure() -> None:
    """Plant the bug, for the whole run."""
    name = os.environ.get("LAKELOG_PLANTED")
    if name:
        PLANTS[name].patch().start()
