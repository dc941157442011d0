"""Rows of Parquet files as one stream of batches in one schema.

Files are read ahead by a few threads; at most a handful are in memory at a time.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from ...errors import CorruptObject, SchemaConflict, StorageError
from ...store.places import is_url
from .dataframes import bad_text
from .file_part import (
    check_columns,
    check_footer,
    check_size,
    hint_of,
    known_footer,
    reading,
    wanted_rows,
)
from .hidden import Bitmaps, Hidden, Hiding, Places, row_places, with_superseded
from .partitioned import filled, told_by_partition
from .unify import conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import numpy as np

    from ...store import Store
    from .file_part import FilePart


# --- Streams that are closed when the interpreter exits -------------------------------------------

_PAUSE_S: Final = 0.03
_QUIET_ROUNDS: Final = 4  # a thread of a busy machine may get its turn late
_ROUNDS: Final = 300  # 9 s: who reads from a store that hangs must not hang as well
_exiting: Final = threading.Event()


class _Streams:
    """Those that there are."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Without any; in a forked child too, where no thread would go on with its parent's, or
        give back a lock of these."""
        self._adding = threading.RLock()  # a signal's handler may read, too
        self._live: weakref.WeakSet[UntilExit] = weakref.WeakSet()

    def add(self, stream: UntilExit) -> None:
        with self._adding:
            self._live.add(stream)

    def seen(self) -> list[tuple[int, int, bool]]:
        """How far each is. None of them is held: the last who does may be another thread."""
        with self._adding:
            return sorted((id(stream), stream.calls, stream.is_asked) for stream in self._live)


_streams: Final = _Streams()


class UntilExit:
    """The same batches, and a `StorageError` once Python shuts down.

    Attributes:
        calls: How many were asked for.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._asked = threading.Lock()
        self.calls = 0
        _streams.add(self)

    def __iter__(self) -> UntilExit:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._asked:
            self.calls += 1
            if _exiting.is_set():
                raise StorageError(
                    "Python is shutting down: no more rows are read",
                    hint="Read before the program ends: join its threads, and read in no exit "
                    "handler",
                )
            return next(self._batches)

    @property
    def is_asked(self) -> bool:
        """Whether a call is under way."""
        return self._asked.locked()


def _end_all() -> None:
    """Break off every stream, and wait until no other thread has to do with one: until all are
    gone, or nothing is asked of those that are left, whose readers have read ahead enough."""
    _exiting.set()
    pause = threading.Event()
    quiet, before = 0, _streams.seen()
    for _ in range(_ROUNDS):
        if not before or quiet == _QUIET_ROUNDS:
            return
        pause.wait(_PAUSE_S)
        now = _streams.seen()
        quiet = quiet + 1 if now == before and not any(asked for *_, asked in now) else 0
        before = now


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_streams.begin)


# --- Scans ----------------------------------------------------------------------------------------

_THREADS: Final = 4
_AHEAD: Final = 4  # tasks; more while their files are small
_MOST_AHEAD: Final = 32
_AHEAD_BYTES: Final = 16 << 20
_TASK_FILES: Final = 64
_TASK_BYTES: Final = 1 << 20
_WHOLE_BYTES: Final = 32 << 20
_ONE_READ_BYTES: Final = 256 << 10
_BATCH_ROWS: Final = 131_072


def is_small(part: FilePart) -> bool:
    """Checks whether a file may be decoded at once."""
    return part.size_bytes <= _WHOLE_BYTES


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
    """Batches of all files, in order, as `target` says; rows of small files come together.

    Raises (while reading):
        ObjectNotFound: A file is gone, or an object that says which rows of it were deleted.
        CorruptObject: A file isn't the one that the log names.
        SchemaConflict: A value doesn't fit the unified type (a time beyond nanoseconds).
    """

    def read(bitmaps: Bitmaps, task: _Task) -> list[pa.RecordBatch]:
        found = [batch for _, part in task for batch in _read(store, part, target, bitmaps)]
        return _joined(found) if len(task) > 1 else found

    def stream(bitmaps: Bitmaps, task: _Task) -> Iterator[pa.RecordBatch]:
        ((_, part),) = task
        return _read(store, part, target, bitmaps, whole=False)

    batches = _scan(store, parts, read, stream)
    return pa.RecordBatchReader.from_batches(target.given, UntilExit(batches))


