"""Deletes in the files of all writers: rows that come back, and rows that go without reason."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant

TESTS = "tests/others/test_delete_of_cut.py"
LOGS = "tests/others/test_delete_and_logs.py"
BACK = "tests/others/test_going_back_across.py"
TOLD = "tests/others/test_changes_across.py"


@plant(f"{TESTS}::test_it_holds_of_all_files_of_the_cut_and_of_none_that_come_later")
def a_delete_of_a_cut_holds_of_later_files() -> Any:
    """What other writers commit after the cut goes too."""
    from lakelog.catalog.read import scopes

    return mock.patch.object(scopes, "_last_of", lambda state, *_: state.revision)


@plant(
    f"{LOGS}::test_a_log_that_was_set_back_to_a_copy_loses_nothing_that_came_since "
    f"{LOGS}::test_a_log_that_was_rebuilt_is_known_again"
)
def logs_are_known_by_the_numbers_of_their_revisions() -> Any:
    """A log that was rebuilt, or set back to a copy, has others of these numbers."""
    from lakelog.catalog.read import scopes

    return mock.patch.object(scopes, "_last_of", lambda state, item, at: at.revision)


@plant(f"{LOGS}::test_a_new_log_of_the_same_name_is_another")
def logs_are_known_by_their_names() -> Any:
    """Another log under the name of one that is gone loses rows."""
    from lakelog.catalog.read.scopes import Holding, Scopes

    real = Scopes.of

    def by_name(self: Any, state: Any, table: str) -> Any:
        found = {
            item
            for other in self.states
            for item in other.deletes.of_table(table)
            if any(at.writer == state.writer for at in item.logs)
        }
        return [*real(self, state, table), *(Holding(item, 1) for item in found)]

    return mock.patch.object(Scopes, "of", by_name)


@plant(f"{TESTS}::test_it_holds_of_all_files_of_the_cut_and_of_none_that_come_later")
def readers_look_at_the_deletes_of_each_log_alone() -> Any:
    """Rows that another writer deleted are read."""
    from lakelog.catalog.read.scopes import Scopes

    return mock.patch.object(Scopes, "_naming", return_value={})


@plant(f"{TESTS}::test_it_is_kept_without_a_file_of_its_own")
def checkpoints_keep_only_deletes_of_files_of_their_own_log() -> Any:
    """Rows of other logs' files come back with a checkpoint."""
    from lakelog.catalog.log import checkpoint_deletes

    def planted(state: Any, found: Any) -> None:
        for table in list(found.tombstones):
            if not state.files.table(table).num_rows:
                del found.tombstones[table]

    return mock.patch.object(checkpoint_deletes, "_drop_spent", planted)


@plant(f"{TESTS}::test_it_is_kept_without_a_file_of_its_own")
def who_drops_a_table_takes_back_what_it_deleted_of_others() -> Any:
    """Rows of other logs' files come back when the table is forgotten."""
    from lakelog.catalog.log.deletes import Deletes

    return mock.patch.object(Deletes, "_forget", lambda self, table: self.tombstones.pop(table, 0))


@plant(f"{TESTS}::test_rows_that_are_written_anew_are_those_that_are_left")
def what_is_written_anew_knows_nothing_of_others() -> Any:
    """Rows that another writer deleted come back with new files."""
    from lakelog.catalog.commit.other_logs import OtherLogs

    return mock.patch.object(OtherLogs, "states", property(lambda self: []))


@plant(f"{TESTS}::test_a_delete_while_rows_are_written_anew_is_a_conflict")
def nobody_looks_again_before_rows_are_committed_anew() -> Any:
    """Rows that another writer deletes meanwhile come back."""
    from lakelog.catalog.commit.other_logs import OtherLogs

    return mock.patch.object(OtherLogs, "refuse_deleted", return_value=None)


@plant(f"{TESTS}::test_each_log_calls_a_column_as_it_does")
def columns_have_one_name_in_all_logs() -> Any:
    """A predicate looks for columns by the names that the cut has, whatever logs call them."""
    from lakelog.catalog.format.definitions import encode_definition
    from lakelog.catalog.read import delete_of_cut
    from lakelog.testing.logs import numbered

    def planted(tables: Any, state: Any, table: str, target: Any) -> bytes:
        columns = numbered(target)
        return encode_definition(table, columns, {}, len(columns)).SerializeToString()

    return mock.patch.object(delete_of_cut, "_columns", planted)


