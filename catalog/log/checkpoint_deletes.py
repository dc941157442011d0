"""The deletes in a checkpoint: the pieces of the one before, or all anew once something changed.
Pure.

Source: docs/format.md, section 6.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..format import compute as pc
from ..format.segments import ROW_DELETES, ROWS_PER_SEGMENT, TOMBSTONES
from .deletes import KINDS, Deletes

if TYPE_CHECKING:
    from .piece_sink import PieceSink
    from .state import State


def write_deletes(state: State, sink: PieceSink) -> list[str]:
    """Write the deletes of a state.

    Returns:
        Objects that hold fields of a later version.
    """
    old = [piece for piece in state.pieces if piece.kind in KINDS]
    kinds = {a.WhichOneof("kind") for t in state.tail for a in t.message.actions}
    if not old and kinds.isdisjoint({"tombstone", "row_deletes"}):
        return []
    if kinds.isdisjoint({"tombstone", "row_deletes", "remove", "forget"}):
        for piece in old:
            sink.keep(piece)
        return []
    found = state.load_deletes(exact=True)
    if "remove" in kinds:
        _drop_spent(state, found)
    for kind, rows in ((ROW_DELETES, found.row_rows()), (TOMBSTONES, found.tombstone_rows())):
        for start in range(0, rows.num_rows, ROWS_PER_SEGMENT):
            sink.write(kind, rows.slice(start, ROWS_PER_SEGMENT))
    return found.newer


def _drop_spent(state: State, found: Deletes) -> None:
    """Leave out tombstones that no live file is older than: what is added from here on is newer."""
    removed = {
        action.remove.table
        for transaction in state.tail
        for action in transaction.message.actions
        if action.WhichOneof("kind") == "remove"
    }
    for table in removed & found.tombstones.keys():
        oldest = pc.min(state.files.table(table).column("revision")).as_py()
        kept = [t for t in found.tombstones[table] if oldest is not None and oldest < t.revision]
        found.tombstones[table] = kept
        if not kept:
            del found.tombstones[table]
