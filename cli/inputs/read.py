"""Reads the rows of a file in one schema. Parquet and Arrow's own format have their own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...catalog.data.unify import conform
from ...errors import InvalidParquet, UsageError
from .csv_files import CsvOptions, read_csv
from .json_files import as_type, read_json
from .sources import SEPARATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from .sources import Source


def open_rows(
    source: Source, schema: pa.Schema, options: CsvOptions, forced: Set[str]
) -> pa.RecordBatchReader:
    """The rows of a file; columns that it lacks are null. `forced` are columns whose type the user
    has chosen. Reading fails if the file was changed since the survey."""
    return pa.RecordBatchReader.from_batches(schema, _checked(source, schema, options, forced))


def _checked(
    source: Source, schema: pa.Schema, options: CsvOptions, forced: Set[str]
) -> Iterator[pa.RecordBatch]:
    try:
        source.check_unchanged()
        yield from _batches(source, schema, options, forced)
        source.check_unchanged()
    except (pa.ArrowException, ValueError) as error:
        source.check_unchanged()
        raise UsageError(
            f"{source.name} can't be written as {', '.join(map(str, schema.types))[:200]}: {error}",
            key=source.name,
            hint="Nothing was committed. --type chooses another type for a column",
        ) from error


def _batches(
    source: Source, schema: pa.Schema, options: CsvOptions, forced: Set[str]
) -> Iterator[pa.RecordBatch]:
    if source.form in SEPARATED:
        for _, batch in read_csv(source, options):
            texts = dict(zip(batch.schema.names, batch.columns))
            columns = [
                as_type(texts[one.name], one.type, forced=one.name in forced)
                if one.name in texts
                else pa.nulls(batch.num_rows, one.type)
                for one in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    elif source.form == "jsonl":
        for _, rows in read_json(source):
            columns = [
                as_type([r.get(one.name) for r in rows], one.type, forced=one.name in forced)
                for one in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    else:
        names = read_schema(source).names
        for batch in read_batches(source):
            yield conform(batch.rename_columns(names), schema)


# --- Files with types -----------------------------------------------------------------------------


def read_schema(source: Source) -> pa.Schema:
    """The schema of a file, which has no column twice."""
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
    """The rows of a file, of these columns in this order."""
    try:
        read = _Read(source)
        with _open(source, read) as file:
            if source.form == "parquet":
                yield from file.iter_batches(columns=columns)
                return
            batches = _of_stream(file, read)
            if isinstance(file, pa.RecordBatchFileReader):
                batches = map(file.get_batch, range(file.num_record_batches))
            for batch in batches:
                batch.validate(full=True)
                yield batch if columns is None else batch.select(columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(source, error) from error


def _of_stream(file: pa.RecordBatchStreamReader, read: _Read) -> Iterator[pa.RecordBatch]:
    """The batches up to the end mark. Arrow accepts a stream without one, although its writer may
    have failed; here it is a ValueError."""
    while True:
        before = read.count
        try:
            yield file.read_next_batch()
        except StopIteration:
            break
    if read.count == before:
        raise ValueError("it breaks off, without the end mark; was it written completely?")


class _Read:
    """A file that counts the bytes read."""

    closed = False

    def __init__(self, source: Source) -> None:
        self._file = source.open()
        self.count = 0

    def read(self, size: int | None = None) -> bytes:
        """Read more bytes."""
        data: bytes = self._file.read(size)
        self.count += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
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
        hint="--format chooses another format; nothing was committed",
    )
