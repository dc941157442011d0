"""Data in: Arrow, pandas or polars, all to a schema and a stream of record batches.

pandas and polars are never imported here: an object of theirs brings its own way to Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InvalidSchema
from .schema import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def to_batches(data: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema and the batches of any frame.

    Large and view types become their plain forms, dictionaries their values, seconds milliseconds
    and dates days, as they will lie in the file: Parquet makes no difference, and every engine
    reads them.

    Args:
        data: pyarrow Table, RecordBatch, RecordBatchReader; pandas or polars DataFrame; anything
            with `__arrow_c_stream__`.
    Raises:
        InvalidSchema: Not such a thing, or with a schema that Parquet can't hold.
    """
    schema, batches = _arrow(data)
    plain = pa.schema([field.with_type(_plain(field.type)) for field in schema])
    check_writable(plain)
    if plain.equals(schema):
        return plain, iter(batches)
    return plain, (_cast(batch, plain) for batch in batches)


def _arrow(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    try:
        if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
            table = pa.Table.from_pandas(data, preserve_index=False)
            return table.schema, table.to_batches()
        if hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
            return reader.schema, reader
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidSchema(
            f"The data can't be turned into Arrow: {error}",
            hint="Give every column one type that Arrow has",
        ) from error
    raise InvalidSchema(
        f"Data of type {type(data).__module__}.{type(data).__name__} can't be written",
        hint="Give a pyarrow Table, RecordBatch or RecordBatchReader, or a pandas or polars "
        "DataFrame",
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
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
        return pa.list_(field.with_type(_plain(field.type)))
    if types.is_fixed_size_list(kind):
        field = kind.value_field
        return pa.list_(field.with_type(_plain(field.type)), kind.list_size)
    if types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_plain(key.type)), item.with_type(_plain(item.type)))
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(_plain(field.type)) for field in fields])
    return kind


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            same = column.type.equals(field.type)
            columns.append(column if same else column.cast(field.type))
        except pa.ArrowInvalid as error:
            raise InvalidSchema(
                f"Column {field.name!r} can't be written as {field.type}: {error}",
                key=field.name,
                hint="Cast it to a type that Parquet has before writing",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
