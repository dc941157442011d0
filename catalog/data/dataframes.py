"""Data in: Arrow, pandas or polars, all to a schema and a stream of record batches.

pandas and polars are never imported here: an object of theirs brings its own way to Arrow.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ...errors import InvalidSchema
from ..format.schema import check_depth, check_writable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OFFSET: Final = re.compile(r"[+-]\d\d:?\d\d", re.ASCII)
_SURE: Final = "Europe/Berlin"  # any machine that has a time zone database knows it


def _type_of(data: Any) -> str:
    kind = type(data)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def to_batches(data: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of any frame.

    Large and view types become their plain forms, dictionaries their values, seconds milliseconds
    and dates days, as they will lie in the file: Parquet makes no difference, and every engine
    reads them. The index of a pandas frame becomes columns, but for a RangeIndex without a name.

    Args:
        data: pyarrow Table, RecordBatch, RecordBatchReader; pandas or polars DataFrame; anything
            with `__arrow_c_stream__`.
    Raises:
        InvalidSchema: Not such a thing, or with a schema that Parquet can't hold; perhaps only
            while the batches are read: values that can't be cast, a batch of another schema.
    """
    schema, batches = _arrow(data)
    check_depth(schema)
    fields = [field.with_type(as_stored(field.type)) for field in schema]
    plain = pa.schema(fields, schema.metadata)
    check_writable(plain)
    check_zones(plain)
    batches = _checked(batches, schema)
    if not plain.equals(schema):
        batches = (_cast(batch, plain) for batch in batches)
    return plain, with_texts(batches)


def _arrow(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    try:
        if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
            table = pa.Table.from_pandas(data, preserve_index=_index_matters(data))
            return table.schema, table.to_batches()
        if hasattr(data, "__arrow_c_stream__"):
            _refuse_objects(data)
            reader = pa.RecordBatchReader.from_stream(data)
            return reader.schema, reader
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidSchema(
            f"The data can't be turned into Arrow: {error}",
            hint="Give every column one type that Arrow has",
        ) from error
    raise InvalidSchema(
        f"Data of type {_type_of(data)} can't be written",
        hint="Give a pyarrow Table, RecordBatch or RecordBatchReader, or a pandas or polars "
        "DataFrame",
    )


def _index_matters(frame: Any) -> bool:
    """Whether a pandas frame's index is data: all but the row numbers that pandas makes itself."""
    index: Any = getattr(frame, "index", None)
    return type(index).__name__ != "RangeIndex" or index.name is not None


def _refuse_objects(frame: Any) -> None:
    """Refuse Python objects in a polars frame: its Arrow form shows their addresses in memory."""
    if type(frame).__module__.split(".")[0] != "polars":
        return
    columns = getattr(frame, "schema", {})
    for name, kind in columns.items():
        if _holds_object(kind):
            raise InvalidSchema(
                f"Column {name!r} has the polars type {kind}, which Arrow can't hold",
                key=name,
                hint="Give the column one type that Arrow has",
            )


def _holds_object(kind: Any) -> bool:
    inner = [getattr(kind, "inner", None), *(f.dtype for f in getattr(kind, "fields", ()))]
    return str(kind) == "Object" or any(_holds_object(k) for k in inner if k is not None)


def _checked(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches with rows; a reader made in Python doesn't check that they are what it says."""
    for number, batch in enumerate(batches):
        if not batch.num_rows:
            continue
        if not batch.schema.equals(schema):
            raise InvalidSchema(
                f"Batch {number} of the data has another schema than the data says: "
                f"{_differences(batch.schema, schema)}",
                hint="Give a reader whose batches all have its schema",
            )
        yield batch


def _differences(found: pa.Schema, wanted: pa.Schema) -> str:
    if found.names != wanted.names:
        return f"columns {', '.join(found.names)}, not {', '.join(wanted.names)}"
    pairs = [(a, b) for a, b in zip(found, wanted) if not a.equals(b)]
    return ", ".join(f"{a!s}, not {b!s}" for a, b in pairs)


def as_stored(kind: pa.DataType) -> pa.DataType:
    """The type that data of a type has in files."""
    types = pa.types
    if types.is_dictionary(kind):
        return as_stored(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if types.is_time32(kind) and kind.unit == "s":
        return pa.time32("ms")
    if types.is_date64(kind):
        return pa.date32()
    return _plain_nested(kind)


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_large_list(kind) or types.is_list(kind):
        field = kind.value_field
        return pa.list_(field.with_type(as_stored(field.type)))
    if types.is_fixed_size_list(kind):
        field = kind.value_field
        return pa.list_(field.with_type(as_stored(field.type)), kind.list_size)
    if types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(as_stored(key.type)), item.with_type(as_stored(item.type)))
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(as_stored(field.type)) for field in fields])
    return kind


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            same = column.type.equals(field.type)
            columns.append(column if same else _as_type(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidSchema(
                f"Column {field.name!r} can't be written as {field.type}: {error}",
                key=field.name,
                hint="Cast it to a type that Parquet has before writing",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        # Arrow casts dictionaries of few types; their values it can cast, and then take.
        return _as_type(column.dictionary, kind).take(column.indices)
    return column if column.type.equals(kind) else column.cast(kind)


def with_texts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches. Raises `InvalidSchema` at a text that is not UTF-8."""
    rows = 0
    for batch in batches:
        found = bad_text(batch)
        if found is not None:
            name, row = found
            raise InvalidSchema(
                f"Column {name!r} holds a text in row {rows + row + 1:,} that is not UTF-8",
                key=name,
                hint="Decode it with its own encoding, or cast the column to binary",
            )
        rows += batch.num_rows
        yield batch


def bad_text(batch: pa.RecordBatch) -> tuple[str, int] | None:
    """Returns the column and row of the first text that is not UTF-8, or None.

    Arrow takes any bytes for text; a later reader fails or crashes.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _has_texts(column.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            for row, value in enumerate(column):
                try:
                    value.as_py()
                except UnicodeDecodeError:
                    return name, row
                except (ValueError, OverflowError):  # another value that Python lacks
                    continue
    return None


def _has_texts(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _has_texts(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return True
    return any(_has_texts(kind.field(index).type) for index in range(kind.num_fields))


def check_zones(schema: pa.Schema) -> None:
    """Refuse timestamps in a zone that doesn't exist. On a machine without a time zone database
    every name passes.

    Raises:
        InvalidSchema: There is one, perhaps inside a nested column.
    """
    for field in schema:
        for zone in _zones(field.type):
            if not _known(zone) and _known(_SURE):
                raise InvalidSchema(
                    f"Column {field.name!r} has type {field.type}: there is no time zone {zone!r}",
                    key=field.name,
                    hint="Give UTC, an offset such as +02:00, or a zone such as Europe/Oslo; if it "
                    "is a new or an old one, install the newest tzdata",
                )


def _zones(kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_timestamp(kind) and kind.tz:
        yield kind.tz
    for index in range(kind.num_fields):
        yield from _zones(kind.field(index).type)


@cache
def _known(zone: str) -> bool:
    if zone.upper() in ("UTC", "Z") or _OFFSET.fullmatch(zone):
        return True
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder
        return False
    return True
