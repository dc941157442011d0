"""What the operations of a transaction tell whoever asked for them.

Source: docs/changing.md, "Operations".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete does once it is committed.

    Attributes:
        files_removed: Files of which every row meets the predicate.
        files_touched: Files that are left and of which rows are hidden; by a tombstone, those of
            which rows may be.
        tombstones: How many were written: 0 or 1.
        rows: How many rows are hidden that no other delete hid; None where they were not counted.
            Of a table with a key some of them may not have been read before: newer ones of their
            keys were.
    """

    files_removed: int
    files_touched: int
    tombstones: int
    rows: int | None


class RowDelta(NamedTuple):
    """What a row delta does once it is committed.

    Attributes:
        deleted: As `delete` says it.
        paths: Of the files that hold the new data.
    """

    deleted: Deleted
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Replaced:
    """What an overwrite or a rewrite did.

    Attributes:
        paths: Of the files that hold the new data.
        rewritten: Of those that hold rows of files which were taken out, as they were.
        removed: Of the files that were taken out.
        rows_added: How many rows came.
        rows_removed: How many went; of a rewrite none.
        rows_rewritten: How many were written anew.
    """

    paths: list[str]
    rewritten: list[str]
    removed: list[str]
    rows_added: int
    rows_removed: int
    rows_rewritten: int


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update does once it is committed.

    Attributes:
        rows: How many rows get other values.
        files_removed: Files of which all rows do.
        files_touched: Files that are left and of which rows are replaced.
        paths: Of the new files.
    """

    rows: int
    files_removed: int
    files_touched: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upserted:
    """What an upsert does once it is committed.

    Attributes:
        rows: How many rows were written: those of the data whose key doesn't come again in it.
        replaced: How many rows they take the place of, in this writer's files; None where the table
            has the key: readers see to it, and nothing was counted.
        files_removed: Files of which no row is left.
        files_touched: Files that are left and of which rows are hidden.
        paths: Of the new files.
    """

    rows: int
    replaced: int | None
    files_removed: int
    files_touched: int
    paths: tuple[str, ...]
