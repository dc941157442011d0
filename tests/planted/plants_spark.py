"""Spark's filters and what is skipped by them: each of these loses rows."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from planting import Together, plant

SKIPS = "tests/spark/test_spark_skips.py"
METADATA = f"{SKIPS}::test_a_column_of_metadata_is_none_of_the_table"
TWO_QUERIES = f"{SKIPS}::test_filters_are_told_apart_and_kept_apart"
TOLD = "tests/spark/test_spark_filters_told.py"
LAKES = "tests/spark/test_spark_skipping.py"


def _java(name: str, *changes: tuple[str, str]) -> Any:
    """Other Java in place of some."""
    from lakelog.spark import file_index

    text = getattr(file_index, name)
    for right, wrong in changes:
        assert right in text
        text = text.replace(right, wrong)
    return mock.patch.object(file_index, name, text)


@plant(METADATA)
def metadata_is_taken_for_columns() -> Any:
    """A column of `_metadata` is taken for the table's column of that name."""
    return _java("FILTERS", ('|| !found.metadata().json().equals("{}")', ""))


@plant(TWO_QUERIES)
def the_first_answer_holds_for_all_filters() -> Any:
    """What one query's filters skip is skipped by each later query as well."""
    return _java("RELATION", ("text.equals(last[0])", "last[0] != null"))


@plant(TWO_QUERIES)
def bits_are_read_from_the_other_end() -> Any:
    """The bits for eight files are read in the wrong order."""
    return _java("RELATION", ("(i & 7)", "(7 - (i & 7))"))


@plant(f"{SKIPS}::test_files_are_skipped_and_no_row_is_lost")
def casts_are_looked_through() -> Any:
    """A column under a cast is compared with the constant, as if there were no cast."""
    return _java(
        "FILTERS",
        ("return (Expression) of.children().apply(number);",
         "Expression found = (Expression) of.children().apply(number);"
         "return found instanceof org.apache.spark.sql.catalyst.expressions.Cast"
         " ? (Expression) found.children().apply(0) : found;"),
        ("|| !literal.dataType().equals(column.dataType())", ""),
    )  # fmt: skip


@plant(TOLD)
def what_isnt_understood_is_left_out_of_or() -> Any:
    """What isn't understood is left out, wherever it stands."""
    from lakelog.spark import filters

    real = filters._Reader.read

    def read(self: Any, told: Any, *, wanted: bool) -> Any:
        known = told[1:] if told and told[0] in ("and", "or") else []
        kept = [item for item in known if item is not None]
        return real(self, [told[0], *kept] if kept else told, wanted=wanted)

    return mock.patch.object(filters._Reader, "read", read)


@plant(TOLD)
def equal_and_null_is_plain_equality() -> Any:
    """`<=>` is taken for `=`: under NOT it loses nulls."""
    from lakelog.spark import filters

    real = filters._of_column

    def of_column(word: str, *rest: Any) -> Any:
        return real("=" if word == "<=>" else word, *rest)

    return mock.patch.object(filters, "_of_column", of_column)


@plant(f"{SKIPS}::test_old_dates_of_another_calendar")
def all_calendars_are_one() -> Any:
    """Bounds before 1901 are believed, though Spark moves such dates."""
    from lakelog.spark import filters

    return mock.patch.object(filters, "_however_old", lambda found, *_, **__: found)


@plant(LAKES)
def each_branch_counts_from_the_first_file() -> Any:
    """Files of a relation are taken for the first files of the table."""
    from lakelog.spark import filters

    real = filters.FileSkipper.__init__

    def init(self: Any, judge: Any, numbers: Any, *rest: Any) -> None:
        real(self, judge, np.arange(len(numbers)), *rest)

    return mock.patch.object(filters.FileSkipper, "__init__", init)


@plant("tests/where/test_judged.py")
def files_are_judged_in_the_order_of_the_log() -> Any:
    """What is known of one file is taken for another's: files are read in the order of commits."""
    from lakelog.catalog.read.file_skipping import JudgedFiles

    real = JudgedFiles._places

    def places(self: Any, *rest: Any) -> Any:
        facts, known, found = real(self, *rest)
        return facts, known, np.sort(found)

    return mock.patch.object(JudgedFiles, "_places", places)


