"""Rows of a file that deletes hide: by tombstones' predicates and by bitmaps of row numbers.

A predicate is decided on the file's own values, whatever the table's columns have become since:
each of its columns has a name and a generation in the file, and a file that has none is null there.

Source: docs/format.md, sections 5.5 and 5.6.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, InvalidPredicate, ObjectNotFound, SchemaConflict
from ..format.columns import array, numbers
from ..format.deletes import bitmap_rows, damaged, decode_bitmap
from ..format.deletes_object import bitmaps_of
from ..format.schema import decode_schema, generation
from ..format.widening import plain, widen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store import Store
    from ..log.deletes import Tombstone
    from ..where.tree import Predicate

_KEPT_OBJECTS: Final = 4
_NO_ROWS: Final = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Bitmap:
    """Where a bitmap of rows lies.

    Attributes:
        key: The object, relative to the root.
        offset, length: Its bytes there.
        cardinality: How many rows it names.
        digest: SHA-256 of its bytes.
    """

    key: str
    offset: int
    length: int
    cardinality: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Hidden:
    """What hides rows of one file.

    Attributes:
        tombstones: Those of which a row of it may be.
        bitmaps: All that hold of it.
        superseded: The rows of which another of the same key is newer, as a bitmap; empty for none.
        superseded_rows: How many these are.
    """

    tombstones: tuple[Tombstone, ...] = ()
    bitmaps: tuple[Bitmap, ...] = ()
    superseded: bytes = b""
    superseded_rows: int = 0

    def __str__(self) -> str:
        words = []
        if self.tombstones:
            some = len(self.tombstones)
            words.append(f"{some} tombstone{'s' if some > 1 else ''}")
        if self.bitmaps:
            most = sum(each.cardinality for each in self.bitmaps)
            words.append(f"{'at most ' if len(self.bitmaps) > 1 else ''}{most} rows by number")
        if self.superseded_rows:
            words.append(f"{self.superseded_rows} rows by newer ones of their keys")
        return ", ".join(words)


def with_superseded(rows: np.ndarray, hidden: Hidden) -> np.ndarray:
    """Numbers of hidden rows with those that newer ones of their keys hide, ascending."""
    if not hidden.superseded:
        return rows
    more = bitmap_rows(hidden.superseded)
    return np.union1d(rows, more) if len(rows) else more


class Bitmaps:
    """Objects of bitmaps, read once and the newest kept. Safe to use from many threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bodies: OrderedDict[str, memoryview] = OrderedDict()
        self._guard = Lock()

    def rows(self, bitmaps: Sequence[Bitmap]) -> np.ndarray:
        """The row numbers in some bitmaps together, ascending and distinct.

        Raises:
            ObjectNotFound: An object is gone.
            CorruptObject: It isn't what the log says.
        Requests: 1 GET for an object that is not among the last ones.
        """
        found = [self._rows(bitmap) for bitmap in bitmaps]
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else _NO_ROWS

    def _rows(self, bitmap: Bitmap) -> np.ndarray:
        body = self._body(bitmap.key)
        end = bitmap.offset + bitmap.length
        if end > len(body):
            raise damaged(bitmap.key, f"has {len(body)} bytes, a bitmap lies up to byte {end}")
        data = body[bitmap.offset : end]
        return decode_bitmap(data, bitmap.digest, bitmap.cardinality, bitmap.key)

    def _body(self, key: str) -> memoryview:
        with self._guard:
            body = self._bodies.get(key)
            if body is None:
                try:
                    body = self._bodies[key] = bitmaps_of(self._store.get(key), key)
                except ObjectNotFound as error:
                    error.hint = (
                        "It says which rows of files were deleted, and is gone: restore it from a "
                        "copy, or read a point in time before the delete"
                    )
                    raise
                while len(self._bodies) > _KEPT_OBJECTS:
                    self._bodies.popitem(last=False)
            return body


