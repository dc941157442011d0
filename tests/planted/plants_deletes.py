"""Deletes: rows that come back, rows that go without reason, and bitmaps that gc takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from planting import plant


@plant("tests/gc/test_gc_deletes.py")
def gc_knows_no_objects_of_deletes() -> Any:
    """Gc takes bitmaps that a retained checkpoint needs."""
    from lakelog.catalog.log.deletes import Deletes

    return mock.patch.object(Deletes, "objects", return_value=[])


@plant("tests/gc/test_gc_deletes.py::test_an_object_proves_that_the_log_was_longer")
def objects_of_deletes_prove_nothing() -> Any:
    """A log that lost its end loses its bitmaps to gc as well."""
    from lakelog.catalog.format import deletes
    from lakelog.errors import CorruptObject

    refused = CorruptObject("planted", key="")
    return mock.patch.object(deletes, "decode_deletes", side_effect=refused)


@plant("tests/catalog/test_deletes.py")
def a_tombstone_holds_of_its_own_files() -> Any:
    """What is written with a delete, or after it, goes too."""
    from dataclasses import replace

    from lakelog.catalog.log.deletes import Deletes

    real = Deletes.of_table

    def later(self: Any, table: str) -> Any:
        return [replace(each, revision=each.revision + 5) for each in real(self, table)]

    return mock.patch.object(Deletes, "of_table", later)


@plant("tests/catalog/test_deletes.py::test_two_who_delete_rows_of_one_file_lose_nothing")
def the_newest_bitmap_is_all() -> Any:
    """Of two that don't know of each other the first one's rows come back."""
    from lakelog.catalog.log.deletes import Deletes

    real = Deletes.rows_of

    def last(self: Any, table: str) -> Any:
        return {path: found[-1:] for path, found in real(self, table).items()}

    return mock.patch.object(Deletes, "rows_of", last)


@plant("tests/catalog/test_deletes.py::test_row_numbers_hold_under_row_groups_that_are_skipped")
def rows_are_counted_from_what_is_read() -> Any:
    """Row numbers are taken for places among the rows that are read."""
    from lakelog.catalog.data import scan

    def counted(counts: Any, wanted: Any) -> Any:
        del wanted
        return [(0, sum(counts))]

    return mock.patch.object(scan, "row_places", counted)


@plant("tests/catalog/test_deletes.py")
def null_is_deleted() -> Any:
    """Rows for which a predicate is null go."""
    from lakelog.catalog.read.hidden import TombstoneFilter
    from lakelog.catalog.where import emit

    real, mask = TombstoneFilter.true_of, emit.mask

    def planted(self: Any, *args: Any) -> Any:
        with mock.patch.object(emit, "mask", lambda *given: mask(*given).fill_null(True)):
            return real(self, *args)

    return mock.patch.object(TombstoneFilter, "true_of", planted)


@plant("tests/catalog/test_deletes.py")
def a_file_is_removed_for_what_some_rows_say() -> Any:
    """A file goes as a whole although rows of it may be null, or false."""
    from lakelog.catalog.read import delete_plan

    def planted(*args: Any) -> Any:
        whole, touched = real(*args)
        return (*whole, *touched), ()

    real = delete_plan.judged
    return mock.patch.object(delete_plan, "judged", planted)


@plant("tests/catalog/test_deletes.py")
def removed_files_keep_their_deletes() -> Any:
    """A file that is added again lacks rows."""
    from lakelog.catalog.log.deletes import Deletes

    return mock.patch.object(Deletes, "_end", return_value=None)


@plant("tests/catalog/test_deletes.py")
def checkpoints_forget_deletes() -> Any:
    """Deleted rows come back with the next checkpoint."""
    from lakelog.catalog.log import checkpoint

    return mock.patch.object(checkpoint, "write_deletes", return_value=[])


@plant("tests/catalog/test_deletes.py")
def names_alone_tell_tombstones_of_columns() -> Any:
    """A column that was dropped is taken for the one that has its name now."""
    from lakelog.catalog.read import hidden

    real = hidden.shown

    def by_name(own: Any, definition: Any) -> Any:
        found = real(own, definition)
        there = {name: name for name in found.schema.names if name in own.names}
        return replace(found, stored={**found.stored, **there})

    return mock.patch.object(hidden, "shown", by_name)


@plant("tests/catalog/test_deletes.py")
def counts_are_those_of_files() -> Any:
    """How many rows there are is told with those that were deleted."""
    from lakelog.catalog import snapshot

    return mock.patch.object(snapshot, "any", return_value=False, create=True)


@plant("tests/spark/test_spark_deletes.py", in_children=False)
def spark_reads_files_as_they_are() -> Any:
    """Spark's own reader reads files of which rows were deleted."""
    from lakelog.catalog.snapshot import Snapshot

    real = Snapshot.file_parts

    def parts(self: Any, *args: Any, **options: Any) -> Any:
        from dataclasses import replace

        return [replace(part, hidden=None) for part in real(self, *args, **options)]

    return mock.patch.object(Snapshot, "file_parts", parts)


@plant("tests/engines/test_bare_deletes.py::test_of_some_files_and_at_every_point_in_time")
def duckdb_reads_files_as_they_are() -> Any:
    """DuckDB's own reader reads files of which rows were deleted."""
    from dataclasses import replace

    from lakelog.catalog import snapshot

    real = snapshot.bare_files

    def bare(*args: Any) -> Any:
        *first, parts = args
        return real(*first, lambda: [replace(part, hidden=None) for part in parts()])

    return mock.patch.object(snapshot, "bare_files", bare)
