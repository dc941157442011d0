"""Going back to another state than was there, losing what came back, and wrong changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from planting import plant

RESTORE = "tests/changing/test_restore.py"
GC = "tests/changing/test_restore_and_gc.py"
CHANGES = "tests/changing/test_changes.py"


@plant(RESTORE + "::test_what_came_goes_and_what_went_comes_back")
def restore_forgets_a_file() -> Any:
    """Of the files that are added again the last one is left out."""
    from lakelog.catalog.commit import execute_change

    real = execute_change.rows_again

    def fewer(state: Any, files: Any, wanted: Any) -> Any:
        return real(state, files, {table: paths[:-1] for table, paths in wanted.items()})

    return mock.patch.object(execute_change, "rows_again", fewer)


@plant(RESTORE + "::test_all_that_the_log_knows_of_a_file_comes_back")
def restored_files_lose_their_statistics() -> Any:
    """Files come back without what the log knew of their columns."""
    from lakelog.catalog.commit import execute_change

    real = execute_change.rows_again

    def bare(*args: Any) -> Any:
        return tuple(replace(rows, describing={}) for rows in real(*args))

    return mock.patch.object(execute_change, "rows_again", bare)


@plant(RESTORE + "::test_who_commits_between_plan_and_put_stops_it")
def restore_holds_for_any_head() -> Any:
    """A plan is committed although others have committed since."""
    from lakelog.catalog.commit.execute_change import Execution

    real = Execution._intent

    def loose(self: Any, *args: Any) -> Any:
        intent = real(self, *args)
        intent.onto = b""
        return intent

    return mock.patch.object(Execution, "_intent", loose)


@plant(RESTORE + "::test_a_file_that_is_gone_stops_it_before_anything_is_committed")
def restored_files_are_not_looked_for() -> Any:
    """Files are added again that are not there."""
    from lakelog.catalog.commit.execute_change import Execution

    return mock.patch.object(Execution, "_refuse_gone", return_value=None)


@plant(GC + "::test_a_point_that_is_pruned_while_it_is_gone_back_to_is_told")
def restore_trusts_the_point_to_stay() -> Any:
    """Files come back whether or not the revision gone back to is still retained."""
    from lakelog.catalog.commit import execute_change

    return mock.patch.object(execute_change, "_refuse_pruned", return_value=None)


@plant(GC + "::test_a_point_that_is_pruned_after_its_files_are_named_again_may_go")
def restore_names_nothing_before() -> Any:
    """Files that were removed long ago come back without being named in between."""
    from lakelog.catalog.commit import execute_change

    def hasty(session: Any, prepared: Any, intent: Any, log: Any) -> Any:
        return execute_change.Kept(prepared.head.digest, session.clocks.now())

    return mock.patch.object(execute_change, "keep_files", hasty)


@plant(GC + "::test_who_stands_still_between_the_two_commits_is_told")
def restore_believes_late_commits() -> Any:
    """A commit that took days is a success, whatever gc may have done meanwhile."""
    from lakelog.catalog.commit import execute_change

    return mock.patch.object(execute_change, "refuse_late", return_value=None)


@plant("tests/gc/test_gc_collect_execute.py::test_batches_look_again_before_each")
def gc_reads_no_further_than_its_listing() -> Any:
    """gc takes a listing of the log for its end, though commits came while it was made."""
    from lakelog.gc import retained

    return mock.patch.object(retained, "_continued", lambda _, known: known)


@plant(CHANGES + "::test_rewrites_give_none")
def changes_show_rewritten_rows() -> Any:
    """Rows that a compaction only moved are deleted and inserted."""
    from lakelog.catalog.log import changelog

    return mock.patch.object(changelog, "REWRITES", frozenset())


@plant(CHANGES + "::test_what_calls_itself_a_rewrite_and_has_other_rows_is_shown")
def whatever_calls_itself_a_rewrite_is_one() -> Any:
    """A commit with other rows is no change, if it says so."""
    from lakelog.catalog.log.changelog import Steps

    def all_of_them(self: Any, facts: Any, at: Any, events: Any) -> Any:
        return events["revision"]

    return mock.patch.object(Steps, "_believed", all_of_them)


@plant(CHANGES + "::test_files_tables_and_rows")
def diff_ignores_a_table() -> Any:
    """A table that only the earlier cut has is left out."""
    from lakelog.catalog.log import compared

    real = compared.without

    def fewer(rows: Any, others: Any) -> Any:
        import pyarrow.compute as pc

        found = real(rows, others)
        known = pc.unique(others.column("table"))
        return found.filter(pc.is_in(found.column("table"), value_set=known))

    return mock.patch.object(compared, "without", fewer)


@plant(RESTORE + "::test_a_cut_that_does_not_name_all_writers_leaves_it_to_the_caller")
def writers_that_a_cut_does_not_name_are_emptied() -> Any:
    """A token of one writer takes all files of the others out."""
    from lakelog.catalog.commit import plan_change

    return mock.patch.object(plan_change, "refuse_unnamed", return_value=None)
