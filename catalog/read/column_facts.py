"""What a log knows of single columns of files or row groups, as arrays: what skipping goes by.

What is damaged, contradictory or not understood is unknown: it costs skipping, never rows.
`read.statistics` tells the same value by value.

Source: docs/format.md, sections 5.2 and 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..data.unify import readable_columns
from ..format import compute as pc
from ..format.bound_arrays import is_text_kind, known_keys, text_bounds
from ..format.columns import array, column, is_null, numbers
from ..format.segments import NO_NAN
from ..format.statistics import bound_type
from ..where.outcomes import Bounds, Facts, Outcomes, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..where.tree import Predicate


@dataclass(frozen=True, slots=True)
class Units:
    """What is judged one by one: files, or row groups of files.

    Attributes:
        rows: Per unit its number of rows.
        schema_numbers: Per unit which of the schemas it has.
        schemas: Those of the files.
        statistics: Rows of STATISTICS or ROW_GROUP_STATISTICS as they are worked with.
        places: Per row of statistics the unit it speaks of; -1: none of these.
    """

    rows: np.ndarray
    schema_numbers: np.ndarray
    schemas: Sequence[pa.Schema]
    statistics: pa.Table
    places: np.ndarray


def outcomes_in(
    units: Units, predicate: Predicate, target: pa.Schema, *, is_ieee: bool
) -> Outcomes:
    """The outcomes that a predicate may have among the rows of each unit.

    Args:
        target: The columns of the predicate as the cut has them.
        is_ieee: As for `where.outcomes`.
    """
    true, false, null = (np.zeros(len(units.rows), np.bool_) for _ in range(3))
    for group in by_schema(units, target):
        found = outcomes(predicate, group.facts, is_ieee=is_ieee)
        at = group.members
        true[at], false[at], null[at] = found.true, found.false, found.null
    return Outcomes(true, false, null)


def by_schema(units: Units, target: pa.Schema) -> Iterator[UnitsOfSchema]:
    """The units of each schema that some have.

    Args:
        target: The columns that facts are asked of, as the cut has them.
    """
    for number, schema in enumerate(units.schemas):
        members = np.flatnonzero(units.schema_numbers == number)
        if len(members):
            yield UnitsOfSchema(units, schema, members, set(readable_columns(schema, target)))


class UnitsOfSchema:
    """The units of one schema.

    Attributes:
        members: Their places among all units.
    """

    def __init__(
        self, units: Units, schema: pa.Schema, members: np.ndarray, readable: set[str]
    ) -> None:
        self._units = units
        self._schema = schema
        self.members = members
        self._readable = readable
        self._known: dict[str, Facts] = {}

    def facts(self, name: str) -> Facts:
        """What is known of a column; of no column what holds of any."""
        if name not in self._known:
            self._known[name] = self._facts(name)
        return self._known[name]

    def _facts(self, name: str) -> Facts:
        rows = self._units.rows[self.members]
        nothing = np.full(len(rows), -1, np.int64)
        if name not in self._readable:
            return Facts(None, rows, nothing)
        kind = self._schema.field(name).type
        said = self._units.statistics
        of_column = numbers(pc.equal(said.column("column"), column([name], pa.string())[0]))
        at = np.flatnonzero(of_column & (self._units.places >= 0))
        places = self._units.places[at]
        # Of each unit the row that speaks of it; one of which two speak is unknown.
        spoken = np.bincount(places, minlength=len(self._units.rows))
        row_of = np.full(len(self._units.rows), -1, np.int64)
        row_of[places] = at
        row_of[spoken != 1] = -1
        row_of = row_of[self.members]
        if not len(at) or (row_of < 0).all():
            return Facts(kind, rows, nothing)
        return _read(said, row_of, rows, kind)


def _read(said: pa.Table, row_of: np.ndarray, rows: np.ndarray, kind: pa.DataType) -> Facts:
    """Facts from rows of statistics; -1 for a unit of which none speaks."""
    there = row_of >= 0
    at = array(np.where(there, row_of, 0))
    taken = {
        name: said.column(name).take(at).combine_chunks()
        for name in ("null_count", "min", "max", "min_bytes", "max_bytes", "exact")
    }
    nulls = np.where(there & ~is_null(taken["null_count"]), numbers(taken["null_count"]), -1)
    nulls = np.where((nulls < 0) | (nulls > rows), -1, nulls)
    bounds = bound_type(kind)
    if bounds is None:
        return Facts(kind, rows, nulls)
    low, high = (
        _bounds(taken[end], taken[f"{end}_bytes"], bounds, there) for end in ("min", "max")
    )
    if isinstance(low.values, np.ndarray):
        contrary = low.values > high.values
    else:
        contrary = numbers(pc.greater(low.values, high.values))
    sound = ~(low.known & high.known & contrary)
    no_nan = there & ((numbers(taken["exact"]) & NO_NAN) != 0)
    return Facts(
        kind,
        rows,
        nulls,
        Bounds(low.values, low.known & sound),
        Bounds(high.values, high.known & sound),
        no_nan,
    )


def _bounds(keys: pa.Array, whole: pa.Array, kind: pa.DataType, there: np.ndarray) -> Bounds:
    if is_text_kind(kind):
        values = text_bounds(keys, whole, kind)
        return Bounds(values, there & ~is_null(values))
    return Bounds(numbers(keys).astype(np.int64), there & known_keys(keys, whole, kind))