S3A = "tests/spark/test_spark_s3a.py::test_on_s3a"


@plant(S3A, in_children=True)
def spark_reads_the_first_store() -> Any:
    """A second endpoint of a bucket's name reads what the first connector was made for."""
    return _java("TASK_CODE", ("settings.get(SETTINGS)", '""'))


@plant("tests/spark/test_spark_reads.py::test_settings_of_a_store_are_in_no_plan")
def plans_of_two_stores_are_one() -> Any:
    """What is cached of one store is taken for the other's, whose files have the same names."""
    from lakelog.spark import access

    return mock.patch.object(access, "_identified", return_value="")


@plant(S3A, in_children=True)
def credentials_are_those_of_the_first_query() -> Any:
    """What a profile says is asked once, and its tokens run out."""
    from lakelog.spark import access

    real = access.S3Settings.now

    def once(self: Any) -> Any:
        if "found" not in vars(self):
            self.found = real(self)
        return self.found

    return mock.patch.object(access.S3Settings, "now", once)


@plant(S3A, in_children=True)
def each_opening_makes_a_connector() -> Any:
    """Hadoop's cache is off and nothing takes its place."""
    return _java("TASK_CODE", ("settings.set(name, StoreBySettings.class.getName());", ""))


CHANGES = "tests/spark/test_spark_sql_changes.py"
MERGES = "tests/spark/test_spark_sql_merge.py"
EXACT = "tests/spark/test_spark_exact_filters.py"


@plant(EXACT)
def a_condition_is_known_though_a_part_isnt() -> Any:
    """What isn't known of a condition is left out of the predicate."""
    from lakelog.spark import filters

    real = filters._flat

    def flat(word: str, items: list[Any]) -> list[Any]:
        found = real(word, items)
        return [item for item in found if item is not None] or found

    return mock.patch.object(filters, "_flat", flat)


@plant(EXACT)
def nothing_is_made_of_a_percent_sign() -> Any:
    """What a text begins with is taken for a pattern."""
    from lakelog.spark import filters

    def begins(quoted: str, told: str) -> str | None:
        prefix = bytes.fromhex(told).decode()
        return f"{quoted} LIKE '{prefix}%'" if prefix and "'" not in prefix else None

    return mock.patch.object(filters, "_begins", begins)


@plant(f"{MERGES}::test_what_others_change_meanwhile_is_a_conflict")
def nobody_looks_again() -> Any:
    """What others commit while a statement runs is not looked at."""
    from lakelog.spark import sql_changes

    return Together(
        mock.patch.object(sql_changes._Change, "_refuse_new_files", return_value=None),
        mock.patch.object(sql_changes._Log, "check", return_value=None),
    )


@plant(f"{MERGES}::test_update_changes_the_rows_that_select_finds", in_children=True)
def new_versions_of_rows_go_to_one_log() -> Any:
    """Each task writes them to the log that is named for rows that are inserted."""
    from lakelog.spark import write_task

    return mock.patch.object(write_task, "owner_of", return_value="oslo")


@plant(f"{MERGES}::test_an_update_of_a_key_is_newer_than_every_clock")
def updated_rows_have_the_time_of_this_machine() -> Any:
    """The clock of an updated row is not held against those of other writers' rows."""
    from lakelog.spark import sql_changes

    return mock.patch.object(sql_changes, "newest_clock", return_value=None)


@plant("tests/spark/test_spark_pipeline.py", in_children=True)
def a_batch_comes_again_after_its_commit() -> Any:
    """A stream's batches are committed without their numbers: one of which Spark has no note, since
    its driver died, is committed twice."""
    from lakelog.spark import stream_sink

    real = stream_sink.go_on

    def go_on(writer: Any, told: Any, *_: Any) -> Any:
        return real(writer, told, None, None)

    return mock.patch.object(stream_sink, "go_on", go_on)
