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
        with _open(source) as file:
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
        with _open(source) as file:
            if source.form == "parquet":
                yield from file.iter_batches(columns=columns)
                return
            batches = file
            if isinstance(file, pa.RecordBatchFileReader):
                batches = (file.get_batch(place) for place in range(file.num_record_batches))
            for batch in batches:
                batch.validate(full=True)
                yield batch if columns is None else batch.select(columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(source, error) from error


def _open(source: Source) -> Any:
    if source.form == "parquet":
        import pyarrow.parquet as pq

        return pq.ParquetFile(source.path)
    try:
        return pa.ipc.open_file(pa.memory_map(source.path))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(source.open())


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
