"""Planted bugs in what changes rows and columns, for the simulator to catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

from lakelog.catalog.commit import deleting
from lakelog.catalog.format.columns import empty_table
from lakelog.catalog.format.definitions import encode_definition
from lakelog.catalog.format.segments import TOMBSTONES_COLUMNS
from lakelog.catalog.log import admission, checkpoint, conflicts, definitions, validate
from lakelog.catalog.log.deletes import _GONE, Deletes, Tombstone
from lakelog.catalog.read import delete_plan, hidden
from lakelog.rebuild import carried, carried_deletes
from lakelog.rebuild import rebuild as rebuilding


def gc_knows_no_bitmaps() -> Any:
    """gc takes objects of row deletes that a retained checkpoint needs."""
    return mock.patch.object(Deletes, "objects", return_value=[])


def a_file_comes_with_its_old_bitmaps() -> Any:
    """Row deletes stay when their file is removed."""
    real = Deletes._end

    def end(self: Deletes, file: Any, below: int) -> None:
        if below < _GONE:
            real(self, file, below)

    return mock.patch.object(Deletes, "_end", end)


def checkpoint_loses_tombstones() -> Any:
    """A checkpoint leaves out tombstones."""
    return mock.patch.object(
        Deletes, "tombstone_rows", return_value=empty_table(TOMBSTONES_COLUMNS)
    )


def checkpoint_loses_bitmaps() -> Any:
    """A checkpoint leaves out the row deletes of the one before."""
    real = Deletes.row_rows

    def rows(self: Deletes) -> Any:
        return real(replace(self, based=[], _rows={}))

    return mock.patch.object(Deletes, "row_rows", rows)


def checkpoint_loses_definitions() -> Any:
    """A checkpoint leaves out what the columns of tables are."""
    return mock.patch.object(checkpoint, "_write_definitions", return_value=None)


def the_newest_bitmap_is_all() -> Any:
    """Of two who delete rows of one file at a time the first one's rows come back."""
    real = Deletes._apply_rows

    def apply(self: Deletes, item: Any, revision: int, number: int) -> None:
        self._end((item.table, item.path), revision)
        real(self, item, revision, number)

    return mock.patch.object(Deletes, "_apply_rows", apply)


def tombstones_hold_of_later_files() -> Any:
    """A tombstone hides rows that came after it."""
    real = hidden._by_path

    def by_path(holding: Any, rows: Any, facts: Any) -> Any:
        return real([one._replace(below=1 << 40) for one in holding], rows, facts)

    return mock.patch.object(hidden, "_by_path", by_path)


def tombstones_hold_of_their_own_files() -> Any:
    """A tombstone hides rows that came with it."""
    real = hidden._by_path

    def by_path(holding: Any, rows: Any, facts: Any) -> Any:
        return real([one._replace(below=one.below + 1) for one in holding], rows, facts)

    return mock.patch.object(hidden, "_by_path", by_path)


def tombstones_know_no_old_names() -> Any:
    """A tombstone looks for its columns by the names that they have on its day."""

    def tombstone(_: Any, table: str, where: str, target: Any) -> Tombstone:
        sources = {field.name: ((field.name, 0),) for field in target}
        columns = encode_definition(table, target, sources, {}, ())
        return Tombstone(table, where, columns.SerializeToString(deterministic=True), 0, 0)

    return mock.patch.object(delete_plan, "_tombstone", tombstone)


def deleted_rows_come_back() -> Any:
    """Files are written anew with rows that were deleted since they were read."""
    return mock.patch.object(conflicts, "_hold_deletes", return_value=None)


def columns_change_unseen() -> Any:
    """Files are committed for columns that another commit has changed."""
    return mock.patch.object(admission, "refuse_changed_columns", return_value=None)


def rows_of_gone_files_are_deleted() -> Any:
    """Row deletes are committed of a file that was removed meanwhile."""
    return mock.patch.object(validate, "_check_row_deletes", return_value=None)


def deletes_look_at_what_they_know() -> Any:
    """A delete by number speaks for what others deleted of its file since it looked."""
    real = deleting.Rows.__init__

    def init(self: Any, *args: Any, revision: int, **rest: Any) -> None:
        real(self, *args, revision=revision + 3, **rest)

    return mock.patch.object(deleting.Rows, "__init__", init)


def dropped_definitions() -> Any:
    """What a transaction says of columns holds until the next one says anything."""
    real = definitions.Definitions.apply

    def apply(self: Any, transaction: Any) -> None:
        if transaction.message.actions:
            self.entries.clear()
        real(self, transaction)

    return mock.patch.object(definitions.Definitions, "apply", apply)


def rebuild_drops_definitions() -> Any:
    """A rebuild leaves out what the columns of tables are."""
    return mock.patch.object(carried, "_definition_chunks", return_value=[])


def rebuild_drops_deletes() -> Any:
    """A rebuild leaves out the deletes of the old log."""
    return mock.patch.object(rebuilding, "carry_deletes", return_value=None)


def rebuilt_tombstones_hold_of_all() -> Any:
    """A rebuild says of all files what a tombstone said of older ones."""
    real = carried_deletes._revisions

    def revisions(known: Any, table: str) -> Any:
        return dict.fromkeys(real(known, table), -1)

    return mock.patch.object(carried_deletes, "_revisions", revisions)


CHANGED_UPHEAVALS: dict[str, Callable[[], Any]] = {
    function.__name__: function
    for function in (
        rebuild_drops_definitions,
        rebuild_drops_deletes,
        rebuilt_tombstones_hold_of_all,
    )
}
CHANGES: dict[str, Callable[[], Any]] = {
    function.__name__: function
    for function in (
        gc_knows_no_bitmaps,
        a_file_comes_with_its_old_bitmaps,
        checkpoint_loses_tombstones,
        checkpoint_loses_bitmaps,
        checkpoint_loses_definitions,
        the_newest_bitmap_is_all,
        tombstones_hold_of_later_files,
        tombstones_hold_of_their_own_files,
        tombstones_know_no_old_names,
        deleted_rows_come_back,
        columns_change_unseen,
        rows_of_gone_files_are_deleted,
        deletes_look_at_what_they_know,
        dropped_definitions,
    )
}
