"""Columns that are the same ones again, though each commit that adds one has a number of its own.
Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .shown_rows import Shown


def renumbered(after: Shown, known: Sequence[Shown]) -> Shown:
    """A table with the numbers that its columns had when the log said the same bytes of them: one
    that no file ever had, and that a restore took back, is the same one when it comes again.

    Args:
        known: The table at all revisions before.
    """
    used = {
        number
        for one in known
        for file in one.files.values()
        for row in file.rows
        for number in row
    }
    for one in known:
        if not after.definition or one.definition != after.definition:
            continue
        gone = {column.number for column in one.columns.values()}
        gone -= {column.number for column in after.columns.values()}
        if one.columns.keys() == after.columns.keys() and used.isdisjoint(gone):
            return replace(after, columns=one.columns)
    return after
