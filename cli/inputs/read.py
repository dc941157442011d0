"""Reads the rows of a file in one schema. Parquet and Arrow's own format have their own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...catalog.data.dataframes import with_texts
from ...catalog.data.footers.parse import FIRST_SECOND, moves_int96, other_calendar
from ...catalog.data.unify import conform
from ...errors import InvalidParquet, InvalidSchema, UsageError
from .csv_files import CsvOptions, read_csv
from .json_files import as_type, read_json
from .sources import SEPARATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

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
                yield from _with_texts(source, file.iter_batches(columns=columns))
                return
            batches = _of_stream(file, read)
            if isinstance(file, pa.RecordBatchFileReader):
                batches = map(file.get_batch, range(file.num_record_batches))
            for batch in _with_texts(source, batches):
                batch.validate(full=True)
                yield batch if columns is None else batch.select(columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(source, error) from error


def _with_texts(source: Source, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches. Raises `UsageError` at a text that is not UTF-8."""
    try:
        yield from with_texts(batches)
    except InvalidSchema as error:
        raise UsageError(
            f"{source.name}: {error.message}",
            key=source.name,
            hint="Nothing was committed. Write the file again with the column as binary or in "
            "UTF-8",
        ) from error


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
        source.int96_unit = source.int96_unit or _int96_unit(source)
        return _parquet_file(source, source.int96_unit)
    try:
        return pa.ipc.open_file(pa.memory_map(source.path))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(read)


def _parquet_file(source: Source, int96_unit: str) -> Any:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(
        source.path, coerce_int96_timestamp_unit=int96_unit, page_checksum_verification=True
    )
    problem = other_calendar(file.metadata)
    if problem:
        file.close()
        raise _calendar_error(source, problem)
    return file


def _calendar_error(source: Source, problem: str) -> InvalidParquet:
    return InvalidParquet(
        f"{source.name}: {problem}",
        key=source.name,
        hint="Nothing was committed. Write the file again with Spark 3 or later, with "
        "datetimeRebaseModeInWrite and int96RebaseModeInWrite of spark.sql.parquet CORRECTED",
    )


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


# --- Timestamps in INT96, which hold more years than Arrow's nanoseconds --------------------------

_NS_END: Final = (1 << 63) // 1000 - 1  # in microseconds


def _int96_unit(source: Source) -> str:
    """The unit that holds every timestamp in INT96 of a Parquet file: microseconds, unless one has
    digits below. Arrow reads these values without a check of their range.

    Raises:
        InvalidParquet: No unit does.
    """
    with _parquet_file(source, "us") as file:
        leaves = file.metadata.schema
        if all(leaves.column(at).physical_type != "INT96" for at in range(len(leaves))):
            return "us"
    files = [_parquet_file(source, unit) for unit in ("us", "ns", "s")]
    with files[0] as micros, files[1] as nanos, files[2]:
        columns = [
            one.name
            for one, other in zip(micros.schema_arrow, nanos.schema_arrow, strict=True)
            if one.type != other.type
        ]
        fine, far, row = "", "", 0
        moved = FIRST_SECOND * 1_000_000 if moves_int96(micros.metadata) else None
        read = [file.iter_batches(columns=columns) for file in files]
        for batches in zip(*read, strict=True):
            end = row + batches[0].num_rows
            for name, *arrays in zip(columns, *(batch.columns for batch in batches), strict=True):
                where = f"column {name!r}, rows {row + 1:,} to {end:,}"
                for times in zip(*map(_timestamps, arrays), strict=True):
                    us, ns, s = map(_integers, times)
                    if (us // 1_000_000 != s).any():
                        raise _int96_error(source, f"{where}: a time is beyond microseconds")
                    if moved is not None and (us < moved).any():
                        raise _calendar_error(source, f"{where}: Spark moves a time before 1901")
                    # Both are right modulo 2^64, so their difference is, too.
                    if (ns.view("u8") - us.view("u8") * np.uint64(1000)).any():
                        fine = fine or where
                    if (np.abs(us) > _NS_END).any():
                        far = far or where
            row = end
    if fine and far:
        problem = f"{far}: a time is outside of 1677 to 2262, and in {fine} one has nanoseconds"
        raise _int96_error(source, problem)
    return "ns" if fine else "us"


def _timestamps(column: pa.Array) -> Iterator[pa.Array]:
    """The timestamps in a column, at any depth."""
    kind, types = column.type, pa.types
    if types.is_timestamp(kind):
        yield column
    elif types.is_struct(kind):
        for child in column.flatten():
            yield from _timestamps(child)
    elif types.is_map(kind):
        yield from _timestamps(column.keys)
        yield from _timestamps(column.items)
    elif types.is_nested(kind):
        yield from _timestamps(column.flatten())


def _integers(column: pa.Array) -> np.ndarray:
    found: np.ndarray = column.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _int96_error(source: Source, problem: str) -> InvalidParquet:
    return InvalidParquet(
        f"{source.name}, {problem}: no timestamp of Arrow holds this INT96",
        key=source.name,
        hint="Nothing was committed. Write the file again with INT64 timestamps",
    )
