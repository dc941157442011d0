"""From the columns of a DataFrame to those that are written, and its Arrow batches into them.

All columns become nullable, nested ones too: what a frame promises of its own rows isn't so of the
table. Times with a zone are instants, and are stored in UTC, whatever zone the session shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.format.schema import check_writable
from ..errors import InvalidSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.types import DataType, StructType

_HELD: Final = frozenset({
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType",
    "DecimalType", "StringType", "CharType", "VarcharType", "BinaryType", "DateType",
    "TimestampType", "TimestampNTZType", "DayTimeIntervalType", "TimeType", "NullType",
})  # fmt: skip


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that a DataFrame of a Spark schema is written with.

    Raises:
        InvalidSchema: No columns, a name that is empty or stands twice, or a type that lakelog
            can't hold; names it.
    """
    fields = [pa.field(each.name, _arrow_type(each.dataType, each.name)) for each in schema]
    found = pa.schema(fields)
    check_writable(found)
    return found


def _arrow_type(kind: DataType, column: str) -> pa.DataType:
    name = type(kind).__name__
    inner: Any = kind
    if name == "ArrayType":
        return pa.list_(pa.field("element", _arrow_type(inner.elementType, column)))
    if name == "MapType":
        key = _arrow_type(inner.keyType, column)
        if kinds.is_null(key):
            raise InvalidSchema(
                f"Column {column!r} has Spark's type {kind.simpleString()}: its keys have no type",
                key=column,
                hint="Nothing was written. Cast it, e.g. to map<string,string>, or leave it out",
            )
        return pa.map_(key, _arrow_type(inner.valueType, column))
    if name == "StructType":
        return pa.struct([(each.name, _arrow_type(each.dataType, column)) for each in inner])
    if name not in _HELD:
        raise InvalidSchema(
            f"Column {column!r} has Spark's type {kind.simpleString()}, which lakelog can't hold",
            key=column,
            hint="Nothing was written. Cast it to text, numbers or a struct, or leave it out",
        )
    return _plain_type(kind, name)


def _plain_type(kind: DataType, name: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    if name == "TimestampType":
        return pa.timestamp("us", "UTC")
    if name == "TimeType":
        return pa.time64("us")  # Spark's finest, though it hands over nanoseconds
    if name in ("CharType", "VarcharType"):
        return pa.string()
    return to_arrow_type(kind)


def conformed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches as Spark hands them over, in exactly this schema.

    Raises:
        InvalidSchema: Other columns than that, or values that don't fit.
    """
    for batch in batches:
        if batch.schema.equals(schema):
            yield batch
            continue
        if batch.num_columns != len(schema):
            raise InvalidSchema(
                f"Spark hands over {batch.num_columns} columns, and {len(schema)} are to be written"
            )
        columns = [_conform(each, field) for each, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if kinds.is_map(field.type):
            return _map(column, field)
        raise InvalidSchema(
            f"Column {field.name!r} comes as {column.type}, and can't be written as {field.type}: "
            f"{error}",
            key=field.name,
            hint="Cast it in Spark before it is written",
        ) from error


def _map(column: pa.MapArray, field: pa.Field) -> pa.Array:
    keys = _conform(column.keys, field.type.key_field.with_name(field.name))
    items = _conform(column.items, field.type.item_field.with_name(field.name))
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[field.type.key_field, field.type.item_field]
    )
    return pa.Array.from_buffers(
        field.type, len(column), column.buffers()[:2], offset=column.offset, children=[entries]
    )
