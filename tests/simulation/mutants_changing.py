"""Planted bugs in what changes rows and columns, for the simulator to catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

from lakelog.catalog.commit import execute_change, plan_change
from lakelog.catalog.commit.change_plan import DELETE_CHANGES
from lakelog.catalog.commit.execute_change import Execution
from lakelog.catalog.commit.restored_rows import RestoredRows
from lakelog.catalog.format.columns import empty_table
from lakelog.catalog.format.definitions import encode_definition
from lakelog.catalog.format.segments import TOMBSTONES_COLUMNS
from lakelog.catalog.log import checkpoint, definitions
from lakelog.catalog.log.deletes import _GONE, Deletes, Tombstone
from lakelog.catalog.read import delete_plan, hidden
from lakelog.rebuild import execute
from lakelog.testing.logs import numbered


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


def tombstones_hold_of_later_files() -> Any:
    """A tombstone hides rows that came after it."""
    real = hidden._by_path

    def by_path(tombstones: Any, rows: Any, facts: Any) -> Any:
        return real([replace(one, revision=1 << 40) for one in tombstones], rows, facts)

    return mock.patch.object(hidden, "_by_path", by_path)


def tombstones_hold_of_their_own_files() -> Any:
    """A tombstone hides rows that came with it."""
    real = hidden._by_path

    def by_path(tombstones: Any, rows: Any, facts: Any) -> Any:
        return real([replace(one, revision=one.revision + 1) for one in tombstones], rows, facts)

    return mock.patch.object(hidden, "_by_path", by_path)


def tombstones_know_no_old_names() -> Any:
    """A tombstone takes its columns for the first ones of the table."""

    def tombstone(_: Any, table: str, where: str, target: Any) -> Tombstone:
        columns = encode_definition(table, numbered(target), {}, len(target))
        return Tombstone(table, where, columns.SerializeToString(deterministic=True), 0, 0)

    return mock.patch.object(delete_plan, "_tombstone", tombstone)


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
    return _encoded_without("_write_definitions")


def rebuild_drops_deletes() -> Any:
    """A rebuild leaves out the deletes of the old log."""
    return _encoded_without("write_deletes")


def _encoded_without(part: str) -> Any:
    real = execute.encode_state

    def encode(state: Any) -> Any:
        with mock.patch.object(checkpoint, part, return_value=[]):
            return real(state)

    return mock.patch.object(execute, "encode_state", encode)


def restore_leaves_deletes() -> Any:
    """A restore leaves what was deleted since as it is."""
    none = RestoredRows(DELETE_CHANGES.empty_table(), [])
    return mock.patch.object(plan_change, "restored_rows", return_value=none)


def restore_forgets_a_file() -> Any:
    """A restore brings one file less back, in a log that is rebuilt and loses objects."""
    real = execute_change.rows_again

    def rows_again(state: Any, files: Any, wanted: Any) -> Any:
        return real(state, files, {table: paths[1:] for table, paths in wanted.items()})

    return mock.patch.object(execute_change, "rows_again", rows_again)


def restore_deletes_nothing() -> Any:
    """A restore brings back rows that were deleted at its point in time too."""
    return mock.patch.object(Execution, "_delete_rows", return_value=None)


def restore_leaves_columns() -> Any:
    """A restore leaves columns and keys as they are."""
    return mock.patch.object(plan_change, "restored_columns", return_value=[])


CHANGED_UPHEAVALS: dict[str, Callable[[], Any]] = {
    function.__name__: function
    for function in (
        rebuild_drops_definitions,
        rebuild_drops_deletes,
        restore_forgets_a_file,
    )
}
CHANGES: dict[str, Callable[[], Any]] = {
    function.__name__: function
    for function in (
        a_file_comes_with_its_old_bitmaps,
        checkpoint_loses_tombstones,
        checkpoint_loses_bitmaps,
        checkpoint_loses_definitions,
        tombstones_hold_of_later_files,
        tombstones_hold_of_their_own_files,
        tombstones_know_no_old_names,
        dropped_definitions,
        restore_leaves_deletes,
        restore_deletes_nothing,
        restore_leaves_columns,
    )
}
