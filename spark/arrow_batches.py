"""Arrow batches in the types that Spark exchanges with Python: microseconds, signed integers, plain
strings and lists, decimals of 128 bits.

Only what keeps the values is done, but for nanoseconds: Spark has none, so they are cut towards the
past, as `arrow_casts` does on the other road.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ..errors import InvalidSchema
from .arrow_types import any_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType


def exchanged(schema: StructType) -> pa.Schema:
    """The types in which Spark takes rows of a schema from Python: instants in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Since Spark 4.2 the zone is given by name; before, UTC is what is given by default.
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    found: pa.Schema = to_arrow_schema(schema, **({"timezone": "UTC"} if takes_zone else {}))
    return found


def as_spark(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the schema that Spark asked for.

    Raises:
        InvalidSchema: A value doesn't fit (a time out of the range of microseconds).
    """
    if not len(wanted):  # a batch of no columns would have no rows
        return batch.select([])
    columns = []
    for column, field in zip(batch.columns, wanted, strict=True):
        try:
            columns.append(_convert(column, field.type))
        except pa.ArrowException as error:
            raise InvalidSchema(
                f"Column {field.name!r} of type {column.type} doesn't fit Spark's {field.type}: "
                f"{error}",
                key=field.name,
                hint="Leave the column out of the selection, or read it with snapshot.scan()",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _convert(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type.equals(wanted):
        return column
    if isinstance(column, pa.ExtensionArray):
        return _convert(column.storage, wanted)
    if _is_nanoseconds(column.type):
        micros = _micros(column)
        return (pc.multiply(micros, 1_000) if kinds.is_time(wanted) else micros).cast(wanted)
    if not any_part(column.type, _is_nanoseconds):
        return column.cast(wanted)  # nested types too: by position, and `wanted` has the same ones
    rebuild = _rebuilder(column.type)
    return rebuild(column, wanted)


def _is_nanoseconds(kind: pa.DataType) -> bool:
    timed = kinds.is_timestamp(kind) or kinds.is_duration(kind) or kinds.is_time(kind)
    return bool(timed and kind.unit == "ns")


def _micros(column: pa.Array) -> pa.Array:
    """Ticks in microseconds, cut towards the past, for times before 1970 too."""
    ticks = column.cast(pa.int64())
    micros = pc.divide(ticks, 1_000)  # towards zero
    return pc.subtract(micros, pc.less(ticks, pc.multiply(micros, 1_000)).cast(pa.int64()))


def _rebuilder(kind: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    if kinds.is_struct(kind):
        return _struct
    if kinds.is_map(kind):
        return _map
    return _list


def _struct(column: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    fields = list(wanted)
    parts = [_convert(column.field(at), field.type) for at, field in enumerate(fields)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())


def _list(column: pa.Array, wanted: pa.ListType) -> pa.Array:
    plain = column.cast(pa.list_(column.type.value_field))
    values = _convert(plain.values, wanted.value_type)
    # From the buffers, because a slice has an offset of its own into them.
    return pa.Array.from_buffers(
        wanted, len(plain), plain.buffers()[:2], offset=plain.offset, children=[values]
    )


def _map(column: pa.MapArray, wanted: pa.MapType) -> pa.Array:
    keys = _convert(column.keys, wanted.key_type)
    items = _convert(column.items, wanted.item_type)
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[wanted.key_field, wanted.item_field]
    )
    return pa.Array.from_buffers(
        wanted, len(column), column.buffers()[:2], offset=column.offset, children=[entries]
    )
