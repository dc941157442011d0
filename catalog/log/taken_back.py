"""What can't be taken back, or told row by row, yet: deletes of rows, and changes of columns. Pure,
but for the pieces of the states.

Source: docs/changing.md, "Going back".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .state import State


def hides(state: State, table: str) -> bool:
    """Whether rows of files of a table may be hidden by deletes."""
    return bool(state.deletes.of_table(table) or state.deletes.rows_of(table))


def refuse_row_changes(before: State, after: State, table: str) -> None:
    """Refuse to tell changes row by row where files don't tell them.

    Raises:
        UsageError: Rows of the table were deleted in one of the states, or its columns changed.
    """
    words = ""
    if hides(before, table) or hides(after, table):
        words = "rows of it were deleted"
    elif _definition(before, table) != _definition(after, table):
        words = "its columns were changed"
    if words:
        raise UsageError(
            f"The changes of table {table!r} in {after.writer}/{after.database} can't be told row "
            f"by row: {words}, without writing its files anew",
            key=table,
            hint="Read both points in time, and compare them; `lakelog diff` says where",
        )


def refuse_key(states: Iterable[State], table: str) -> None:
    """Refuse to tell changes of a table row by row to which one of some logs gives a key.

    Raises:
        UsageError: One does.
    """
    for state in states:
        found = state.definitions.of(table)
        if found is not None and found.key:
            raise UsageError(
                f"The changes of table {table!r} can't be told row by row: it has a key "
                f"({', '.join(found.key)}), by which rows come and go with others",
                key=table,
                hint="Read both points in time, and compare them",
            )


def _definition(state: State, table: str) -> bytes:
    entry = state.definitions.entries.get(table)
    return b"" if entry is None else entry.message
