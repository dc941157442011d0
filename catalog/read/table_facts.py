"""What one log knows of the columns of a table's live files, and of their row groups: loaded column
by column, as predicates ask for them, and kept.

What is damaged, contradictory or not understood is unknown: it costs skipping, never rows.

Source: docs/format.md, sections 5.2, 6.2 and 6.5.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptError
from ..data.unify import Shown, shown, stored_names
from ..format import compute as pc
from ..format.columns import array, column, distinct, empty_table, is_null, numbers, one_chunk
from ..format.names import IN_PLACE
from ..format.run import files_rows
from ..format.schema import partition_columns
from ..format.segments import NO_NAN, ROW_GROUP_STATISTICS, ROW_GROUPS, STATISTICS
from ..format.statistics import bound_type, encode_float, value_statistics
from ..format.statistics_rows import (
    StatisticsRows,
    is_text_kind,
    known_keys,
    statistics_rows,
    text_bounds,
)
from ..log.checkpoint_files import decode_describing, decode_statistics
from ..log.merge import rows_schema
from ..log.state import SMALL_BYTES
from ..where.outcomes import Bounds, Facts, Outcomes, outcomes
from .statistics import StatisticsWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..format.pieces import Piece
    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.part import Part
    from ..log.state import State
    from ..wire import lakelog_transaction_pb2 as wire
    from .row_filter import RowFilter

    _ByColumn = dict[str, tuple[np.ndarray, pa.Table]]


@dataclass(slots=True)
class Units:
    """What is judged one by one: files, or row groups of files.

    Attributes:
        rows: Per unit its number of rows.
        external: Per unit whether its file is an external one: its statistics are the word of
            another writer, by which rows are skipped and nothing is proven.
        schema_numbers: Per unit which of the schemas it has.
        schemas: Those, and what files of them show.
    """

    rows: np.ndarray
    external: np.ndarray
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

    def judge(self, wanted: RowFilter, *, proven: bool = False) -> Outcomes:
        """The outcomes that a predicate may have among the rows of each unit.

        Args:
            proven: As for `by_schema`.
        """
        true, false, null = (np.zeros(len(self.rows), np.bool_) for _ in range(3))
        for members, facts in self.by_schema(wanted.target, proven=proven):
            found = outcomes(wanted.predicate, facts)
            if len(members) == len(true):
                return found
            true[members], false[members], null[members] = found.true, found.false, found.null
        return Outcomes(true, false, null)

    def by_schema(
        self, target: pa.Schema, *, proven: bool = False
    ) -> Iterator[tuple[np.ndarray, Callable[[str], Facts]]]:
        """The units of each schema: their places, and what is known of a column of them.

        Args:
            target: The columns that facts are asked of, as the cut has them.
            proven: Without the statistics of external files. A change asks so before it removes a
                file, or passes over one: a wrong bound would cost rows for good.
        """
        groups = self._groups
        if groups is None:
            everyone = enumerate(self.schemas)
            members = [(np.flatnonzero(self.schema_numbers == n), schema) for n, schema in everyone]
            groups = [UnitsOfSchema(self, s, found) for found, s in members if len(found)]
            self._groups = groups  # another thread may let go of them meanwhile
        for group in groups:
            yield group.members, group.reader(target, proven=proven)

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
    """The units of one schema; `members` are their places among all units."""

    def __init__(self, units: Units, shown: Shown, members: np.ndarray) -> None:
        self.members = members
        self._shown = shown
        self._units = units
        self._rows = units.rows[members]
        self._external = units.external[members]
        self._by_partition = frozenset(partition_columns(shown.own))
        self._known: dict[str, Facts] = {}  # by what the files call a column

    def forget(self, name: str) -> None:
        """Let go of what was known of a column, as the files call it."""
        self._known.pop(name, None)

    def reader(self, target: pa.Schema, *, proven: bool = False) -> Callable[[str], Facts]:
        """What is known of a column, by its name; of no column what holds of any.

        Args:
            proven: As for `Units.by_schema`.
        """
        there = self._shown.found(target)
        doubted = self._external if proven and self._external.any() else None

        def facts(name: str) -> Facts:
            if name in there.defaults:
                return of_constant(there.defaults[name], self._rows)
            if name not in there.stored:
                return Facts(None, self._rows, np.full(len(self._rows), -1, np.int64))
            own = there.stored[name]
            found = self._known.get(own)
            if found is None:
                found = self._known[own] = self._facts(own)
            if doubted is None or own in self._by_partition:
                return found
            return _without(found, doubted)

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


def _without(facts: Facts, some: np.ndarray) -> Facts:
    """The same facts, but nothing of some units."""

    def left(bounds: Bounds | None) -> Bounds | None:
        return None if bounds is None else replace(bounds, known=bounds.known & ~some)

    return replace(
        facts,
        nulls=np.where(some, -1, facts.nulls),
        low=left(facts.low),
        high=left(facts.high),
        no_nan=None if facts.no_nan is None else facts.no_nan & ~some,
    )


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


# --- Of the files of a table ----------------------------------------------------------------------

_SHIFT = 31  # rows and row groups are below 2^31


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row groups, by file and number.

    Attributes:
        places: Per row group its file.
        numbers: Per row group its number in the file.
        units: What is known of them.
    """

    places: np.ndarray
    numbers: np.ndarray
    units: Units

    def places_of(self, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Which of these some row groups are, by file and number; -1: none."""
        keys = (self.places << _SHIFT) + self.numbers
        spoken = (rows << _SHIFT) + order.astype(np.int64)
        found = np.searchsorted(keys, spoken)
        hit = (found < len(keys)) & (rows >= 0)
        hit[hit] = keys[found[hit]] == spoken[hit]
        return np.where(hit, found, -1)


def known_row_groups(
    files: Units, live: np.ndarray, stated: np.ndarray, said: pa.Table | None
) -> RowGroups:
    """The row groups that can be judged.

    Args:
        files: Those of the files.
        live: Per file whether it is.
        stated: Per file how many row groups it has.
        said: Rows of ROW_GROUPS; None: there are none.
    """
    if said is None or not said.num_rows:
        nothing = np.zeros(0, np.int64)
        units = Units(nothing, nothing.astype(np.bool_), nothing, files.schemas)
        return RowGroups(nothing, nothing, units)
    places, order, rows = (
        numbers(said.column(name)).astype(np.int64) for name in ("row", "row_group", "row_count")
    )
    inside = (places >= 0) & (places < len(live))
    at = np.where(inside, places, 0)
    fits = inside & (order >= 0) & (order < stated[at])
    sound = live & (stated > 1)
    for counted in (inside, fits):  # as many as stated, and no other
        sound &= np.bincount(at[counted], minlength=len(live)) == stated
    keys = (places << _SHIFT) + order
    unique, often = np.unique(keys[fits], return_counts=True)
    sound[unique[often > 1] >> _SHIFT] = False
    chosen = np.flatnonzero(fits & sound[at])
    chosen = chosen[np.argsort(keys[chosen])]
    of_file = places[chosen]
    units = Units(
        rows[chosen], files.external[of_file], files.schema_numbers[of_file], files.schemas
    )
    return RowGroups(of_file, order[chosen], units)


_NOTHING: Final = Shown(pa.schema([]), pa.schema([]), {})
KEPT_FACTS: Final = 1 << 24  # of one table, in files times columns; beyond, all are read anew


@dataclass(slots=True)
class Source:
    """The files of a table in one piece, or what was added since.

    Attributes:
        files: Core columns of FILES, of the table alone.
        live: Per file whether it is live.
        units: What is known of the files.
        part: The piece; None for what was added since.
        first: Its row at which the files begin.
        row_groups: What is known of row groups; None: nobody asked yet.
    """

    files: pa.Table
    live: np.ndarray
    units: Units
    part: Part | None = None
    first: int = 0
    row_groups: RowGroups | None = None


class TableFacts:
    """The live files of one table in one log, and what is known of their columns.

    Threads may share one: what several ask for at a time is loaded once, while the others wait.

    Args:
        of: What `state.table_of(table)` gave, in whole or of one partition.
        as_stored: Whether columns are meant as the files have them, whatever their log's definition
            of the table makes of them.
    """

    def __init__(
        self,
        state: State,
        table: str,
        of: tuple[Files, KnownSchemas],
        *,
        as_stored: bool = False,
    ) -> None:
        self.state = state
        self.table = table
        self.as_stored = as_stored
        self.files, self._schemas = of
        self._loaded: set[tuple[int, str]] = set()
        self._loading = RLock()

    def of_files(self, columns: Sequence[str]) -> list[Source]:
        """The files piece by piece, in the order of `Files.table`, with what is known of some
        columns.

        Requests: 1 GET for each piece of statistics of columns that nobody asked for before.
        """
        with self._loading:
            self._load(STATISTICS, self.stored(columns))
            return self._sources

    def of_row_groups(self, columns: Sequence[str]) -> list[Source]:
        """The same, each with its `row_groups`.

        Requests: Of parts whose files have several row groups 1 GET for each piece of files and row
            groups, the first time, and of their statistics, as for `of_files`.
        """
        with self._loading:
            for source in self._sources:
                if source.row_groups is None:
                    source.row_groups = self._row_groups(source)
            self._load(ROW_GROUP_STATISTICS, self.stored(columns))
            return self._sources

    def stored(self, columns: Iterable[str]) -> list[str]:
        """What the files call some columns, each once."""
        return stored_names(self._shown_of.values(), columns)

    # --- Files and row groups ---------------------------------------------------------------------

    @cached_property
    def _sources(self) -> list[Source]:
        found = []
        for part in (part for part in self.files.parts if self.table in part.run.ranges):
            start, end = part.run.ranges[self.table]
            live = np.ones(end - start, np.bool_) if part.dead is None else ~part.dead[start:end]
            rows = part.run.core.slice(start, end - start)
            found.append(Source(rows, live, self._units(rows), part, start))
        if self._adds:
            rows = files_rows(self._adds, [0] * len(self._adds))
            found.append(Source(rows, np.ones(len(self._adds), np.bool_), self._units(rows)))
        return found

    @cached_property
    def _adds(self) -> list[wire.Add]:
        return [add for add, _ in self.files.added.get(self.table, {}).values()]

    @cached_property
    def _said_of_adds(self) -> StatisticsRows:
        schemas = {(self.table, name): schema for name, schema in self.schemas.items()}
        return statistics_rows(self._adds, schemas)

    @cached_property
    def schemas(self) -> dict[bytes, pa.Schema]:
        """Schemas of the table, by fingerprint."""
        return {entry.fingerprint: entry.schema for entry in self._schemas.of_table(self.table)}

    @cached_property
    def _shown_of(self) -> dict[bytes, Shown]:
        definition = None if self.as_stored else self.state.definitions.of(self.table)
        return {name: shown(schema, definition) for name, schema in self.schemas.items()}

    def _units(self, rows: pa.Table) -> Units:
        fingerprints = rows.column("schema_fingerprint")
        found = distinct(fingerprints)
        if len(found) == 1:
            codes = np.zeros(rows.num_rows, np.int32)
        else:
            codes = numbers(pc.index_in(fingerprints, column(found, fingerprints.type)))
        # Of files that a part still lists and that are gone the schema may have been forgotten.
        schemas = [self._shown_of.get(name, _NOTHING) for name in found]
        external = numbers(pc.starts_with(rows.column("path"), IN_PLACE)).astype(np.bool_)
        return Units(numbers(rows.column("row_count")), external, codes, schemas)

    def _row_groups(self, source: Source) -> RowGroups:
        count = len(source.live)
        if source.part is None:
            said = self._said_of_adds.row_groups
            stated = np.array([len(add.row_groups) for add in self._adds], np.int64)
        else:
            pieces = [piece for piece in source.part.described_by if piece.kind == ROW_GROUPS]
            if not pieces:
                return known_row_groups(source.units, source.live, np.zeros(count, np.int64), None)
            said = _row_groups(pieces, self._fetched(pieces), source.first)
            whole = source.part.run.full().column("row_groups").slice(source.first, count)
            stated = numbers(whole).astype(np.int64)
        return known_row_groups(source.units, source.live, stated, said)

    # --- Statistics -------------------------------------------------------------------------------

    def _load(self, kind: int, columns: Sequence[str]) -> None:
        new = [name for name in columns if (kind, name) not in self._loaded]
        if not new:
            return
        held = sum(len(source.live) for source in self._sources) * len(self._loaded)
        if held > KEPT_FACTS:
            self._forget()
            new = list(columns)
        for source, found in self._said(kind, new):
            for name in found.keys() & set(new):
                rows, said = found[name]
                if kind == STATISTICS:
                    source.units.take(name, said, within(rows, len(source.live)))
                elif source.row_groups is not None:
                    places = source.row_groups.places_of(rows, numbers(said.column("row_group")))
                    source.row_groups.units.take(name, said, places)
        self._loaded.update((kind, name) for name in new)

    def _said(self, kind: int, columns: Sequence[str]) -> Iterator[tuple[Source, _ByColumn]]:
        """What is said of some columns, perhaps beside others, with rows counted from the first
        file of the table."""
        wanted = [
            (source, piece)
            for source in self._sources
            for piece in _of_columns(source.part, kind, columns)
        ]
        bodies = self._fetched([piece for _, piece in wanted])
        wanted = [(source, piece) for source, piece in wanted if id(piece) in bodies]

        def decoded(one: tuple[Source, Piece]) -> _ByColumn | CorruptError:
            source, piece = one
            try:
                found = decode_statistics(bodies[id(piece)], piece)
            except CorruptError as error:
                return error
            return {name: (rows - source.first, said) for name, (rows, said) in found.items()}

        is_large = sum(piece.length for _, piece in wanted) > SMALL_BYTES
        several = (self.state.map_large if is_large else map)(decoded, wanted)
        for (source, _), result in zip(wanted, several, strict=True):
            if isinstance(result, CorruptError):
                _warn(result)
            else:
                yield source, result
        last = self._sources[-1] if self._sources else None
        if last is not None and last.part is None:
            said = self._said_of_adds
            yield last, _by_column(said.files if kind == STATISTICS else said.groups, columns)

    def _forget(self) -> None:
        self._loaded.clear()
        for source in self._sources:
            source.units.forget()
            if source.row_groups is not None:
                source.row_groups.units.forget()

    def _fetched(self, pieces: Sequence[Piece]) -> dict[int, memoryview]:
        """Bytes of pieces, by their identity; those that are damaged or gone are left out."""
        try:
            return dict(zip(map(id, pieces), self.state.bytes_of(pieces), strict=True))
        except CorruptError:
            pass
        found = {}
        for piece in pieces:
            try:
                found[id(piece)] = self.state.bytes_of([piece])[0]
            except CorruptError as error:
                _warn(error)
        return found


def _of_columns(part: Part | None, kind: int, columns: Iterable[str]) -> list[Piece]:
    """The pieces of statistics of a part that may speak of some columns."""
    wanted = set(columns)
    pieces = () if part is None else part.described_by
    return [p for p in pieces if p.kind == kind and not wanted.isdisjoint(p.segment.columns)]


def _by_column(said: pa.Table, columns: Sequence[str]) -> _ByColumn:
    """Rows of statistics as they are worked with, of some columns, column by column."""
    if not said.num_rows:
        return {}
    rows = numbers(said.column("row")).astype(np.int64)
    found = {}
    for name in columns:
        own = numbers(pc.equal(said.column("column"), column([name], pa.string())[0]))
        found[name] = (rows[own], pc.filter(said, array(own)))
    return found


def _row_groups(pieces: Sequence[Piece], bodies: dict[int, memoryview], first: int) -> pa.Table:
    """What pieces of ROW_GROUPS say, with rows counted from the first file of the table."""
    found = [empty_table(rows_schema(ROW_GROUPS))]
    for piece in pieces:
        if id(piece) in bodies:
            try:
                found.append(decode_describing(bodies[id(piece)], piece))
            except CorruptError as error:
                _warn(error)
    rows = pa.concat_tables(found).combine_chunks()
    if not first:
        return rows
    shifted = array((numbers(rows.column("row")) - first).astype(np.int32))
    at = rows.schema.get_field_index("row")
    return rows.set_column(at, rows.schema.field(at), shifted)


def _warn(error: CorruptError) -> None:
    what = f"{error.message}: unknown, so nothing is skipped by it"
    warnings.warn(what, StatisticsWarning, stacklevel=6)
