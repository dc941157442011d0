"""Bugs to plant into the real code, and the tests that must fail of each.

Loaded into pytest with `-p plants`, it plants the one that `LAKELOG_PLANTED` names.
"""

from __future__ import annotations

import os

import plants_blooms
import plants_changing
import plants_clocks
import plants_columns
import plants_commit
import plants_deletes
import plants_gc
import plants_in_place
import plants_keys
import plants_operations
import plants_others
import plants_read
import plants_rebuild
import plants_replication
import plants_rows
import plants_spark
import plants_store
import plants_streams
import plants_taken_back
import plants_where
from planting import PLANTS

PARTS = (
    plants_blooms,
    plants_changing,
    plants_clocks,
    plants_columns,
    plants_commit,
    plants_deletes,
    plants_gc,
    plants_in_place,
    plants_operations,
    plants_others,
    plants_keys,
    plants_read,
    plants_rebuild,
    plants_replication,
    plants_rows,
    plants_spark,
    plants_store,
    plants_streams,
    plants_taken_back,
    plants_where,
)


_planted: list[str] = []


def start() -> None:
    """Plant the bug, for the whole life of the process."""
    name = os.environ.get("LAKELOG_PLANTED")
    if name and name not in _planted:
        _planted.append(name)
        PLANTS[name].patch().start()


def pytest_configure() -> None:
    """The same, before the tests are collected."""
    start()
