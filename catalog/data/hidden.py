"""Rows of a file that deletes hide: by tests of its values, and by bitmaps of row numbers.

Source: docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from ...errors import CorruptObject, LakelogError, ObjectNotFound
from ..format.columns import array
from ..format.deletes import bitmap_rows, bitmaps_of, damaged, decode_bitmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ...store import Store

_KEPT_OBJECTS: Final = 4
_NO_ROWS: Final = np.zeros(0, np.uint32)
_NO_PLACES: Final = np.zeros(0, np.int64)


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


class BoundTest(Protocol):
    """A test of rows of files of one schema."""

    @property
    def names(self) -> Sequence[str | None]:
        """The columns of the file that it looks at; None for one that the file lacks."""

    def true_of(self, batch: pa.RecordBatch, key: str) -> np.ndarray:
        """Of which rows of a batch it is true.

        Args:
            key: The file, for errors.
        """


class RowTest(Protocol):
    """A test of rows, which can be sent to another process."""

    def bound(self, schema: pa.Schema, key: str) -> BoundTest:
        """The same for files of a schema, with the ids of columns."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What hides rows of one file.

    Attributes:
        tests: Tombstones of which a row of it may be.
        bitmaps: All that hold of it.
        superseded: The rows of which another of the same key is newer, as a bitmap; empty for none.
        superseded_rows: How many these are.
    """

    tests: tuple[RowTest, ...] = ()
    bitmaps: tuple[Bitmap, ...] = ()
    superseded: bytes = b""
    superseded_rows: int = 0

    def __str__(self) -> str:
        words = []
        if self.tests:
            some = len(self.tests)
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

    def rows(self, bitmaps: Sequence[Bitmap], row_count: int) -> np.ndarray:
        """The row numbers in some bitmaps of one file together, ascending and distinct.

        Args:
            row_count: Of the file.
        Raises:
            ObjectNotFound: An object is gone.
            CorruptObject: It isn't what the log says.
            UnsupportedFeature: It needs a later lakelog, whatever the others are.
        Requests: 1 GET for an object that is not among the last ones.
        """
        found: list[np.ndarray] = []
        problem: LakelogError | None = None
        for bitmap in bitmaps:
            try:
                found.append(self._rows(bitmap, row_count))
            except (CorruptObject, ObjectNotFound) as error:
                problem = problem or error
        if problem is not None:
            raise problem
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else _NO_ROWS

    def _rows(self, bitmap: Bitmap, row_count: int) -> np.ndarray:
        body = self._body(bitmap.key)
        end = bitmap.offset + bitmap.length
        if end > len(body):
            raise damaged(bitmap.key, f"has {len(body)} bytes, a bitmap lies up to byte {end}")
        data = body[bitmap.offset : end]
        return decode_bitmap(data, bitmap.digest, bitmap.cardinality, bitmap.key, below=row_count)

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
        schema: The file's own, with the ids of columns.
        key: The file, for errors.

    Attributes:
        rows: Numbers of hidden rows, ascending; none as long as nobody sets them.
    """

    def __init__(self, hidden: Hidden, schema: pa.Schema, key: str) -> None:
        self.rows = _NO_ROWS
        self._key = key
        self._filters = [test.bound(schema, key) for test in hidden.tests]

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
        if len(self.rows) and len(places):
            low, high = np.searchsorted(self.rows, [places[0], places[-1] + 1])
            some = self.rows[low:high]
            if places[-1] - places[0] + 1 == len(places):  # as long as no row group is skipped
                found[some - places[0]] = True
            else:
                found |= np.isin(places, some)
        for each in self._filters:
            found |= each.true_of(batch, self._key)
        return found

    def left(
        self, batch: pa.RecordBatch, places: Places, names: list[str], *, numbered: bool
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows of a batch that are not hidden, and their numbers in the file.

        Args:
            places: Gives the numbers of its rows.
            names: The columns to be given.
            numbered: Whether the numbers are asked for: 8 bytes a row, which a scan of many rows
                does without.
        """
        chosen = batch.select(names)
        needed = numbered or len(self.rows) > 0
        numbers = places.take(batch.num_rows) if needed else _NO_PLACES
        if not len(self.rows) and not self._filters:
            return chosen, numbers
        hidden = self.hidden(batch, numbers)
        if not hidden.any():
            return chosen, numbers
        return chosen.filter(array(~hidden)), numbers[~hidden] if numbered else _NO_PLACES


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
        return parts[0] if len(parts) == 1 else np.concatenate([_NO_PLACES, *parts])
