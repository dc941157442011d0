"""The key of a table at a cut: which rows of its files newer ones supersede.

Source: docs/changing.md, "Keys"; docs/format.md, section 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from ...errors import SchemaConflict
from ..data.hidden import Hidden
from ..data.unify import column_names
from ..format import compute as pc
from ..format.columns import array, column, numbers
from ..format.deletes import encode_bitmap
from ..format.names import base_folder
from ..format.run import original_revisions
from ..format.schema import is_key_type, once_columns
from ..format.statistics import bound_type
from ..format.statistics_rows import is_text_kind
from .file_order import file_numbers
from .file_parts import file_parts, keyed, keys_of, projected

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ...store import Store
    from ..data.file_part import FilePart
    from ..data.unify import FileSchema, Shown
    from ..log.files import Files
    from ..log.known_schemas import KnownSchemas
    from ..log.state import State
    from ..where.outcomes import Bounds, Facts
    from .table_facts import TableFacts


# --- Ranges of keys: which files can share one ----------------------------------------------------

LEAST: Final = np.iinfo(np.int64).min
GREATEST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The live files of a table that hold keys, in all logs of a cut, each by its place.

    Attributes:
        logs: Per file its log, by number.
        paths: Per file its path there, as an array of strings.
        rows: Per file how many it has.
        low, high: Per file the least and the greatest value that the first column of the key may
            have, as ranks.
        once: Per file whether it holds each key once, for certain.
    """

    logs: np.ndarray
    paths: pa.Array
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    once: np.ndarray

    def meeting(self, some: np.ndarray) -> np.ndarray:
        """Returns per file how many of `some` files (places, or a mask) have a range that meets its
        own; itself counts."""
        starts, ends = np.sort(self.low[some]), np.sort(self.high[some])
        before = np.searchsorted(ends, self.low, "left")
        behind = len(starts) - np.searchsorted(starts, self.high, "right")
        found: np.ndarray = len(starts) - before - behind
        return found

    def touched(self) -> np.ndarray:
        """Which files may hold a key that another row has."""
        everyone = np.ones(len(self.rows), np.bool_)
        found: np.ndarray = (self.meeting(everyone) > 1) | ~self.once
        return found

    def groups(self, wanted: np.ndarray) -> list[np.ndarray]:
        """Returns what must be read to resolve the keys of the `wanted` files (a mask): groups of
        files, by place, of which no two share a key."""
        if not wanted.any():
            return []
        places = np.flatnonzero(self.meeting(wanted) > 0)
        places = places[np.argsort(self.low[places], kind="stable")]
        reached = np.maximum.accumulate(self.high[places])
        starts = np.flatnonzero(self.low[places][1:] > reached[:-1]) + 1
        return np.split(places, starts)


@dataclass(frozen=True, slots=True)
class _Some:
    """Files of one log and one schema: bounds as the log has them."""

    logs: np.ndarray
    paths: pa.Array
    rows: np.ndarray
    once: np.ndarray
    kind: pa.DataType | None
    low: Bounds | None
    high: Bounds | None


def key_ranges(logs: Sequence[TableFacts], target: pa.Schema) -> KeyRanges:
    """What some logs know of the files of one table.

    Args:
        target: The columns of the key, as the cut has them.
    Requests: Those of `TableFacts.of_files` of these columns.
    """
    found: list[_Some] = []
    for number, facts in enumerate(logs):
        for source in facts.of_files(target.names):
            for members, facts_of in source.units.by_schema(target, proven=True):
                shown = source.units.schemas[source.units.schema_numbers[members[0]]]
                known = [facts_of(name) for name in target.names]
                held = _with_keys(known, target, shown) & source.live[members]
                if held.any():
                    paths = source.files.column("path").take(array(members[held]))
                    once = ~source.units.external[members[held]] & _holds_once(shown, target)
                    found.append(_some(number, paths, known, held, once))
    rows = _joined([some.rows for some in found])
    known_low, low, known_high, high = _ranks(found, target.field(0).type)
    return KeyRanges(
        logs=_joined([some.logs for some in found]),
        paths=pa.concat_arrays([some.paths for some in found])
        if found
        else column((), pa.string()),
        rows=rows,
        low=np.where(known_low, low, LEAST),
        high=np.where(known_high, high, GREATEST),
        once=_joined([some.once for some in found]).astype(np.bool_),
    )


