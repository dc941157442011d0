"""Rows of Parquet files as one stream of batches in one schema.

Files are read ahead by a few threads; at most a handful are in memory at a time.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import (
    CorruptObject,
    InvalidPartition,
    LakelogError,
    ObjectNotFound,
    SchemaConflict,
)
from ...store.places import is_url
from .hidden import Bitmaps, Hidden, Hiding, Places, row_places, with_superseded
from .parquet import UNKNOWN_DIGEST, footer_digest
from .partition_values import filled, told_by_partition
from .shown import shown
from .unify import conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import numpy as np

    from ...store import Store
    from .shown import Found, Shown

_AHEAD: Final = 4
_WHOLE_BYTES: Final = 32 << 20
_BATCH_ROWS: Final = 131_072


@dataclass(frozen=True, slots=True)
class BloomPlace:
    """Where the bloom filter of a column lies in a file.

    Attributes:
        row_group: By number.
        column: Name of the column in the file.
        start, end: Of the filter's bytes.
    """

    row_group: int
    column: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file to read.

    Attributes:
        key: Its object, relative to the root.
        size_bytes: Exact.
        row_count: As the log says.
        schema: Its own, with column identity.
        shown: What readers see of it; None: what it has.
        fingerprint: Of the schema, as the log keeps it.
        footer_bytes, footer_digest: Of its footer; 0 or zeros: unknown.
        row_groups: Those to be read, in order; None: all.
        row_group_count: How many the file has, as the log says; 0: unknown.
        blooms: Filters that can say more of the row groups.
        partition: The name of its partition: it tells the values of columns that the schema marks,
            which are not in the file.
        hidden: What hides rows of it; None: nothing does.
    """

    key: str
    size_bytes: int
    row_count: int
    schema: pa.Schema
    fingerprint: bytes = b""
    footer_bytes: int = 0
    footer_digest: bytes = UNKNOWN_DIGEST
    row_groups: tuple[int, ...] | None = None
    row_group_count: int = 0
    blooms: tuple[BloomPlace, ...] = ()
    partition: str = ""
    shown: Shown | None = None
    hidden: Hidden | None = None

    @property
    def form(self) -> tuple[bytes, bytes]:
        """Files of one form show the same columns in the same way."""
        return self.fingerprint, b"" if self.shown is None else self.shown.definition

    def found(self, target: pa.Schema) -> Found:
        """What it has of the columns of a target."""
        return (self.shown or shown(self.schema, None)).found(target)


@dataclass(frozen=True, slots=True)
class Projection:
    """What becomes of the rows of files.

    Attributes:
        read: The columns to be read, with the types that they have in the cut.
        keep: Of a batch of these the rows that are asked for; None: all.
        names: The columns that are given, of those; None: all, as they are read.
    """

    read: pa.Schema
    keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    names: Sequence[str] | None = None

    @property
    def given(self) -> pa.Schema:
        """The schema of the rows that are given."""
        if self.names is None:
            return self.read
        return pa.schema([self.read.field(name) for name in self.names])

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What is given of a batch of one file."""
        found = conform(batch, self.read)
        if self.keep is not None:
            found = self.keep(found)
        return found if self.names is None else found.select(list(self.names))


def scan_files(store: Store, parts: Iterable[FilePart], target: Projection) -> pa.RecordBatchReader:
    """Batches of all files, in order, as `target` says.

    Raises (while reading):
        ObjectNotFound: A file is gone, or an object that says which rows of it were deleted.
        CorruptObject: A file isn't the one that the log names.
        SchemaConflict: A value doesn't fit the unified type (a time beyond nanoseconds).
    """
    batches = (batch for _, batch in scan_each(store, parts, target))
    return pa.RecordBatchReader.from_batches(target.given, batches)


def scan_each(
    store: Store, parts: Iterable[FilePart], target: Projection
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The same batches, each with the place of its file among `parts`."""
    from concurrent.futures import ThreadPoolExecutor

    bitmaps = Bitmaps(store)
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting: deque[tuple[int, FilePart, Future[list[pa.RecordBatch]] | None]] = deque()
        todo = iter(enumerate(parts))

        def fill() -> None:
            while len(waiting) < _AHEAD:
                number, part = next(todo, (0, None))
                if part is None:
                    return
                small = part.size_bytes <= _WHOLE_BYTES
                read = partial(_read_whole, store, part, target, bitmaps)
                waiting.append((number, part, pool.submit(read) if small else None))

        try:
            fill()
            while waiting:
                number, part, future = waiting.popleft()
                batches: Iterable[pa.RecordBatch] = (
                    _read(store, part, target, bitmaps, whole=False)
                    if future is None
                    else future.result()
                )
                for batch in batches:
                    yield number, batch
                fill()
        finally:
            for _, _, future in waiting:
                if future is not None:
                    future.cancel()


