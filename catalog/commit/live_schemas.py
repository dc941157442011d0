"""The schemas that files of a table have in one log. Pure, but for the pieces of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..log.known_schemas import SchemaEntry
    from ..log.state import State


def live_schemas(
    state: State, table: str, removed: Collection[tuple[str, str]]
) -> list[SchemaEntry]:
    """Those of live files, oldest first.

    Args:
        removed: Tables and paths of files that don't count.
    """
    files, known = state.table_of(table)
    rows = files.table(table)
    paths = sorted(path for of, path in removed if of == table)
    if paths:
        gone = pc.is_in(rows.column("path"), column(paths, pa.string()))
        rows = pc.filter(rows, pc.invert(gone))
    live = set(pc.unique(rows.column("schema_fingerprint")).to_pylist())
    return [entry for entry in known.of_table(table) if entry.fingerprint in live]
