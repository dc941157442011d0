"""In what two states of one revision differ: a checkpoint's, and one that was replayed without it.

Source: docs/format.md, sections 4.2 and 6; docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .statistics_differences import differing_statistics

if TYPE_CHECKING:
    import pyarrow as pa

    from ..log.state import State


def differences(one: State, other: State) -> list[str]:
    """In what two states of one revision differ, in words. What says where rows may be (row groups
    and statistics) may lawfully be left out: it differs only where both know it.

    Requests: 1 GET for each piece that is not read yet; of those that describe files only what
        isn't common to both.
    """
    found: list[str] = []
    facts = (
        "log", "named", "revision", "uuid", "digest", "epoch", "committed_at_us", "successor_uuid",
        "transaction_id", "first_epoch", "begun_at_us", "reader_features", "writer_features",
    )  # fmt: skip
    found += [name for name in facts if getattr(one, name) != getattr(other, name)]
    if not one.applications.rows().equals(other.applications.rows()):
        found.append("application versions")
    if one.schemas.entries != other.schemas.entries:
        found.append("schemas")
    for table in sorted({*one.files.tables(), *other.files.tables()}):
        if _files(one, table) != _files(other, table):
            found.append(f"files of table {table!r}")
        else:
            what = differing_statistics(one, other, table)
            found += [f"{words} of table {table!r}" for words in what]
    if _common_history(one, other) != _common_history(other, one):
        found.append("history")
    return found


def _files(state: State, table: str) -> pa.Table:
    rows = state.files.table(table, whole=True)
    return rows.sort_by("path").combine_chunks()


def _common_history(state: State, other: State) -> pa.Table:
    """Rows of the revisions that both histories hold."""
    firsts = [s.history.table().column("revision")[0].as_py() for s in (state, other)]
    table = state.history.table()
    return table.slice(max(firsts) - firsts[0]).combine_chunks()
