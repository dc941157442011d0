"""Files that know their types: Parquet, and Arrow's own format, as a file or a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import InvalidParquet, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sources import Source


def read_schema(source: Source) -> pa.Schema:
    """The schema of a file.

    Raises:
        InvalidParquet, UsageError: It is no such file, or has a column twice.
    """
    try:
        with _open(source, _Read(source)) as file:
            schema = file.schema_arrow if source.form == "parquet" else file.schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(source, error) from error
    names = schema.names
    wrong = next((name for name in names if names.count(name) > 1), None)
    if wrong is not None:
        raise UsageError(
            f"{source.name} has two columns named {wrong!r}", key=source.name, hint="Rename one"
        )
    return schema


def read_batches(source: Source, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file.

    Args:
        columns: Only these, in this order.
    Raises:
        InvalidParquet, UsageError: It is damaged.
    """
    try:
        read = _Read(source)
        with _open(source, read) as file:
            if source.form == "parquet":
                yield from file.iter_batches(columns=columns)
                return
            is_file = isinstance(file, pa.RecordBatchFileReader)
            for batch in _of_file(file) if is_file else _of_stream(file, read):
                batch.validate(full=True)
                yield batch if columns is None else batch.select(columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(source, error) from error


def _of_file(file: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    for place in range(file.num_record_batches):
        yield file.get_batch(place)


def _of_stream(file: pa.RecordBatchStreamReader, read: _Read) -> Iterator[pa.RecordBatch]:
    """The batches up to the mark at the end. Arrow takes a stream without one for whole, though
    whoever wrote it may have failed.

    Raises:
        ValueError: There is none.
    """
    while True:
        before = read.count
        try:
            yield file.read_next_batch()
        except StopIteration:
            break
    if read.count == before:
        raise ValueError("it breaks off, without the mark at the end; was it written in whole?")


class _Read:
    """The bytes of a file as they are read, counted."""

    closed = False

    def __init__(self, source: Source) -> None:
        self._file = source.open()
        self.count = 0

    def read(self, size: int | None = None) -> bytes:
        """Some more."""
        found: bytes = self._file.read(size)
        self.count += len(found)
        return found

    def close(self) -> None:
        """Read no more."""
        self._file.close()


def _open(source: Source, read: _Read) -> Any:
    if source.form == "parquet":
        import pyarrow.parquet as pq

        return pq.ParquetFile(source.path)
    try:
        return pa.ipc.open_file(pa.memory_map(source.path))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(read)


def _unreadable(source: Source, error: Exception) -> UsageError:
    if source.form == "parquet":
        return InvalidParquet(
            f"{source.name} can't be read as Parquet: {error}",
            key=source.name,
            hint="Check it with another Parquet reader; nothing was committed",
        )
    return UsageError(
        f"{source.name} can't be read as Arrow IPC: {error}",
        key=source.name,
        hint="--format says if it is of another format; nothing was committed",
    )
