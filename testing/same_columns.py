"""Columns by numbers, and which are the same ones again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class Column(NamedTuple):
    """A column: its number, and its value in files that lack it."""

    number: int
    default: int | None = None


def same_columns(
    columns: dict[str, Column], said: Iterable[dict[str, Column]], used: Collection[int]
) -> dict[str, Column]:
    """The columns of a table, with the numbers that they had when the log said the same bytes of
    them: one that no file ever had, and that a restore took back, is the same when it comes again.

    Args:
        said: The columns whenever that was.
        used: Numbers of columns that files had.
    """
    for before in said:
        gone = {column.number for column in before.values()}
        gone -= {column.number for column in columns.values()}
        if before.keys() == columns.keys() and gone.isdisjoint(used):
            return before
    return columns
