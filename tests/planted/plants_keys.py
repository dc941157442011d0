"""Keys: an older row is read, a newer one is not, or rows without a key are taken for one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from planting import Together, plant

_KEYS = "tests/keys/test_keys.py"


@plant(f"{_KEYS}::test_files_that_are_skipped_count_all_the_same")
def files_that_are_skipped_do_not_take_part() -> Any:
    """Keys are resolved among the files that are asked for alone."""
    from lakelog.catalog.read import keys

    real = keys.KeyRanges.groups

    def groups(self: Any, wanted: np.ndarray) -> list[np.ndarray]:
        found = [each[wanted[each]] for each in real(self, wanted)]
        return [each for each in found if len(each)]

    return mock.patch.object(keys.KeyRanges, "groups", groups)


@plant(f"{_KEYS}::test_a_deleted_row_brings_no_older_one_back")
def a_deleted_row_brings_an_older_one_back() -> Any:
    """Deletes apply first, and keys are resolved among what is left."""
    from lakelog.catalog.data import key_rows
    from lakelog.catalog.data.hidden import Bitmaps
    from lakelog.catalog.data.scan import Projection, read_projected
    from lakelog.catalog.read import keys
    from lakelog.catalog.read.hidden import with_deletes
    from lakelog.catalog.read.scan_request import Asked

    real = keys.TableKeys._parts

    def parts(self: Any, places: np.ndarray) -> Any:
        found = real(self, places)
        for number, state in enumerate(self._tables.states):
            own = [at for at in found if self.ranges.logs[at] == number]
            files = self._tables.table_of(state, self._table)[0].table(self._table, whole=True)
            order = {path: row for row, path in enumerate(files.column("path").to_pylist())}
            rows = files.take([order[self.ranges.paths[at].as_py()] for at in own])
            asked = Asked(self._table, None, None, None)
            hidden = with_deletes(self._tables, state, asked, rows, [found[at] for at in own])
            found |= dict(zip(own, hidden, strict=True))
        return found

    def batches(store: Any, part: Any, target: pa.Schema) -> Any:
        return read_projected(store, part, Projection(target), Bitmaps(store), whole=True)

    return Together(
        mock.patch.object(keys.TableKeys, "_parts", parts),
        mock.patch.object(key_rows, "_batches", batches),
    )


@plant(f"{_KEYS}::test_a_deleted_row_brings_no_older_one_back")
def a_delete_lets_files_go_as_a_whole() -> Any:
    """A file of which every row goes is removed, and older rows of its keys are read."""
    from lakelog.catalog.commit import deleting

    return mock.patch.object(deleting.Deleting, "_files_stay", return_value=False)


@plant(f"{_KEYS}::test_a_delete_in_a_log_that_knows_of_no_key_leaves_files")
def a_delete_looks_into_its_own_log_alone() -> Any:
    """Another log gives the table its key."""
    from lakelog.catalog.commit import deleting

    return mock.patch.object(deleting, "others_give_key", return_value=False)


@plant(f"{_KEYS}::test_the_newest_clock_counts_then_the_revision_then_the_writer_then_the_row")
def clocks_do_not_count() -> Any:
    """The greatest revision decides."""
    from lakelog.catalog.log import files

    real = files.Files.table

    def table(self: Any, name: str, **options: Any) -> pa.Table:
        found = real(self, name, **options)
        at = found.schema.get_field_index("last_clock")
        same = pa.array([0] * found.num_rows, pa.int64())
        return found if at < 0 else found.set_column(at, "last_clock", [same])

    return mock.patch.object(files.Files, "table", table)


@plant(f"{_KEYS}::test_rows_without_a_key_are_all_read")
def nulls_are_a_key() -> Any:
    """Of rows with null in the key one is read."""
    from lakelog.catalog.data import key_rows

    def kept(rows: pa.Table, within: Any) -> np.ndarray:
        return np.ones(rows.num_rows, np.bool_)

    return mock.patch.object(key_rows, "_kept", kept)


@plant(f"{_KEYS}::test_a_file_that_may_hold_a_key_twice_is_looked_into")
def every_file_is_taken_to_hold_each_key_once() -> Any:
    """Marks are not looked at."""
    from lakelog.catalog.read import keys

    return mock.patch.object(keys, "_holds_once", return_value=True)


@plant(f"{_KEYS}::test_a_mark_means_nothing_for_another_key")
def a_mark_counts_whatever_the_key() -> Any:
    """A file that holds one key once is taken to hold any other so."""
    from lakelog.catalog.format.schema import once_columns
    from lakelog.catalog.read import keys

    def holds_once(shown: Any, target: pa.Schema) -> bool:
        return bool(once_columns(shown.own))

    return mock.patch.object(keys, "_holds_once", holds_once)


@plant(f"{_KEYS}::test_rows_are_found_in_whatever_passes")
def a_range_begins_behind_its_first_value() -> Any:
    """Of very many rows those between two passes are in none."""
    from lakelog.catalog.data import key_rows

    return mock.patch.object(key_rows.pc, "greater_equal", key_rows.pc.greater)


@plant("tests/keys/test_upsert.py::test_on_a_table_with_the_key_it_is_newer_than_all_of_this_log")
def an_upsert_goes_by_the_wall_clock() -> Any:
    """Rows that were written with a later clock stay."""
    from lakelog.catalog.commit import upserting

    def newer(self: Any, table: str) -> tuple[int, int]:
        return self._session.clock()

    return mock.patch.object(upserting.Upserting, "_newer", newer)
