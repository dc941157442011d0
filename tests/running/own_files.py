"""Files below a writer's own `data/` that no writer named: lakelog adds such files itself alone (a
replication of chosen tables does), and users add external files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lakelog.catalog.commit.adopt import NewFile
from lakelog.catalog.scalars import value_of

if TYPE_CHECKING:
    from lakelog.catalog.commit.transaction import Transaction


def add_own(
    tx: Transaction, table: str, path: Any, partition: Any = "", *, partition_by: Any = None,
    **options: Any,
) -> None:  # fmt: skip
    """Add a file as `tx.add` does, also one below the own `data/`, by its path in the log."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else value_of(path)
    file = NewFile(name, value_of(partition), partition_by=partition_by)
    tx.add_all(table, [file], skip_live=False, own=True, **options)
