"""Streams of a table: each of these loses rows, gives them twice, or gives others."""

from __future__ import annotations

from typing import Any
from unittest import mock

from planting import plant

SOURCE = "tests/spark/test_stream_source.py"
REFUSALS = "tests/spark/test_stream_refusals.py"


@plant(SOURCE + "::test_where_it_begins_is_kept_with_the_first_batch")
def a_first_batch_forgets_where_it_began() -> Any:
    """After a restart the first batch has rows of before, too."""
    from lakelog.spark.stream_source import StreamOffset

    real = StreamOffset.moved
    return mock.patch.object(StreamOffset, "moved", lambda self, at, begun=None: real(self, at))


@plant(REFUSALS + "::test_a_batch_that_was_noted_is_read_again_with_the_columns_of_today")
def batches_are_told_by_the_columns_of_their_end() -> Any:
    """A column that was renamed since is null in a batch that is read again."""
    from lakelog.catalog.read.cut_tables import CutTables
    from lakelog.spark import stream_table

    real = stream_table.logs_between

    def of_then(*args: Any, told_by: Any, **options: Any) -> Any:
        until = args[3]
        return real(*args, told_by=CutTables(told_by.database, list(until)), **options)

    return mock.patch.object(stream_table, "logs_between", of_then)


@plant(REFUSALS + "::test_a_commit_that_takes_rows_out_stops_the_stream_before_it")
def commits_that_are_left_out_add_their_rows() -> Any:
    """Rows that an overwrite writes anew come again."""
    from lakelog.catalog.log.changelog import INSERT
    from lakelog.catalog.read import appended

    def all_of_them(steps: Any, _: Any) -> Any:
        return (step for step in steps if step.sign == INSERT)

    return mock.patch.object(appended, "_kept", all_of_them)


@plant("tests/spark/test_stream_changes.py::test_no_batch_ends_where_logs_call_the_key_otherwise")
def batches_end_where_logs_call_the_key_otherwise() -> Any:
    """The limit alone counts, and the stream can't go on from there."""
    from lakelog.spark.stream_table import FollowedTable

    return mock.patch.object(FollowedTable, "agrees", return_value=True)