def scan_each(
    store: Store, parts: Iterable[FilePart], target: Projection
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The same rows, each batch of one file, with its place among `parts`."""

    def read(bitmaps: Bitmaps, task: _Task) -> list[tuple[int, pa.RecordBatch]]:
        return [(at, batch) for at, part in task for batch in _read(store, part, target, bitmaps)]

    def stream(bitmaps: Bitmaps, task: _Task) -> Iterator[tuple[int, pa.RecordBatch]]:
        ((at, part),) = task
        return ((at, batch) for batch in _read(store, part, target, bitmaps, whole=False))

    return _scan(store, parts, read, stream)


_Task: TypeAlias = "list[tuple[int, FilePart]]"
_Found = TypeVar("_Found")


def _scan(
    store: Store,
    parts: Iterable[FilePart],
    read: Callable[[Bitmaps, _Task], list[_Found]],
    stream: Callable[[Bitmaps, _Task], Iterator[_Found]],
) -> Iterator[_Found]:
    """What is found in files, in order.

    A thread reads several small files at a time, and the threads are ahead by more tasks the
    longer the scan goes on: who stops early has not much read for nothing.

    Args:
        read: Reads the files of a task, in a thread.
        stream: Reads one that is large, as its rows are asked for.
    """
    from concurrent.futures import ThreadPoolExecutor

    bitmaps = Bitmaps(store)
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[tuple[_Task, Future[list[_Found]] | None]] = deque()
        tasks = _Tasks(parts)

        def fill() -> None:
            while tasks.may_begin(len(waiting)) and (task := tasks.next()):
                is_whole = is_small(task[0][1])
                waiting.append((task, pool.submit(read, bitmaps, task) if is_whole else None))

        try:
            fill()
            while waiting:
                task, future = waiting.popleft()
                yield from stream(bitmaps, task) if future is None else future.result()
                tasks.end(task)
                fill()
        finally:
            for _, future in waiting:
                if future is not None:
                    future.cancel()


class _Tasks:
    """Files as tasks for threads: one file, or several that are small."""

    def __init__(self, parts: Iterable[FilePart]) -> None:
        self._parts = iter(enumerate(parts))
        self._next = next(self._parts, None)
        self._bytes = 0  # of the files that are ahead
        self._done = 0  # files

    def may_begin(self, ahead: int) -> bool:
        """Whether another task may be ahead, beside so many."""
        most = min(_AHEAD + self._done // _AHEAD, _MOST_AHEAD)
        return ahead < _AHEAD or (ahead < most and self._bytes < _AHEAD_BYTES)

    def next(self) -> _Task:
        """The next one; empty if there is none."""
        task: _Task = []
        size_bytes, most = 0, min(1 + self._done // 8, _TASK_FILES)
        while self._next is not None and len(task) < most:
            size_bytes += self._next[1].size_bytes
            if task and (size_bytes > _TASK_BYTES or not is_small(self._next[1])):
                break
            task.append(self._next)
            self._next = next(self._parts, None)
        self._bytes += sum(part.size_bytes for _, part in task)
        return task

    def end(self, task: _Task) -> None:
        """All of a task has been given."""
        self._bytes -= sum(part.size_bytes for _, part in task)
        self._done += len(task)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in few batches; dictionaries stay apart, whose values may not fit into one."""
    if not batches or any(pa.types.is_dictionary(field.type) for field in batches[0].schema):
        return batches
    found: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def _projected(batch: pa.RecordBatch, part: FilePart, target: Projection) -> pa.RecordBatch:
    try:
        return target.of(batch)
    except pa.ArrowInvalid as error:
        raise SchemaConflict(
            f"{part.key} holds a value that is beyond its column's type in this cut: {error}",
            key=part.key,
            hint="The file is sound, and others of the table have a finer unit of time. Rewrite "
            "one side with the other's type; or read other columns (columns=), or the files of "
            "one writer (writer=)",
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
    store: Store, part: FilePart, target: Projection, bitmaps: Bitmaps, *, whole: bool = True
) -> Iterator[pa.RecordBatch]:
    found = read_projected(store, part, target, bitmaps, whole=whole, numbered=False)
    return (batch for batch, _ in found)


def read_projected(
    store: Store,
    part: FilePart,
    target: Projection,
    bitmaps: Bitmaps,
    *,
    whole: bool | None = None,
    numbered: bool = True,
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Returns the rows of a file in the form of `target`, and the numbers in the file of those that
    were read for them: of the same rows, if `target` keeps all. Raises as `scan_files`.

    Args:
        whole: As for `read_file`.
        numbered: Whether the numbers are needed; else they are any.
    """
    with reading(part):
        found = part.found(target.read)
        columns = list(dict.fromkeys(found.stored.values()))
        read = read_file(store, part, columns, bitmaps, whole=whole, numbered=numbered)
        for batch, places in read:
            yield _projected(found.of(batch), part, target), places


def read_file(
    store: Store,
    part: FilePart,
    columns: list[str],
    bitmaps: Bitmaps,
    *,
    whole: bool | None = None,
    numbered: bool = True,
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Returns the rows of a file that nothing hides, as they are in it, and their numbers in it.

    Args:
        columns: Of the file's schema.
        whole: Decode all at once: quicker, and takes the memory; None: if the file is small.
        numbered: Whether the numbers are needed; else they are any.
    Raises:
        ObjectNotFound, CorruptObject, SchemaConflict: As for `scan_files`.
    """
    rows = 0
    whole = is_small(part) if whole is None else whole
    hidden = part.hidden or Hidden()
    with reading(part):
        hiding = Hiding(hidden, part.schema, part.key)
        names = list(dict.fromkeys([*columns, *hiding.columns]))
        told = told_by_partition(part.schema, part.partition, names)
        names = [name for name in names if name not in told]
    with reading(part), store.open_input(part.key, size_bytes=part.size_bytes) as source:
        check_size(source.size(), part)
        file = _parquet(source, part)
        check_columns(file.schema_arrow.names, names, part)
        wanted = wanted_rows(file.metadata, part)
        # Not before the file has as many rows as the log says: a bitmap can name billions.
        hiding.rows = with_superseded(bitmaps.rows(hidden.bitmaps, part.row_count), hidden)
        counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        needed = numbered or len(hiding.rows) > 0
        places = Places(row_places(counts, part.row_groups) if needed else ())
        for batch in _batches(file, part, names, whole=whole):
            if is_url(part.key):  # lakelog's own files were checked when they were written
                _check_texts(batch, part, counts, rows)
            rows += batch.num_rows
            yield hiding.left(filled(batch, told), places, columns, numbered=numbered)
    if rows != wanted:
        raise CorruptObject(
            f"{part.key} has {rows} rows, its footer says {wanted}",
            key=part.key,
            hint=hint_of(part.key),
        )


def _parquet(source: Any, part: FilePart) -> Any:
    """An open file as Parquet; of a small one all bytes are read at once."""
    import pyarrow.parquet as pq

    footer, is_tiny = None, part.size_bytes <= _ONE_READ_BYTES
    if is_tiny:
        source = pa.BufferReader(source.read())
        check_footer(source, part)  # the Parquet reader reads the same bytes
    else:
        footer = known_footer(source, part)
    return pq.ParquetFile(
        source, metadata=footer, pre_buffer=not is_tiny, page_checksum_verification=True
    )


def _check_texts(batch: pa.RecordBatch, part: FilePart, counts: Sequence[int], rows: int) -> None:
    """Raises `CorruptObject` for a text that is not UTF-8.

    Args:
        counts: Rows of each row group of the file.
        rows: How many were read before.
    """
    found = bad_text(batch)
    if found is None:
        return
    places = Places(row_places(counts, part.row_groups))
    row = int(places.take(rows + found[1] + 1)[-1])
    raise CorruptObject(
        f"{part.key} holds a text in column {found[0]!r}, row {row + 1:,}, that is not UTF-8",
        key=part.key,
        hint="Read other columns (columns=), or take the file out (`lakelog remove`), and write it "
        "again with the column as binary or in UTF-8",
    )


def hidden_rows(store: Store, part: FilePart, bitmaps: Bitmaps) -> np.ndarray:
    """Returns the numbers of the hidden rows of a file, ascending. Reads only what tests look at.
    Raises as `scan_files`."""
    import numpy as np

    hidden = part.hidden or Hidden()
    if not hidden.tests:
        rows = bitmaps.rows(hidden.bitmaps, part.row_count)
        return with_superseded(rows, hidden).astype(np.int64)
    bare = replace(part, row_groups=None, blooms=())
    lost = np.ones(part.row_count, np.bool_)
    for _, places in read_file(store, bare, [], bitmaps):
        lost[places] = False
    return np.flatnonzero(lost)
