"""Predicates and skipping: each of these loses rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from planting import plant

SKIPPING = "tests/where/test_skipping.py"


@plant(SKIPPING)
def nan_is_below_all() -> Any:
    """A file of floats is skipped by its greatest value, though NaN is greater."""
    from lakelog.catalog.where import outcomes

    return mock.patch.object(outcomes, "_may_be_nan", return_value=False)


@plant(SKIPPING)
def nulls_are_believed_to_be_none() -> Any:
    """Where the number of nulls is unknown it is taken for 0."""
    from lakelog.catalog.read import table_facts

    real = table_facts._read

    def read(*args: Any) -> Any:
        found = real(*args)
        return replace(found, nulls=np.where(found.nulls < 0, 0, found.nulls))

    return mock.patch.object(table_facts, "_read", read)


@plant(SKIPPING)
def a_lacking_column_lets_nothing_through() -> Any:
    """A file that lacks a column is skipped, also where null is asked for."""
    from lakelog.catalog.where import outcomes

    real = outcomes._of_column

    def of_column(predicate: Any, facts: Any) -> Any:
        found = real(predicate, facts)
        none = np.zeros_like(found.true)
        return replace(found, true=none, null=none) if facts.kind is None else found

    return mock.patch.object(outcomes, "_of_column", of_column)


@plant(SKIPPING)
def not_asks_whether_anything_is_true() -> Any:
    """NOT rules out each file in which something may be true."""
    from lakelog.catalog.where import outcomes

    real = outcomes._of_column

    def of_column(predicate: Any, facts: Any) -> Any:
        found = real(predicate, facts)
        return replace(found, false=found.false & ~found.true)

    return mock.patch.object(outcomes, "_of_column", of_column)


@plant(SKIPPING)
def bounds_are_in_the_units_of_the_table() -> Any:
    """The value is compared with bounds of another unit, as if they were the table's."""
    from lakelog.catalog.where import outcomes

    real = outcomes.lowered
    return mock.patch.object(
        outcomes, "lowered", lambda wide, own, *rest: real(own if own != wide else wide, own, *rest)
    )


@plant(SKIPPING)
def decimals_end_with_their_keys() -> Any:
    """A decimal beyond 64 bits is taken to be beyond all that a file holds."""
    import pyarrow as pa
    from lakelog.catalog.where import outcomes

    real = outcomes._over_integers

    def over(operator: Any, value: Any, kind: Any) -> Any:
        return real(operator, value, pa.int64() if pa.types.is_decimal(kind) else kind)

    return mock.patch.object(outcomes, "_over_integers", over)


@plant(SKIPPING)
def equal_keys_are_equal_texts() -> Any:
    """Texts are compared by their first eight bytes."""
    from lakelog.catalog.read import table_facts

    real = table_facts.text_bounds

    def bounds(*args: Any) -> Any:
        import pyarrow.compute as pc

        return pc.binary_slice(real(*args), 0, 8)

    return mock.patch.object(table_facts, "text_bounds", bounds)


@plant(SKIPPING)
def row_groups_are_counted_from_one() -> Any:
    """The statistics of a row group are taken for those of the next one."""
    from lakelog.catalog.read.table_facts import RowGroups

    real = RowGroups.places_of

    def places_of(self: Any, *said: Any) -> Any:
        found = real(self, *said)
        moved = found + 1
        moved[(found < 0) | (moved >= len(self.places))] = -1
        return moved

    return mock.patch.object(RowGroups, "places_of", places_of)


@plant(SKIPPING)
def places_count_from_the_first_table() -> Any:
    """Statistics are taken for those of the file one row further."""
    from lakelog.catalog.read.table_facts import Units

    real = Units.take

    def take(self: Any, name: str, said: Any, places: Any) -> None:
        moved = np.where((places >= 0) & (places + 1 < len(self.rows)), places + 1, -1)
        real(self, name, said, moved)

    return mock.patch.object(Units, "take", take)
