"""Operations with intent: rows that are lost on the way, conflicts that nobody sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from planting import plant


@plant("tests/catalog/test_operations.py::test_an_overwrite_takes_out_reads_or_leaves_each_file")
def overwrites_forget_other_rows() -> Any:
    """Of a file that holds rows to be replaced and others, the others go too."""
    from lakelog.catalog.commit import transaction

    return mock.patch.object(transaction, "staying", return_value=())


@plant("tests/catalog/test_operations.py::test_rows_for_which_a_predicate_is_null_stay")
def rows_without_an_answer_go() -> Any:
    """Rows for which a predicate is null are replaced, as if it were true."""
    from lakelog.catalog.commit import inputs
    from lakelog.catalog.where.emit import mask

    def meets(wanted: Any, batch: Any) -> Any:
        import numpy as np

        return np.array([said is not False for said in mask(wanted.predicate, batch).to_pylist()])

    return mock.patch.object(inputs, "meets", meets)


@plant(
    "tests/catalog/test_operations.py"
    "::test_an_expression_that_lakelog_does_not_understand_takes_only_what_meets_it"
)
def expressions_take_whole_files() -> Any:
    """Files are taken out unread by a predicate that only stands in for an expression."""
    from dataclasses import replace

    from lakelog.catalog.commit import inputs

    real = inputs.judged
    return mock.patch.object(
        inputs,
        "judged",
        lambda facts, wanted, gone: real(facts, replace(wanted, expression=None), gone),
    )


@plant("tests/catalog/test_operations.py::test_half_an_overwrite_is_never_committed")
def half_an_overwrite_commits() -> Any:
    """A transaction in which an overwrite broke off can be committed."""
    from lakelog.catalog.commit.operation_guard import OperationGuard

    return mock.patch.object(OperationGuard, "check_whole", return_value=None)


@plant("tests/catalog/test_operation_pairs.py::test_operations_that_do_not_meet_both_commit")
def conflicts_ignore_added_files() -> Any:
    """An overwrite is committed though rows came since that it would have replaced."""
    from lakelog.catalog.log import admission

    return mock.patch.object(admission, "refuse_conflict", return_value=None)


@plant("tests/catalog/test_operation_pairs.py::test_operations_that_do_not_meet_both_commit")
def conflicts_end_at_a_checkpoint() -> Any:
    """What others added counts only as long as no newer checkpoint covers it."""
    from lakelog.catalog.log import conflicts
    from lakelog.catalog.log.files import Files

    def since(state: Any, table: str, revision: int) -> Files:
        files = Files(frozenset({table}))
        for transaction in state.tail:
            if transaction.message.revision > revision:
                files.apply(transaction)
        return files

    return mock.patch.object(conflicts, "files_since", since)


@plant("tests/catalog/test_operations.py::test_a_wider_column_that_came_meanwhile_is_a_conflict")
def predicates_mean_what_they_meant() -> Any:
    """A file that came since is judged by a predicate bound to types from before it."""
    from lakelog.catalog.read.delete_plan import AskedRows

    real: Callable[..., Any] = AskedRows.bound
    return mock.patch.object(AskedRows, "bound", lambda self, more=(): real(self))


@plant("tests/catalog/test_operations.py::test_two_threads_of_one_writer_meet_in_one_commit")
def nobody_waits_for_what_is_beside_it() -> Any:
    """An overwrite and an append that it would have seen stand in one commit."""
    from lakelog.catalog.log import admission

    return mock.patch.object(admission, "has_to_wait", return_value=False)


@plant("tests/catalog/test_operations.py::test_a_rewrite_puts_rows_together")
def rewrites_lose_duplicates() -> Any:
    """Of rows that are equal a rewrite keeps one."""
    from lakelog.catalog.commit.sorting import Sorting

    real = Sorting.rows

    def unique(self: Any, read: Any, schema: Any, *rest: Any) -> Any:
        import pyarrow as pa

        rows = pa.Table.from_batches(real(self, read, schema, *rest), schema)
        return iter(rows.group_by(rows.schema.names).aggregate([]).to_batches())

    return mock.patch.object(Sorting, "rows", unique)


@plant("tests/catalog/test_operations.py::test_a_rewrite_that_changes_rows_is_refused")
def rewrites_are_only_counted() -> Any:
    """A rewrite with the right number of other rows is let through."""
    from lakelog.catalog.data.row_digest import RowDigest

    return mock.patch.object(RowDigest, "value", property(lambda self: self.rows))


@plant("tests/catalog/test_operations.py::test_what_is_known_late_is_refused_at_the_commit")
def writers_commit_what_they_may_not() -> Any:
    """What a writer was opened for isn't asked when it commits."""
    from lakelog.catalog.commit import session

    return mock.patch.object(session, "check_commit", return_value=None)


@plant("tests/catalog/test_parquet.py::test_a_write_that_broke_off_takes_its_transaction_with_it")
def writes_that_broke_off_are_forgotten() -> Any:
    """A transaction goes on without files that were put for it."""
    from contextlib import nullcontext

    from lakelog.catalog.commit.operation_guard import OperationGuard

    def doing(self: Any, *_: Any) -> Any:
        return nullcontext()

    return mock.patch.object(OperationGuard, "doing", doing)


@plant(
    "tests/changing/test_interplay.py"
    "::test_a_delete_that_leaves_no_predicate_meets_rows_that_came_since"
)
def deletes_of_nothing_claim_nothing() -> Any:
    """Rows come while a delete finds none, and stay though it is committed after them."""
    from dataclasses import replace

    from lakelog.catalog.commit import deleting

    real = deleting.Claim
    return mock.patch.object(
        deleting, "Claim", lambda *args, **options: replace(real(*args, **options), may_hold=None)
    )


@plant("tests/changing/test_interplay.py::test_a_row_delta_does_not_delete_newer_rows_of_its_keys")
def newer_rows_go_beside_a_row_delta() -> Any:
    """Others' newer rows are deleted with it, and hide its own."""
    from lakelog.catalog.log import conflicts

    return mock.patch.object(conflicts, "_hold_newer", return_value=None)


@plant("tests/keys/test_upsert.py::test_new_rows_are_newer_where_another_log_gives_the_key")
def rows_in_the_place_of_others_are_older() -> Any:
    """Rows that come with a delete have the writer's own time, whatever clock others have."""
    from lakelog.catalog.commit.upserting import Upserting

    return mock.patch.object(Upserting, "_newer", lambda self, table: self._session.clock())
