"""Going back across deletes, columns and keys, and their changes row by row; and what a log that
was rebuilt loses again: each of these loses rows, or shows others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
from planting import plant

RESTORE = "tests/changing/test_restore_rows.py"
ORDER = "tests/changing/test_restored_order.py"
CHANGES = "tests/changing/test_row_changes.py"
COLUMNS = "tests/evolution/test_taken_back.py"


@plant(RESTORE + "::test_deleted_rows_come_back_and_go_again")
def restored_rows_stay_deleted() -> Any:
    """Files of which rows come back are not added again."""
    from lakelog.catalog.commit.change_plan import WriterChange

    return mock.patch.object(WriterChange, "coming_or_going", WriterChange.of)


@plant(RESTORE + "::test_the_rows_deleted_then_stay_deleted_while_others_come_back")
def restored_files_lose_the_deletes_of_then() -> Any:
    """All rows of a file come back, those too that were deleted at the point gone back to."""
    from lakelog.catalog.commit.execute_change import Execution

    return mock.patch.object(Execution, "_delete_rows", return_value=None)


@plant(RESTORE + "::test_files_that_come_back_have_the_rows_that_they_had")
def deletes_of_files_that_are_not_live_are_forgotten() -> Any:
    """Only files that stay have their deletes of then."""
    from lakelog.catalog.commit import restored_rows

    real = restored_rows._differing

    def fewer(*args: Any) -> Any:
        return [file for file in real(*args) if file.is_live]

    return mock.patch.object(restored_rows, "_differing", fewer)


@plant(RESTORE + "::test_every_definition_comes_back_and_none_of_another_column")
def restored_columns_stay_as_they_are() -> Any:
    """The columns of now stay, with the files of then."""
    from lakelog.catalog.commit import plan_change

    return mock.patch.object(plan_change, "restored_columns", return_value=[])


@plant(
    "tests/evolution/test_column_ids.py"
    "::test_a_table_that_was_dropped_gives_no_id_twice_and_comes_back_as_it_was"
)
def restored_columns_forget_later_ids() -> Any:
    """Columns that come back forget the ids that were given since: they are given twice."""
    from lakelog.catalog.commit import restored_columns

    real = restored_columns.ids_in

    def forgetful(state: Any, table: str, defined: Any) -> Any:
        found = real(state, table, defined)
        return replace(found, last=0 if defined is None else len(defined.schema))

    return mock.patch.object(restored_columns, "ids_in", forgetful)


@plant(COLUMNS + "::test_a_free_column_whose_name_began_anew_takes_data_again")
def restore_drops_the_name_of_a_free_column() -> Any:
    """A column that nobody declared isn't declared when a later one of its name is dropped."""
    from lakelog.catalog.commit import restored_columns

    real = restored_columns.FileSchema

    def first_alone(schema: Any, writer: str) -> Any:
        return real(pa.schema([schema.field(0)]), writer)

    return mock.patch.object(restored_columns, "FileSchema", first_alone)


@plant(RESTORE + "::test_two_keys_for_one_table_are_refused")
def restore_gives_a_table_two_keys() -> Any:
    """Nobody looks at the keys of the other logs."""
    from lakelog.catalog.commit import restored_columns

    return mock.patch.object(restored_columns, "refuse_two_keys", return_value=None)


@plant(ORDER + "::test_the_newest_row_of_each_key_is_the_one_that_it_was")
def restore_turns_the_order_of_one_clock() -> Any:
    """An older row is the newest of its key, as its file was added again."""
    from lakelog.catalog.log import merge

    real = merge.at_revisions

    def forgetful(files: Any, revisions: Any, original: Any) -> Any:
        return real(files, revisions, pa.nulls(len(revisions), pa.int64()))

    return mock.patch.object(merge, "at_revisions", forgetful)


@plant(ORDER + "::test_deletes_go_by_the_commit_that_added_a_file_last")
def deletes_go_by_the_commit_that_first_added_a_file() -> Any:
    """A file that comes back loses the rows that were deleted while it was away."""
    from lakelog.catalog.format.run import original_revisions
    from lakelog.catalog.read import hidden

    real = hidden.held_by

    def by_first(tombstone: Any, rows: Any) -> Any:
        place = rows.schema.get_field_index("revision")
        return real(tombstone, rows.set_column(place, "revision", original_revisions(rows)))

    return mock.patch.object(hidden, "held_by", by_first)


@plant(ORDER + "::test_a_file_of_somebody_else_has_the_clock_and_place_that_it_had")
def restore_leaves_files_that_were_added_anew() -> Any:
    """A file that is live then and now stays as it is, though it went between."""
    from lakelog.catalog.log import compared

    def same(files: Any) -> Any:
        return pa.chunked_array([pa.array([0] * files.num_rows, pa.int64())])

    return mock.patch.object(compared, "original_revisions", same)


@plant(RESTORE + "::test_rows_that_came_back_are_not_written_away")
def rewrites_take_rows_that_came_back() -> Any:
    """Who read a file while rows of it were deleted replaces it though they are back."""
    from lakelog.catalog.log import conflicts

    return mock.patch.object(conflicts, "_refuse_again", return_value=None)


@plant(CHANGES + "::test_deleted_rows_with_their_commits")
def changes_forget_tombstones() -> Any:
    """Rows that a predicate deleted are no changes."""
    from lakelog.catalog.log.changelog import Touched

    return mock.patch.object(Touched, "_met", return_value=())


@plant(CHANGES + "::test_a_file_with_deleted_rows_comes_and_goes_without_them")
def changes_show_rows_deleted_before() -> Any:
    """A file that goes takes rows with it that were deleted long before."""
    from lakelog.catalog.read.commits_between import Known

    return mock.patch.object(Known, "_views", return_value={})


@plant(CHANGES + "::test_rows_that_a_restore_gives_back_in_a_file_that_stays")
def changes_do_not_cancel_row_by_row() -> Any:
    """Rows that went and came back are told twice."""
    from lakelog.catalog.read.commits_between import _StepRows

    real = _StepRows._resolved

    def apart(self: Any, part: Any, steps: Any) -> Any:
        return [real(self, part, [pair])[0] for pair in steps]

    return mock.patch.object(_StepRows, "_resolved", apart)


@plant(CHANGES + "::test_newer_rows_take_the_place_of_older_ones")
def changes_do_not_resolve_keys() -> Any:
    """Rows of a table with a key come and go with their files alone."""
    from lakelog.catalog.read import changes

    return mock.patch.object(changes, "has_key", return_value=False)


@plant(CHANGES + "::test_files_that_were_rewritten_before_there_was_a_key")
def changes_believe_rewrites_whatever_the_key() -> Any:
    """What a rewrite changes of which rows are newest, by the key of another log, isn't told."""
    from lakelog.catalog.read import changes

    real = changes._key

    def key(cut: Any, table: str) -> tuple[str, ...] | None:
        return None if real(cut, table) is None else ()

    return mock.patch.object(changes, "_key", key)


@plant(CHANGES + "::test_a_column_of_the_key_that_is_renamed_in_all_logs")
def changes_stop_where_logs_call_the_key_otherwise() -> Any:
    """Each commit is told by itself, whatever the logs call the key by then."""
    from lakelog.catalog.read import changes

    real = changes._key

    def key(cut: Any, table: str) -> tuple[str, ...]:
        found = real(cut, table)
        return ("otherwise",) if found is None else found

    return mock.patch.object(changes, "_key", key)
