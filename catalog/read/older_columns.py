"""Columns that some logs show in older generations than others: they are not read, which is told.

Source: docs/format.md, section 5.3; docs/changing.md, "Schemas".
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ...errors import some_names
from ..format.schema import generation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..data.unify import FileSchema


class OlderColumnsWarning(UserWarning):
    """Columns of some logs are not read: in others they were dropped and came anew."""


def older_columns(schemas: Iterable[FileSchema]) -> dict[str, tuple[list[str], list[str]]]:
    """Columns that the files of some writers show in older generations only than those of others.

    Args:
        schemas: Of all files that are read.
    Returns:
        By column the writers whose files show its newest generation, and those whose do not.
    """
    newest: dict[str, dict[str, int]] = {}
    for item in schemas:
        for field in item.schema:
            of = newest.setdefault(field.name, {})
            of[item.writer] = max(of.get(item.writer, 0), generation(field))
    found = {}
    for name, of in newest.items():
        last = max(of.values())
        older = sorted(writer for writer, number in of.items() if number < last)
        if older:
            found[name] = (sorted(of.keys() - set(older)), older)
    return found


def tell_older_columns(schemas: Iterable[FileSchema], table: str) -> None:
    """Warn of each such column.

    Warns:
        OlderColumnsWarning: Which, whose, and what to do.
    """
    for name, (newer, older) in older_columns(schemas).items():
        warnings.warn(
            f"Column {name!r} of table {table!r} is a newer one in the log of {some_names(newer)} "
            f"(it was dropped and came anew) than that of files of {some_names(older)}, which is "
            "not read. To read that one, too, rename it where it is: "
            f"catalog.evolve(..., {table!r}, writers={older!r}, rename={{{name!r}: ...}})",
            OlderColumnsWarning,
            stacklevel=4,
        )
