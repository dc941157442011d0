"""In what two states of one revision differ: a checkpoint against what the log itself says. Pure,
but for their pieces.

Source: docs/format.md, section 6; docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..format import compute as pc

if TYPE_CHECKING:
    import pyarrow as pa

    from .state import State


def differences(one: State, other: State) -> list[str]:
    """In what two states of one revision differ, in words. What says where rows may be (row groups
    and statistics) is not compared: it may lawfully be left out."""
    found: list[str] = []
    facts = (
        "log", "named", "revision", "uuid", "digest", "epoch", "committed_at_us", "successor_uuid",
        "transaction_id", "first_epoch", "begun_at_us", "reader_features", "writer_features",
        "locations",
    )  # fmt: skip
    found += [name for name in facts if getattr(one, name) != getattr(other, name)]
    if not one.applications.rows().equals(other.applications.rows()):
        found.append("application versions")
    if one.schemas.entries != other.schemas.entries:
        found.append("schemas")
    if one.definitions.entries != other.definitions.entries:
        found.append("definitions")
    for table in sorted({*one.files.tables(), *other.files.tables()}):
        if _files(one, table) != _files(other, table):
            found.append(f"files of table {table!r}")
    found += [f"deletes of table {table!r}" for table in _different_deletes(one, other)]
    if _common_history(one, other) != _common_history(other, one):
        found.append("history")
    return found


def _files(state: State, table: str) -> pa.Table:
    rows = state.files.table(table, whole=True)
    return rows.sort_by("path").combine_chunks()


def _different_deletes(one: State, other: State) -> list[str]:
    """The tables with deletes that differ. A checkpoint leaves out tombstones of no live file."""
    found = []
    deleted = {*one.deletes.tombstones, *other.deletes.tombstones}
    for table in sorted({*one.files.tables(), *other.files.tables(), *deleted}):
        oldest = pc.min(one.files.table(table).column("revision")).as_py()
        said = []
        for state in (one, other):
            tombstones = [
                t
                for t in state.deletes.of_table(table)
                if oldest is not None and oldest < t.revision
            ]
            said.append((tombstones, state.deletes.rows_of(table)))
        if said[0] != said[1]:
            found.append(table)
    return found


def _common_history(state: State, other: State) -> pa.Table:
    """Rows of the revisions that both histories hold."""
    firsts = [s.history.table().column("revision")[0].as_py() for s in (state, other)]
    table = state.history.table()
    return table.slice(max(firsts) - firsts[0]).combine_chunks()
