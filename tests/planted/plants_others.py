"""Deletes and updates of all writers' rows: rows that are lost or doubled, and commits that are
told though there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from planting import plant

TESTS = "tests/changing/test_all_writers.py"


@plant(f"{TESTS}::test_a_new_version_stands_where_the_old_one_stood")
def the_new_version_of_a_row_goes_to_another_log() -> Any:
    """A commit of its own puts it in: for a while the row is there twice, or not at all."""
    from lakelog.catalog.commit.transaction import Transaction
    from lakelog.catalog.commit.writer import Writer

    real = Transaction._written

    def elsewhere(self: Any, table: str, schema: Any, rows: Any, *given: Any, **more: Any) -> Any:
        session = self._session
        if session.writer_id == "a":
            return real(self, table, schema, rows, *given, **more)
        with Writer(session.store, "a", session.database, shared=True) as writer:
            tx = writer.transaction()
            tx._written(table, schema, rows, *given, **more)
            tx.commit()
        return []

    return mock.patch.object(Transaction, "_written", elsewhere)


@plant(f"{TESTS}::test_a_log_that_fails_is_told_with_those_that_are_done")
def a_log_that_was_not_committed_to_is_told_as_done() -> Any:
    """Its rows are still there, and nobody knows."""
    from lakelog.catalog.commit import change_all
    from lakelog.errors import LakelogError

    real = change_all._committed

    def committed(logs: Any, states: Any, writer: str, change: Any) -> Any:
        try:
            return real(logs, states, writer, change)
        except LakelogError:
            return change_all.LogChange(writer, 1, 0, 1, revision=1)

    return mock.patch.object(change_all, "_committed", committed)


@plant(f"{TESTS}::test_each_row_is_there_exactly_once_for_whoever_reads", in_children=True)
def the_old_version_goes_in_a_commit_of_its_own() -> Any:
    """Whoever reads between the two commits misses the row."""
    from lakelog.catalog.commit.transaction import Transaction

    real = Transaction._replace

    def before(self: Any, table: str, gone: Any, **more: Any) -> None:
        first = Transaction(self._session, self._session.begin(None, None, None, None))
        real(first, table, gone, **more)
        first.commit()

    return mock.patch.object(Transaction, "_replace", before)


@plant(f"{TESTS}::test_where_another_one_deleted_rows_first_the_update_looks_again")
def an_update_relies_on_nothing() -> Any:
    """A row that was deleted meanwhile comes back."""
    from lakelog.catalog.commit import updating

    real = updating.Claim

    def claim(*args: Any, **options: Any) -> Any:
        return replace(real(*args, **options), base_revision=1 << 40)

    return mock.patch.object(updating, "Claim", claim)


@plant(f"{TESTS}::test_of_a_table_with_a_key_appends_are")
def an_update_of_a_keyed_table_overruns_newer_rows() -> Any:
    """A newer version of the row that came meanwhile is lost."""
    from lakelog.catalog.commit import updating

    return mock.patch.object(updating, "_all_files", return_value=[])


@plant(f"{TESTS}::test_a_column_that_a_log_lacks_is_null_in_its_rows")
def a_log_keeps_predicates_over_columns_that_it_lacks() -> Any:
    """Files that come with such a column later would be another matter."""
    from lakelog.catalog.read import delete_plan

    return mock.patch.object(delete_plan, "_has", return_value=True)