@plant(f"{LOGS}::test_the_history_of_a_rebuilt_log_is_kept_for_it")
def the_history_of_a_rebuilt_log_is_trimmed() -> Any:
    """Nobody can tell any more of which of its files a delete holds."""
    from dataclasses import replace

    from lakelog.catalog.log import checkpoint

    real = checkpoint._write_history

    def planted(state: Any, sink: Any, retained_from: int) -> None:
        probe = state.copy()
        probe.log = replace(state.log, incarnation=1)
        real(probe, sink, retained_from)

    return mock.patch.object(checkpoint, "_write_history", planted)


@plant(
    f"{BACK}::test_rows_that_others_deleted_come_back_and_go_again "
    f"{BACK}::test_files_do_not_come_back_with_rows_that_others_deleted"
)
def a_restore_knows_nothing_of_others() -> Any:
    """Files come back with rows that another writer deleted, or without those that come back."""
    from lakelog.catalog.commit import restored_rows
    from lakelog.catalog.read.scopes import Scopes

    real = restored_rows.hidden_files

    def alone(scopes: Any, state: Any, table: str) -> Any:
        return real(Scopes([state]), state, table)

    return mock.patch.object(restored_rows, "hidden_files", alone)


@plant(f"{TESTS}::test_files_that_were_replaced_since_the_cut_are_told")
def nobody_looks_whether_files_of_a_cut_were_replaced() -> Any:
    """A delete holds of none of the rows that it was to delete, and says nothing."""
    from lakelog.catalog.commit import deleting

    return mock.patch.object(deleting, "refuse_replaced", return_value=None)


@plant(f"{BACK}::test_a_delete_by_others_since_the_plan_stops_it")
def a_restore_overruns_the_deletes_of_others() -> Any:
    """What another writer deletes between the plan and the commit is read again."""
    from lakelog.catalog.commit.other_logs import OtherLogs

    return mock.patch.object(OtherLogs, "refuse_outdated", return_value=None)


@plant(f"{BACK}::test_who_stays_as_he_is_keeps_what_he_has_deleted")
def one_who_is_taken_back_gets_rows_that_others_deleted() -> Any:
    """The deletes of writers that stay as they are end with a restore of another one."""
    from lakelog.catalog.changing import Changing

    real = Changing.restore

    def planted(self: Any, *args: Any, **how: Any) -> Any:
        from lakelog.catalog.commit import restored_rows

        cuts = restored_rows.Cuts
        with mock.patch.object(
            restored_rows, "Cuts", lambda now, then: cuts(now, type(then)(then.states[:1]))
        ):
            return real(self, *args, **how)

    return mock.patch.object(Changing, "restore", planted)


@plant(f"{TOLD}::test_rows_that_others_deleted_are_told_with_their_commit")
def changes_know_nothing_of_others() -> Any:
    """Rows that another writer deleted are no changes."""
    from lakelog.catalog.read.commits_between import Known

    return mock.patch.object(Known, "told", return_value=[])


@plant(f"{TOLD}::test_files_that_came_under_a_delete_come_without_its_rows")
def changes_show_what_others_deleted_before_it_came() -> Any:
    """A file that a delete names came after the first cut: all of its rows are told."""
    from lakelog.catalog.log.touched import Touched

    return mock.patch.object(Touched, "_standing", return_value=())


@plant(f"{TOLD}::test_a_rewrite_that_had_not_seen_the_delete")
def changes_believe_rewrites_that_did_not_see_a_delete() -> Any:
    """Rows that were written anew past a delete are told deleted, and are there."""
    from lakelog.catalog.log.steps import Steps

    def planted(self: Any, places: Any, facts: Any, at: Any) -> Any:
        import numpy as np
        from lakelog.catalog.format.columns import numbers

        counts = numbers(facts.column("row_count"))[at]
        return np.where(places == 0, counts, 0), np.where(places < 0, 0, counts)

    return mock.patch.object(Steps, "_visible", planted)


@plant(f"{TESTS}::test_diff_history_and_explain_name_it")
def diff_compares_each_log_alone() -> Any:
    """Rows that another writer deleted are no difference."""
    from lakelog.catalog.log import compared

    return mock.patch.object(compared, "_named", return_value={})


@plant(f"{TESTS}::test_files_that_were_replaced_since_the_cut_are_told")
def what_went_and_came_back_is_deleted_of() -> Any:
    """A delete of a cut is committed that holds of none of the rows of a file that came back."""
    from lakelog.catalog.commit import other_logs

    real = other_logs.replaced_since

    def planted(before: Any, after: Any, table: str, paths: Any) -> Any:
        row = real(before, after, table, paths)
        return row if row is not None and row.get("files_removed") else None

    return mock.patch.object(other_logs, "replaced_since", planted)