class Hiding:
    """Hides rows of batches of one file.

    Args:
        hidden: What does.
        schema: The file's own, with column identity.
        key: The file, for errors.
        rows: Numbers of hidden rows, ascending.
    """

    def __init__(
        self, hidden: Hidden, schema: pa.Schema, key: str, rows: np.ndarray = _NO_ROWS
    ) -> None:
        self._key = key
        self._rows = rows
        self._filters = [_filter_of(each, schema, key) for each in hidden.tombstones]

    @property
    def columns(self) -> list[str]:
        """Columns of the file that must be read."""
        names = (name for each in self._filters for name in each.names if name is not None)
        return list(dict.fromkeys(names))

    def hidden(self, batch: pa.RecordBatch, places: np.ndarray) -> np.ndarray:
        """Which rows of a batch are hidden.

        Args:
            batch: With `columns`, as the file has them.
            places: The numbers of its rows in the file, ascending.
        """
        found = np.zeros(batch.num_rows, np.bool_)
        if len(self._rows) and len(places):
            at = np.searchsorted(self._rows, places)
            at[at == len(self._rows)] = 0
            found |= self._rows[at] == places
        for each in self._filters:
            found |= each.true_of(batch, self._key)
        return found

    def left(
        self, batch: pa.RecordBatch, places: np.ndarray, names: list[str]
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows of a batch that are not hidden, and their numbers in the file.

        Args:
            names: The columns to be given.
        """
        chosen = batch.select(names)
        if not len(self._rows) and not self._filters:
            return chosen, places
        hidden = self.hidden(batch, places)
        return (
            (chosen.filter(array(~hidden)), places[~hidden]) if hidden.any() else (chosen, places)
        )


@dataclass(frozen=True, slots=True)
class TombstoneFilter:
    """A tombstone's predicate, bound to one schema of files.

    Attributes:
        predicate: Bound to `target`.
        target: The columns that it looks at.
        names: Per column its name in the file; None: the file has none.
    """

    predicate: Predicate
    target: pa.Schema
    names: tuple[str | None, ...]

    def true_of(self, batch: pa.RecordBatch, key: str) -> np.ndarray:
        """Of which rows of a batch the predicate is true."""
        from ..where.arrow import mask

        columns = []
        try:
            for name, field in zip(self.names, self.target, strict=True):
                if name is None:
                    columns.append(pa.nulls(batch.num_rows, field.type))
                    continue
                values = batch.column(batch.schema.get_field_index(name))
                same = values.type.equals(field.type)
                columns.append(values if same else values.cast(field.type))
        except pa.ArrowInvalid as error:
            raise SchemaConflict(
                f"{key} holds a value that is beyond the type by which rows were deleted: {error}",
                key=key,
                hint="Read a point in time before the delete, or leave the writer's files out",
            ) from error
        if not columns:
            return np.full(batch.num_rows, _constant(self.predicate))
        found = mask(self.predicate, pa.RecordBatch.from_arrays(columns, schema=self.target))
        return numbers(found.fill_null(False)).astype(np.bool_)


def _constant(predicate: Any) -> bool:
    """What a predicate that looks at no column is of every row."""
    return getattr(predicate, "value", None) is True


def _filter_of(tombstone: Tombstone, schema: pa.Schema, key: str) -> TombstoneFilter:
    found = bound_filter(tombstone, schema)
    if isinstance(found, TombstoneFilter):
        return found
    raise SchemaConflict(
        f"Rows of table {tombstone.table!r} were deleted by column {found!r}, whose type in {key} "
        "has no common type with the one it had then",
        key=key,
        hint="Read a point in time before the delete; the file can't be read since",
    )


def bound_filter(tombstone: Tombstone, schema: pa.Schema) -> TombstoneFilter | str:
    """A tombstone's predicate for files of a schema; the name of a column if types forbid it.

    Raises:
        CorruptObject: The tombstone can't be understood.
    """
    fields: list[pa.Field] = []
    names: list[str | None] = []
    for place, field in enumerate(schema_of(tombstone)):
        name = _source(tombstone, place, schema)
        kind = plain(field.type)
        if name is not None:
            common = widen(kind, schema.field(name).type)
            if common is None:
                return str(field.name)
            kind = common
        fields.append(pa.field(field.name, kind))
        names.append(name)
    target = pa.schema(fields)
    try:
        predicate = _parsed(tombstone.predicate, target, tombstone.table)
    except InvalidPredicate as error:
        raise _not_understood(tombstone, str(error)) from error
    return TombstoneFilter(predicate, target, tuple(names))


@lru_cache(maxsize=256)
def _parsed(text: str, target: pa.Schema, table: str) -> Predicate:
    """Schemas that differ in metadata alone are equal: these have none."""
    from ..where.parse import parse_where

    return parse_where(text, target, table)


def schema_of(tombstone: Tombstone) -> pa.Schema:
    """The columns that a tombstone looks at, with the types that they had.

    Raises:
        CorruptObject: It can't be read.
    """
    try:
        return decode_schema(tombstone.arrow_schema)
    except ValueError as error:
        raise _not_understood(tombstone, str(error)) from error


def _not_understood(tombstone: Tombstone, problem: str) -> CorruptObject:
    return CorruptObject(
        f"{tombstone.where} deletes rows of table {tombstone.table!r} in a way that can't be "
        f"understood: {problem}",
        key=tombstone.where,
        hint="Was it written by a newer lakelog? Points in time before it can be read",
    )


def _source(tombstone: Tombstone, place: int, schema: pa.Schema) -> str | None:
    """The column of a file that gives the values of a column of a tombstone."""
    for column, name, number in tombstone.sources:
        at = schema.get_field_index(name)
        if column == place and at >= 0 and generation(schema.field(at)) == number:
            return name
    return None


def row_places(counts: Sequence[int], wanted: Sequence[int] | None) -> list[tuple[int, int]]:
    """Which rows of a file are read, as ranges of their numbers.

    Args:
        counts: Rows of each row group.
        wanted: The row groups that are read, in order; None: all.
    """
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    chosen = range(len(counts)) if wanted is None else wanted
    return [(int(starts[number]), int(starts[number + 1])) for number in chosen]


class Places:
    """The numbers in the file of rows that are read one batch after the other.

    Args:
        ranges: Of `row_places`.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = [each for each in ranges if each[0] < each[1]]

    def take(self, rows: int) -> np.ndarray:
        """The numbers of the next rows; fewer where the file ends, which is told elsewhere."""
        parts = []
        while rows and self._ranges:
            start, end = self._ranges[0]
            stop = min(end, start + rows)
            parts.append(np.arange(start, stop, dtype=np.int64))
            rows -= stop - start
            self._ranges[:1] = [(stop, end)] if stop < end else []
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
