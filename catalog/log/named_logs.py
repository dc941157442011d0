"""Deletes in the files of other logs: what can't be taken back, or told row by row, across them.
Pure.

Such a delete holds of files up to a revision of their log, and is said in another one. So a file
that is added again is free of it, and going back in one log can't undo it.

Source: docs/changing.md, "Going back".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .deletes import Tombstone
    from .state import State


def named_in(states: Iterable[State], table: str) -> list[tuple[str, Tombstone]]:
    """The tombstones of a table that name logs, each with the writer that said it."""
    return [
        (state.writer, item)
        for state in states
        for item in state.deletes.of_table(table)
        if item.logs
    ]


def refuse_row_changes(states: Sequence[State], table: str) -> None:
    """Refuse to tell changes of a table row by row across such a delete.

    Raises:
        UsageError: One of the states says one.
    """
    found = named_in(states, table)
    if found:
        raise UsageError(
            f"The changes of table {table!r} can't be told row by row: {found[0][0]}/"
            f"{states[0].database} has deleted rows of other writers' files, without writing these "
            "anew",
            key=table,
            hint="Read both points in time, and compare them; `lakelog diff` says where",
        )


def refuse_going_back(
    heads: Sequence[State],
    cut: Sequence[State],
    again: Mapping[str, Collection[str]],
    only: str | None,
) -> None:
    """Refuse to go back across such a delete, or where it would let rows come back.

    Args:
        heads: The newest states of all logs.
        cut: The states that are gone back to.
        again: By writer the tables of which files are added again.
        only: The only table; None: all.
    Raises:
        UsageError: Names the table.
    """
    tables = {table for state in (*heads, *cut) for table in state.deletes.tombstones}
    for table in sorted(tables if only is None else tables & {only}):
        now, then = named_in(heads, table), named_in(cut, table)
        told = {writer for writer, _ in now}
        if [each for each in now if each not in then] or [each for each in then if each not in now]:
            raise _refusal(heads, table, sorted(told | {writer for writer, _ in then})[0])
        added = {name for name, some in again.items() if table in some}
        ids = {s.log.log_id for s in heads if s.writer in added and s.log is not None}
        for writer, item in now:
            if any(at.log_id in ids for at in item.logs):
                raise _refusal(heads, table, writer)


def _refusal(heads: Sequence[State], table: str, writer: str) -> UsageError:
    return UsageError(
        f"Table {table!r} of {heads[0].database!r} can't be taken back: {writer} has deleted rows "
        "of other writers' files, and restore undoes what each writer did in its own files alone",
        key=table,
        hint="Nothing was committed. Take other tables back one by one, or write the rows of that "
        "point in time anew (`tx.overwrite`)",
    )
