"""What can't be taken back, or told row by row, yet: deletes of rows, and changes of columns. Pure,
but for the pieces of the states.

Source: docs/changing.md, "Going back".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .state import State


def hides(state: State, table: str) -> bool:
    """Whether rows of files of a table may be hidden by deletes."""
    return bool(state.deletes.of_table(table) or state.deletes.rows_of(table))


def refuse_going_back(
    head: State, back_to: State, changed: Collection[str], only: str | None
) -> None:
    """Refuse to go back across what would not come back as it was.

    Args:
        changed: Tables of which files come or go.
        only: The only table; None: all.
    Raises:
        UsageError: Names the table.
    """
    tables = {*head.deletes.tables(), *head.deletes.tombstones}
    tables |= {*back_to.deletes.tables(), *back_to.deletes.tombstones}
    for table in sorted(tables if only is None else tables & {only}):
        same = head.deletes.of_table(table) == back_to.deletes.of_table(table)
        same = same and head.deletes.rows_of(table) == back_to.deletes.rows_of(table)
        if (hides(head, table) or hides(back_to, table)) and (table in changed or not same):
            raise _refusal(head, table, "rows of it were deleted")
    defined = head.definitions.entries.keys() | back_to.definitions.entries.keys()
    for table in sorted(defined if only is None else defined & {only}):
        if _definition(head, table) != _definition(back_to, table):
            raise _refusal(head, table, "its columns were changed")


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


def refuse_elsewhere(states: Iterable[State], table: str) -> None:
    """Refuse to tell changes of a table row by row to which one of some logs gives a key, or of
    which one deletes rows of other logs' files.

    Raises:
        UsageError: One does.
    """
    for state in states:
        if any(item.logs for item in state.deletes.of_table(table)):
            raise UsageError(
                f"The changes of table {table!r} can't be told row by row: "
                f"{state.writer}/{state.database} has deleted rows of other writers' files, "
                "without writing these anew",
                key=table,
                hint="Read both points in time, and compare them; `lakelog diff` says where",
            )
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


def _refusal(head: State, table: str, words: str) -> UsageError:
    return UsageError(
        f"Table {table!r} of {head.writer}/{head.database} can't be taken back: {words}, now or at "
        "that point in time, and that doesn't come back with its files",
        key=table,
        hint="Nothing was committed. Take other tables back one by one, or read the table at that "
        "point in time and write its rows anew (`tx.overwrite`; `tx.upsert` if it has a key)",
    )
