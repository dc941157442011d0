"""Columns that change: what was dropped comes back, what came later is not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
from planting import plant

_SEED = "tests/evolution/test_seed_scenario.py"


@plant(_SEED)
def a_dropped_column_is_read_again() -> Any:
    """A column is known by its name alone: the values of the old one are those of the new."""
    from lakelog.catalog.data import unify

    real = unify.shown

    def by_name(own: pa.Schema, definition: Any) -> Any:
        found = real(own, definition)
        there = {name: name for name in found.schema.names if name in own.names}
        return replace(found, stored={**there, **found.stored}, defaults={})

    return mock.patch("lakelog.catalog.read.cut_tables.shown", by_name)


@plant("tests/evolution/test_evolve.py::test_a_forgotten_table_begins_anew")
def a_dropped_table_gives_its_ids_again() -> Any:
    """What is written to it next takes its columns for those that it had."""
    from lakelog.catalog.commit import session

    return mock.patch.object(session, "forgotten_ids", return_value=[])


@plant(f"{_SEED}::test_the_old_row_has_the_default_and_not_its_old_value")
def defaults_are_not_known_to_skipping() -> Any:
    """By the statistics a column with a default is null in files that lack it."""
    from lakelog.catalog.read import table_facts

    real = table_facts.shown

    def without(own: pa.Schema, definition: Any) -> Any:
        return replace(real(own, definition), defaults={})

    return mock.patch.object(table_facts, "shown", without)


@plant(
    "tests/evolution/test_evolve.py::test_statistics_go_with_their_columns_when_names_are_swapped"
)
def statistics_go_by_the_names_of_today() -> Any:
    """What is known of a column is looked up under its present name in older files."""
    from lakelog.catalog.read import table_facts

    real = table_facts.shown

    def by_name(own: pa.Schema, definition: Any) -> Any:
        found = real(own, definition)
        there = {n: n if n in own.names else stored for n, stored in found.stored.items()}
        return replace(found, stored=there)

    return mock.patch.object(table_facts, "shown", by_name)


@plant("tests/evolution/test_evolve.py::test_data_with_a_dropped_or_renamed_column_is_refused")
def data_with_dropped_columns_is_taken() -> Any:
    """A writer writes what nobody will read."""
    from lakelog.catalog.log.column_ids import ColumnIds

    real = ColumnIds.with_schemas

    def planted(self: Any, schemas: Any) -> Any:
        found = real(self, schemas)
        found.former.clear()
        return found

    return mock.patch.object(ColumnIds, "with_schemas", planted)


@plant("tests/evolution/test_evolve.py::test_who_wrote_for_columns_that_changed_meanwhile_is_told")
def columns_may_change_under_a_writer() -> Any:
    """Nobody asks whether the columns are those for which files were written."""
    from lakelog.catalog.log import admission

    return mock.patch.object(admission, "refuse_changed_columns")


@plant(
    "tests/evolution/test_column_ids.py::test_a_definition_that_did_not_see_a_new_column_is_refused"
)
def definitions_may_name_a_column_that_came_meanwhile() -> Any:
    """An id that another commit has just given to a column is taken for a new one."""
    from lakelog.catalog.log import column_ids

    return mock.patch.object(column_ids, "refuse_other_ids")


@plant(
    "tests/evolution/test_evolve.py::"
    "test_a_name_that_a_column_had_once_is_another_column_when_it_comes_back"
)
def a_name_comes_back_with_its_old_id() -> Any:
    """A column that is added gets the id that the one before it had."""
    from lakelog.catalog.data import evolution

    real = evolution._add

    def planted(columns: Any, last_id: int, change: Any, table: str) -> int:
        return real(columns, last_id - len(change.add), change, table) + len(change.add)

    return mock.patch.object(evolution, "_add", planted)


@plant(f"{_SEED}::test_the_old_row_has_the_default_and_not_its_old_value")
def checkpoints_forget_definitions() -> Any:
    """A checkpoint says nothing of the columns of tables."""
    from lakelog.catalog.log import checkpoint

    return mock.patch.object(checkpoint, "_write_definitions")


@plant("tests/evolution/test_all_logs.py::test_no_column_gets_the_name_of_another_one_in_any_log")
def a_column_is_left_out_for_one_that_gets_its_name() -> Any:
    """In a change of all logs a column that is to have a name that is taken is gone."""
    from lakelog.catalog.data import evolution

    real = evolution._renamed

    def planted(columns: Any, change: Any, table: str) -> Any:
        there = {old: new for old, new in change.rename.items() if old in columns}
        if any(new in columns and new not in there for new in there.values()):
            return {name: column for name, column in columns.items() if name not in there}
        return real(columns, change, table)

    return mock.patch.object(evolution, "_renamed", planted)