def _read_whole(
    store: Store, part: FilePart, target: Projection, bitmaps: Bitmaps
) -> list[pa.RecordBatch]:
    return list(_read(store, part, target, bitmaps, whole=True))


@contextmanager
def reading(part: FilePart) -> Iterator[None]:
    """Whatever goes wrong while a file is read is an error of lakelog's that names it."""
    try:
        yield
    except ObjectNotFound as error:
        error.hint = (
            "The data file is gone: was it deleted by hand, or by gc after this point in "
            "time was pruned?"
        )
        raise tell_elsewhere(error, part.key) from None
    except InvalidPartition as error:
        raise CorruptObject(
            f"{part.key}: {error.message}",
            key=part.key,
            hint="Other columns can be read: name them. Add the file anew under another partition",
        ) from error
    except LakelogError as error:
        raise tell_elsewhere(error, part.key) from error.__cause__
    except (pa.ArrowException, OSError, ValueError) as error:
        raise tell_elsewhere(
            CorruptObject(
                f"{part.key} can't be read as the log describes it: {error}",
                key=part.key,
                hint="Restore the file from a copy, or read a point in time without it",
            ),
            part.key,
        ) from error


def footer_of(source: Any, part: FilePart) -> Any:
    """The footer of an open file that is the one of the log, by size, digest and rows.

    Raises:
        CorruptObject: It isn't, or the log doesn't know the footer.
    """
    _check_size(source.size(), part)
    metadata = _known_footer(source, part)
    if metadata is None:
        raise CorruptObject(f"The log doesn't know the footer of {part.key}", key=part.key)
    _wanted_rows(metadata, part)
    return metadata


def tell_elsewhere(error: LakelogError, key: str) -> LakelogError:
    """An error about a data file; of one that lies elsewhere it says what to do about that."""
    if is_url(key):
        error.key = key
    if is_url(key) and isinstance(error, (ObjectNotFound, CorruptObject)):
        what = "is gone" if isinstance(error, ObjectNotFound) else "was changed"
        error.hint = (
            f"The file was taken in where it lies, and {what} since: restore it, or take it out "
            "with tx.remove(URL), and add it anew if it is there"
        )
    return error


def _check_size(size_bytes: int, part: FilePart) -> None:
    if size_bytes != part.size_bytes:
        raise CorruptObject(
            f"{part.key} has {size_bytes} bytes, the log says {part.size_bytes}",
            key=part.key,
            hint="Restore the file from a copy, or read a point in time without it",
        )


def _known_footer(source: Any, part: FilePart) -> Any:
    """The footer of a file, if the log knows it: read here, the Parquet reader doesn't read it."""
    if not part.footer_bytes or part.footer_digest == UNKNOWN_DIGEST:
        return None
    import pyarrow.parquet as pq

    footer = b""
    if part.footer_bytes <= part.size_bytes:
        source.seek(part.size_bytes - part.footer_bytes)
        footer = source.read(part.footer_bytes)
    if footer_digest(footer) != part.footer_digest:
        raise CorruptObject(
            f"{part.key} has another footer than the log says: the file was replaced, or damaged",
            key=part.key,
            hint="Restore the file from a copy, or read a point in time without it",
        )
    return pq.read_metadata(pa.BufferReader(footer))


def _check_columns(found: list[str], columns: list[str], part: FilePart) -> None:
    """Parquet readers pass over a column that is not there: its rows would be null."""
    lost = sorted(set(columns) - set(found))
    if lost:
        raise CorruptObject(
            f"{part.key} has no column {lost[0]!r}, the log says it has",
            key=part.key,
            hint="Restore the file from a copy, or read a point in time without it",
        )


