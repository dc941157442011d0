"""What a log knows of single columns of files or row groups, as arrays: what skipping goes by.

What is damaged, contradictory or not understood is unknown: it costs skipping, never rows.
`read.statistics` tells the same value by value.

Source: docs/format.md, sections 5.2 and 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import array, is_null, numbers, one_chunk
from ..format.segments import NO_NAN
from ..format.statistics import bound_type, encode_float, value_statistics
from ..format.statistics_rows import is_text_kind, known_keys, text_bounds
from ..where.outcomes import Bounds, Facts, Outcomes, outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..data.shown import Shown
    from .row_filter import RowFilter


@dataclass(slots=True)
class Units:
    """What is judged one by one: files, or row groups of files.

    Attributes:
        rows: Per unit its number of rows.
        schema_numbers: Per unit which of the schemas it has.
        schemas: Those, and what files of them show.
    """

    rows: np.ndarray
    schema_numbers: np.ndarray
    schemas: Sequence[Shown]
    _said: dict[str, list[tuple[pa.Table, np.ndarray]]] = field(default_factory=dict)
    _groups: list[UnitsOfSchema] | None = None

    def take(self, name: str, said: pa.Table, places: np.ndarray) -> None:
        """Take in what statistics say of a column.

        Args:
            said: Rows of STATISTICS or ROW_GROUP_STATISTICS, of this column alone.
            places: Per row the unit that it speaks of; -1: none of these.
        """
        if not len(places):
            return
        if places.min() < 0:
            at = np.flatnonzero(places >= 0)
            said, places = said.take(array(at)), places[at]
        self._said[name] = [*self._said.get(name, ()), (said, places)]  # others may be reading
        for group in self._groups or ():
            group.forget(name)

    def forget(self) -> None:
        """Let go of what was taken in."""
        self._said, self._groups = {}, None

    def judge(self, wanted: RowFilter) -> Outcomes:
        """The outcomes that a predicate may have among the rows of each unit."""
        true, false, null = (np.zeros(len(self.rows), np.bool_) for _ in range(3))
        for members, facts in self.by_schema(wanted.target):
            found = outcomes(wanted.predicate, facts)
            if len(members) == len(true):
                return found
            true[members], false[members], null[members] = found.true, found.false, found.null
        return Outcomes(true, false, null)

    def by_schema(self, target: pa.Schema) -> Iterator[tuple[np.ndarray, Callable[[str], Facts]]]:
        """The units of each schema: their places, and what is known of a column of them.

        Args:
            target: The columns that facts are asked of, as the cut has them.
        """
        groups = self._groups
        if groups is None:
            everyone = enumerate(self.schemas)
            members = [(np.flatnonzero(self.schema_numbers == n), schema) for n, schema in everyone]
            groups = [UnitsOfSchema(self, s, found) for found, s in members if len(found)]
            self._groups = groups  # another thread may let go of them meanwhile
        for group in groups:
            yield group.members, group.reader(target)

    def row_of(self, name: str) -> tuple[pa.Table, np.ndarray] | None:
        """What is said of a column, and per unit the row that says it; -1: none, or several."""
        parts = self._said.get(name)
        if parts is None:
            return None
        said = parts[0][0] if len(parts) == 1 else pa.concat_tables([rows for rows, _ in parts])
        places = parts[0][1] if len(parts) == 1 else np.concatenate([where for _, where in parts])
        everyone = np.arange(len(self.rows))
        if np.array_equal(places, everyone):
            return said, everyone
        row_of = np.full(len(self.rows), -1, np.int64)
        row_of[places] = np.arange(len(places))
        row_of[np.bincount(places, minlength=len(self.rows)) != 1] = -1
        return said, row_of


def within(places: np.ndarray, count: int) -> np.ndarray:
    """The places; -1 for those that are not below a count."""
    if len(places) and (places.min() < 0 or places.max() >= count):
        return np.where((places < 0) | (places >= count), -1, places)
    return places


class UnitsOfSchema:
    """The units of one schema.

    Attributes:
        members: Their places among all units.
    """

    def __init__(self, units: Units, shown: Shown, members: np.ndarray) -> None:
        self.members = members
        self._shown = shown
        self._units = units
        self._rows = units.rows[members]
        self._known: dict[str, Facts] = {}  # by what the files call a column

    def forget(self, name: str) -> None:
        """Let go of what was known of a column, as the files call it."""
        self._known.pop(name, None)

    def reader(self, target: pa.Schema) -> Callable[[str], Facts]:
        """What is known of a column, by its name; of no column what holds of any."""
        there = self._shown.found(target)

        def facts(name: str) -> Facts:
            if name in there.defaults:
                return of_constant(there.defaults[name], self._rows)
            if name not in there.stored:
                return Facts(None, self._rows, np.full(len(self._rows), -1, np.int64))
            own = there.stored[name]
            found = self._known.get(own)
            if found is None:
                found = self._known[own] = self._facts(own)
            return found

        return facts

    def _facts(self, name: str) -> Facts:
        kind = self._shown.own.field(name).type
        found = self._units.row_of(name)
        if found is None:
            return Facts(kind, self._rows, np.full(len(self._rows), -1, np.int64))
        said, row_of = found
        if len(self.members) < len(row_of):
            row_of = row_of[self.members]
        return _read(said, row_of, self._rows, kind)


def of_constant(value: pa.Scalar, rows: np.ndarray) -> Facts:
    """What is known of a column that has one value in all rows."""
    from ..format.statistics_rows import statistics_rows
    from ..wire import lakelog_transaction_pb2 as wire

    schema = pa.schema([("value", value.type)])
    group = wire.RowGroup(row_count=1, columns=[value_statistics(value, 0, 1)])
    told = group.columns[0]
    told.no_nan = True
    if pa.types.is_floating(value.type):  # zeros are equal, whatever their sign
        told.min, told.max = (encode_float(value.as_py(), end) for end in ("min", "max"))
    add = wire.Add(row_count=1, schema_fingerprint=bytes(16), row_groups=[group])
    said = statistics_rows([add], {("", bytes(16)): schema}).files
    return _read(said, np.zeros(len(rows), np.int64), rows, value.type)


def _read(said: pa.Table, row_of: np.ndarray, rows: np.ndarray, kind: pa.DataType) -> Facts:
    """Facts from rows of statistics; -1 for a unit of which none speaks."""
    there = row_of >= 0
    if not there.any():
        return Facts(kind, rows, np.full(len(rows), -1, np.int64))
    facts = said.select(["null_count", "min", "max", "min_bytes", "max_bytes", "exact"])
    if not np.array_equal(row_of, np.arange(facts.num_rows)):
        facts = pc.take(facts, array(np.where(there, row_of, 0)))
    taken = dict(zip(facts.schema.names, map(one_chunk, facts.columns), strict=True))
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
    return Bounds(numbers(keys).astype(np.int64, copy=False), there & known_keys(keys, whole, kind))