def _with_keys(known: Sequence[Facts], target: pa.Schema, shown: Shown) -> np.ndarray:
    """Which files may hold a row without null in any column of the key."""
    there = shown.found(target)
    held = np.ones(len(known[0].rows), np.bool_)
    for name, facts in zip(target.names, known, strict=True):
        if name not in there.defaults and name not in there.stored:
            held[:] = False
        held &= (facts.nulls < facts.rows) | (facts.nulls < 0)
    return held & (known[0].rows > 0)


def _holds_once(shown: Shown, target: pa.Schema) -> bool:
    """Whether files of a schema are marked to hold each value of some columns of the key once."""
    marked = set(once_columns(shown.own))
    return bool(marked) and marked.issubset(shown.found(target).stored.values())


def _some(
    number: int,
    paths: pa.ChunkedArray,
    known: Sequence[Facts],
    held: np.ndarray,
    once: np.ndarray,
) -> _Some:
    first = known[0]
    return _Some(
        np.full(len(once), number, np.int64),
        paths.combine_chunks(),
        first.rows[held],
        once,
        first.kind,
        _taken(first.low, held),
        _taken(first.high, held),
    )


def _taken(bounds: Bounds | None, held: np.ndarray) -> Bounds | None:
    from ..where.outcomes import Bounds as Found

    if bounds is None:
        return None
    is_array = isinstance(bounds.values, np.ndarray)
    values = bounds.values[held] if is_array else pc.filter(bounds.values, array(held))
    return Found(values, bounds.known[held])


