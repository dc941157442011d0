"""Whether tables still have the columns for which files were written. Pure.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ColumnsChanged
from ..format.definitions import name_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .build import Intent
    from .state import State


def refuse_changed_columns(state: State, intents: Sequence[Intent]) -> None:
    """Refuse files for columns that another commit has changed since, a tombstone that files which
    came with new names would escape, and a definition that would undo another one unseen.

    Args:
        intents: One after the other.
    Raises:
        ColumnsChanged: Names the table.
    """
    if not any(intent.columns_of for intent in intents):
        return
    entries = state.definitions.entries
    names: dict[str, bytes] = {}
    for intent in intents:
        for table, name in intent.columns_of.items():
            if table not in names:
                names[table] = name_of(entries[table].message) if table in entries else b""
            if names[table] != name:
                raise ColumnsChanged(
                    f"The columns of table {table!r} of {state.writer}/{state.database} were "
                    "changed by another commit since this transaction looked at them",
                    key=table,
                    hint="Nothing was committed. Begin another transaction, and go by the columns "
                    "that the table has now",
                )
        for action in intent.actions:
            if action.WhichOneof("kind") == "definition":
                data = action.definition.SerializeToString(deterministic=True)
                names[action.definition.table] = name_of(data)


def refuse_forgotten(table: str, known: Collection[bytes], state: State) -> None:
    """Refuse to define columns of a table that was forgotten since: nobody would see it, and the
    next one who writes it would be held to columns that no table has.

    Args:
        known: Fingerprints of the schemas that the table had. If others came and none of them is
            left, it was dropped and written anew.
    Raises:
        ColumnsChanged: It was.
    """
    if any(entry.fingerprint in known for entry in state.schemas_of(table).of_table(table)):
        return
    raise ColumnsChanged(
        f"Table {table!r} of {state.writer}/{state.database} was dropped by another commit "
        "since this transaction looked at its columns",
        key=table,
        hint="Nothing was committed. If it was written anew, begin another transaction; else write "
        "to it first",
    )