def _wanted_rows(metadata: Any, part: FilePart) -> int:
    """How many rows the row groups have that are to be read."""
    if metadata.num_rows != part.row_count:
        raise CorruptObject(
            f"{part.key} has {metadata.num_rows} rows, the log says {part.row_count}", key=part.key
        )
    if part.row_groups is None:
        return part.row_count
    if part.row_groups and max(part.row_groups) >= metadata.num_row_groups:
        raise CorruptObject(
            f"{part.key} has {metadata.num_row_groups} row groups, the log says it has one of "
            f"number {max(part.row_groups)}",
            key=part.key,
            hint="Read without where= or at another point in time, and run `lakelog doctor`",
        )
    return sum(metadata.row_group(number).num_rows for number in part.row_groups)


def _projected(batch: pa.RecordBatch, part: FilePart, target: Projection) -> pa.RecordBatch:
    try:
        return target.of(batch)
    except pa.ArrowInvalid as error:
        raise SchemaConflict(
            f"{part.key} holds a value that is beyond its column's type in this cut: {error}",
            key=part.key,
            hint="The file is sound, and others of the table have a finer unit of time. Rewrite "
            "one side with the other's type, or read without the column: columns=",
        ) from error


def _batches(
    file: Any, part: FilePart, columns: list[str], *, whole: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of an open file: decoded all at once, or a batch at a time, which takes more time
    and less memory."""
    row_groups = None if part.row_groups is None else list(part.row_groups)
    if not whole:
        yield from file.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=row_groups, columns=columns, use_threads=False
        )
    elif row_groups is None:
        table = file.read(columns, use_threads=False)
        yield from table.to_batches(max_chunksize=_BATCH_ROWS)
    else:
        table = file.read_row_groups(row_groups, columns, use_threads=False)
        yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def _read(
    store: Store, part: FilePart, target: Projection, bitmaps: Bitmaps, *, whole: bool
) -> Iterator[pa.RecordBatch]:
    for batch, _ in read_projected(store, part, target, bitmaps, whole=whole):
        yield batch


def read_projected(
    store: Store, part: FilePart, target: Projection, bitmaps: Bitmaps, *, whole: bool
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """The rows of a file as `target` says, and the numbers in it of those that were read for them:
    of the same rows, if `target` keeps all.

    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for `scan_files`.
    """
    with reading(part):
        found = part.found(target.read)
        columns = list(dict.fromkeys(found.stored.values()))
        for batch, places in read_file(store, part, columns, bitmaps, whole=whole):
            yield _projected(found.of(batch), part, target), places


def read_file(
    store: Store, part: FilePart, columns: list[str], bitmaps: Bitmaps, *, whole: bool
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """The rows of a file that nothing hides, as they stand in it, and their numbers in it.

    Args:
        columns: Of the file's schema.
        whole: Decode all at once: quicker, and takes the memory.
    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for `scan_files`.
    """
    import pyarrow.parquet as pq

    rows = 0
    with reading(part):
        hiding = _hiding(part, bitmaps)
        names = list(dict.fromkeys([*columns, *hiding.columns]))
        told = told_by_partition(part.schema, part.partition, names)
        names = [name for name in names if name not in told]
    with reading(part), store.open_input(part.key, size_bytes=part.size_bytes) as source:
        _check_size(source.size(), part)
        file = pq.ParquetFile(
            source,
            metadata=_known_footer(source, part),
            pre_buffer=True,
            page_checksum_verification=True,
        )
        _check_columns(file.schema_arrow.names, names, part)
        wanted = _wanted_rows(file.metadata, part)
        counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        places = Places(row_places(counts, part.row_groups))
        for batch in _batches(file, part, names, whole=whole):
            rows += batch.num_rows
            yield hiding.left(filled(batch, told), places.take(batch.num_rows), columns)
    if rows != wanted:
        raise CorruptObject(f"{part.key} has {rows} rows, its footer says {wanted}", key=part.key)


def _hiding(part: FilePart, bitmaps: Bitmaps) -> Hiding:
    """What hides rows of a file, ready to do so."""
    hidden = part.hidden or Hidden()
    rows = with_superseded(bitmaps.rows(hidden.bitmaps), hidden)
    if len(rows) and rows[-1] >= part.row_count:
        raise CorruptObject(
            f"Row {rows[-1]} of {part.key} was deleted, and it has {part.row_count}",
            key=part.key,
            hint="Read a point in time before the delete, and run `lakelog doctor`",
        )
    return Hiding(hidden, part.schema, part.key, rows)