def _ranks(
    found: Sequence[_Some], kind: pa.DataType
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Which lower bounds are known, and these; likewise the upper ones. Bounds are compared where
    they are of one type, that of the cut: others are unknown."""
    wanted = bound_type(kind)
    same = [wanted is not None and _bounds_of(some) == wanted for some in found]
    lows = [some.low if fits else None for some, fits in zip(found, same, strict=True)]
    highs = [some.high if fits else None for some, fits in zip(found, same, strict=True)]
    counts = [len(some.rows) for some in found]
    low, high = _known(lows, counts), _known(highs, counts)
    if wanted is None or not is_text_kind(wanted):
        return low, _numbers(lows, counts), high, _numbers(highs, counts)
    texts = [
        _texts(bounds, count) for bounds, count in zip([*lows, *highs], counts * 2, strict=True)
    ]
    ranks = _dense(texts)
    return low, ranks[: len(low)], high, ranks[len(low) :]


def _bounds_of(some: _Some) -> pa.DataType | None:
    return None if some.kind is None else bound_type(some.kind)


def _dense(texts: Sequence[pa.Array]) -> np.ndarray:
    if not texts:
        return np.zeros(0, np.int64)
    ranked: Callable[..., pa.Array] = pc.rank
    return numbers(ranked(pa.concat_arrays(texts), tiebreaker="dense")).astype(np.int64)


def _known(parts: Sequence[Bounds | None], counts: Sequence[int]) -> np.ndarray:
    nothing = [np.zeros(count, np.bool_) for count in counts]
    found = [n if b is None else b.known for b, n in zip(parts, nothing, strict=True)]
    return _joined(found).astype(np.bool_)


def _numbers(parts: Sequence[Bounds | None], counts: Sequence[int]) -> np.ndarray:
    nothing = [np.zeros(count, np.int64) for count in counts]
    return _joined([n if b is None else b.values for b, n in zip(parts, nothing, strict=True)])


def _texts(bounds: Bounds | None, count: int) -> pa.Array:
    if bounds is None:
        return pa.nulls(count, pa.binary())
    values = bounds.values
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


# --- Rows that another one with their key supersedes ----------------------------------------------

_NOTHING = (b"", 0)


def table_key(states: Iterable[State], table: str) -> tuple[str, ...]:
    """Returns the key that the logs of a cut give a table; logs that give none don't count. Raises
    `SchemaConflict` if two give it different ones, and `CorruptObject`."""
    found: dict[frozenset[str], tuple[str, tuple[str, ...]]] = {}
    for state in states:
        definition = state.definitions.of(table)
        if definition is not None and definition.key:
            found.setdefault(frozenset(definition.key), (state.writer, definition.key))
    if len(found) > 1:
        (first, one), (second, other) = list(found.values())[:2]
        raise SchemaConflict(
            f"The key of table {table!r} is {_words(one)} in the log of {first!r} and "
            f"{_words(other)} in that of {second!r}",
            key=table,
            writers=(first, second),
            hint="Give all logs the same: catalog.evolve(database, table, key=[...])",
        )
    return next(iter(found.values()))[1] if found else ()


def _words(key: Iterable[str]) -> str:
    return f"({', '.join(key)})"


class Tables(Protocol):
    """The tables of a database at a cut: see `CutTables`, which has these."""

    database: str
    states: Sequence[State]

    def file_schemas(self, table: str, writer: str | None = None) -> list[FileSchema]:
        """The schemas of its live files."""

    def table_of(
        self, state: State, table: str, partition: str | None = None
    ) -> tuple[Files, KnownSchemas]:
        """Its files and schemas in one log."""

    def facts_of(self, state: State, table: str, partition: str | None = None) -> TableFacts:
        """What one log knows of the columns of its files."""

    def shown(self, state: State, table: str, fingerprint: bytes) -> Shown:
        """What files of a schema show in one log."""


class TableKeys:
    """What is known of the keys of one table at a cut. What was found out is kept: a cut never
    changes. Safe to use from many threads.

    Attributes:
        key: Its columns.
    """

    def __init__(self, tables: Tables, table: str, key: tuple[str, ...]) -> None:
        self.key = key
        self._tables = tables
        self._table = table
        self._superseded: dict[int, tuple[bytes, int]] = {}  # by place a bitmap, and its rows
        self._guard = RLock()

    def resolved(
        self, store: Store, asked: Sequence[tuple[State, Sequence[FilePart]]]
    ) -> list[FilePart]:
        """Files that are asked for, each with the rows that newer ones supersede, of whatever live
        file of the table they are.

        Args:
            asked: By log, in the order wanted.
        Raises:
            SchemaConflict: The columns of the key have no common type, or one no key can have.
            ObjectNotFound, CorruptObject: A file can't be read.
        Requests: Of `touched` those; 1 or more GET for each file whose range of keys meets that of
            one asked for, and of these where it meets another, or may hold a key twice.
        """
        with self._guard:
            if not self._places:
                return [part for _, parts in asked for part in parts]
            found: list[tuple[FilePart, int | None]] = [
                (part, self._places.get((state.writer, part.key)))
                for state, parts in asked
                for part in parts
            ]
            self._resolve(store, {at for _, at in found if at is not None} - set(self._superseded))
            return [
                part if at is None else _hiding(part, *self._superseded[at]) for part, at in found
            ]

    def touched(self) -> int:
        """How many files may hold a key that another row has.

        Requests: Those of `TableFacts.of_files` of the columns of the key.
        """
        return len(self._places)

    def meeting(self, writer: str, keys: Sequence[str]) -> list[int]:
        """Returns per file of a log, by its key in the store, how many files are read to resolve
        its keys."""
        places = [self._places.get((writer, key)) for key in keys]
        if not self._places:
            return [0] * len(keys)
        counts = self.ranges.meeting(np.ones(len(self.ranges.rows), np.bool_))
        return [0 if at is None else int(counts[at]) for at in places]

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in the types of the cut; empty if no file has all. Raises `SchemaConflict` as
        `resolved`."""
        return tuple(field.name for field in self._target or ())

    def near(self, files: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """The files that may share keys with some files of the cut, all by writer and path.

        Requests: Those of `TableFacts.of_files` of the columns of the key.
        """
        if self._target is None:
            return set()
        paths = self.ranges.paths.to_pylist()
        writers = [state.writer for state in self._tables.states]
        named = [(writers[n], path) for n, path in zip(self.ranges.logs, paths, strict=True)]
        chosen = np.array([name in files for name in named], np.bool_)
        return {named[at] for at in np.flatnonzero(self.ranges.meeting(chosen) > 0)}

    @cached_property
    def _target(self) -> pa.Schema | None:
        """The columns of the key as the cut has them; None: no file has all."""
        schemas = self._tables.file_schemas(self._table)
        if not set(self.key).issubset(column_names(schemas)):
            return None
        found = projected(schemas, self._table, self.key, None).read
        for field in found:
            if not is_key_type(field.type):
                raise SchemaConflict(
                    f"Column {field.name!r} of the key of table {self._table!r} is {field.type} in "
                    "files of some logs, which no key can have",
                    key=field.name,
                    hint="Take the key away: catalog.evolve(database, table, key=[])",
                )
        return found

    @cached_property
    def ranges(self) -> KeyRanges:
        """What the logs know of the files that hold keys."""
        assert self._target is not None
        logs = [self._tables.facts_of(state, self._table) for state in self._tables.states]
        return key_ranges(logs, self._target)

    @cached_property
    def _places(self) -> dict[tuple[str, str], int]:
        """By writer and key of its object the place of each file that is touched."""
        if self._target is None:
            return {}
        ranges = self.ranges
        touched = ranges.touched()
        found: dict[tuple[str, str], int] = {}
        for number, state in enumerate(self._tables.states):
            places = np.flatnonzero(touched & (ranges.logs == number))
            paths = pa.chunked_array([ranges.paths.take(array(places))])
            folder = base_folder(state.writer, self._tables.database)
            keys = keys_of(paths, folder, state)
            found |= {(state.writer, k): at for k, at in zip(keys, places.tolist(), strict=True)}
        return found

    def _resolve(self, store: Store, new: set[int]) -> None:
        if not new:
            return
        from ..data.key_rows import KeyFile, superseded_rows

        target, ranges = self._target, self.ranges
        assert target is not None
        wanted = np.zeros(len(ranges.rows), np.bool_)
        wanted[list(new)] = True
        groups = ranges.groups(wanted)
        parts = self._parts(np.concatenate(groups))
        order = {at: number for number, at in enumerate(parts)}
        for group in groups:
            oldest_first = sorted(group.tolist(), key=order.__getitem__)
            files = [
                KeyFile(
                    parts[at],
                    int(ranges.low[at]),
                    int(ranges.high[at]),
                    bool(ranges.once[at]),
                    bool(wanted[at]),
                )
                for at in oldest_first
            ]
            for at, rows in zip(oldest_first, superseded_rows(store, files, target), strict=True):
                if wanted[at]:
                    found = (encode_bitmap(rows), len(rows)) if len(rows) else _NOTHING
                    self._superseded[at] = found

    def _parts(self, places: np.ndarray) -> dict[int, FilePart]:
        """What reading some files needs, by place, the older first: by logical clock, writer, the
        revision that first added them, number in their transaction, and path."""
        parts: dict[int, FilePart] = {}
        rows: list[pa.Table] = []
        for number, state in enumerate(self._tables.states):
            own = places[self.ranges.logs[places] == number]
            if not len(own):
                continue
            files, _ = self._tables.table_of(state, self._table)
            paths = self.ranges.paths.take(array(own))
            held = files.table(self._table, whole=True)
            held = pc.filter(held, pc.is_in(held.column("path"), paths))
            at = own[numbers(pc.index_in(held.column("path"), paths)).astype(np.int64)]
            folder = base_folder(state.writer, self._tables.database)
            shown = partial(self._tables.shown, state, self._table)
            found = keyed(file_parts(held, folder, shown, {}, {}), folder, state)
            parts |= dict(zip(at.tolist(), found, strict=True))
            rows.append(
                held.select(["last_clock", "path"])
                .append_column("revision", original_revisions(held))
                .append_column("log", column([number] * len(own), pa.int64()))
                .append_column("number", file_numbers(held.column("path")))
                .append_column("place", array(at))
            )
        names = ("last_clock", "log", "revision", "number", "path")
        order = pa.concat_tables(rows).sort_by([(name, "ascending") for name in names])
        return {at: parts[at] for at in order.column("place").to_pylist()}


def _hiding(part: FilePart, superseded: bytes, rows: int) -> FilePart:
    if not rows:
        return part
    before = part.hidden or Hidden()
    return replace(part, hidden=replace(before, superseded=superseded, superseded_rows=rows))
