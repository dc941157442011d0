"""Arrow types as Spark knows them, and which of them Spark's native Parquet reader takes as they
lie in the file.

Three questions, each one function: what is the Spark type of a column (`spark_type`), what may be
asked of the native reader for a file that holds it (`read_type`), and may the reader be asked for
the target at once (`is_direct`).

`is_direct` is a list of what was seen to be right, not of what doesn't fail: asked for `double`,
the reader returns -1.0 for the uint32 4294967295; asked for `bigint`, it returns the raw ticks of a
timestamp. All pairs were tried on Spark 4.3.0, with and without the vectorized reader, with the
least and the greatest value of each type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from ..errors import InvalidSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType, StructType

MAX_PRECISION = 38
_PLAIN = {
    pa.bool_(): "BooleanType",
    pa.int8(): "ByteType",
    pa.int16(): "ShortType",
    pa.int32(): "IntegerType",
    pa.int64(): "LongType",
    pa.uint8(): "ShortType",
    pa.uint16(): "IntegerType",
    pa.uint32(): "LongType",
    pa.float16(): "FloatType",
    pa.float32(): "FloatType",
    pa.float64(): "DoubleType",
    pa.date32(): "DateType",
    pa.date64(): "DateType",
    pa.null(): "NullType",
}
_SIGNED_DIGITS = {pa.int8(): 10, pa.int16(): 10, pa.int32(): 10, pa.int64(): 20}
"""The digits left of the point that Spark wants in a decimal before it reads an integer into it."""
_WIDER = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64(), pa.float64()),
    pa.int16(): (pa.int32(), pa.int64(), pa.float64()),
    pa.int32(): (pa.int64(), pa.float64()),
    pa.uint8(): (pa.int16(), pa.int32(), pa.uint16(), pa.int64(), pa.uint32(), pa.float64()),
    pa.uint16(): (pa.int32(), pa.int64(), pa.uint32(), pa.float64()),
    pa.uint32(): (pa.int64(),),  # and not float64: it comes out signed
    pa.float32(): (pa.float64(),),
}


def storage(kind: pa.DataType) -> pa.DataType:
    """Strip what changes the layout and not the values: dictionary, extension, view, offsets."""
    if isinstance(kind, pa.BaseExtensionType):
        return storage(kind.storage_type)
    if kinds.is_dictionary(kind):
        return storage(kind.value_type)
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    if (
        kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_binary_view(kind)
        or kinds.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    if is_list(kind):
        return pa.list_(kind.value_type)
    return kind


def is_list(kind: pa.DataType) -> bool:
    """Whether it is any of Arrow's list types; Parquet knows only one."""
    return bool(
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_list_view(kind)
        or kinds.is_large_list_view(kind)
    )


def any_part(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether the type, or one nested anywhere in it, passes the test."""
    kind = storage(kind)
    parts = [kind.field(at).type for at in range(kind.num_fields)]
    return test(kind) or any(any_part(each, test) for each in parts)


def spark_type(kind: pa.DataType, column: str) -> DataType:
    """The Spark type that holds the values of an Arrow type. Nested fields are nullable, always.

    Timestamps with a zone are instants (`TimestampType`), those without are `TimestampNTZType`;
    Spark has microseconds only. Unsigned integers take the next wider signed type, as Spark itself
    does.

    Raises:
        InvalidSchema: Spark has no such type; names the column and the type.
    """
    from pyspark.sql import types

    kind = storage(kind)
    if kind in _PLAIN:
        return getattr(types, _PLAIN[kind])()
    if kind == pa.uint64():
        return types.DecimalType(20, 0)
    if kinds.is_decimal(kind) and kind.precision <= MAX_PRECISION and kind.scale >= 0:
        return types.DecimalType(kind.precision, kind.scale)
    if kind == pa.string():
        return types.StringType()
    if kind == pa.binary():
        return types.BinaryType()
    if kinds.is_timestamp(kind):
        return types.TimestampNTZType() if kind.tz is None else types.TimestampType()
    if kinds.is_duration(kind):
        return types.DayTimeIntervalType()
    if kinds.is_time(kind) and hasattr(types, "TimeType"):
        return types.TimeType(6)
    if kinds.is_nested(kind) and not kinds.is_union(kind):
        return _nested(kind, lambda part: spark_type(part, column))
    newer = "Use Spark 4.1 or later, or leave" if kinds.is_time(kind) else "Leave"
    raise InvalidSchema(
        f"Spark has no type for column {column!r} of type {kind}",
        hint=f"{newer} the column out of the selection, or read it with snapshot.scan()",
    )


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema: all nullable, and without metadata.

    Metadata is dropped, because a Parquet field id in it makes Spark's reader match columns by id.

    Raises:
        InvalidSchema: A column has a type that Spark hasn't got.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, spark_type(each.type, each.name)) for each in schema])


def read_type(kind: pa.DataType, column: str) -> DataType:
    """What the native reader is to be asked for, so that it reads a file of this type at all.

    It is the Spark type itself, but for what the reader knows only as raw bytes or ticks: those are
    turned into the Spark type by `arrow_casts.convert`.
    """
    from pyspark.sql import types

    kind = storage(kind)
    if kind == pa.float16():
        return types.BinaryType()
    if kinds.is_null(kind):
        return types.IntegerType()  # as Parquet stores it
    if is_ticks(kind):
        return types.IntegerType() if kinds.is_time32(kind) else types.LongType()
    if kinds.is_nested(kind) and not kinds.is_union(kind):
        return _nested(kind, lambda part: read_type(part, column))
    return spark_type(kind, column)


def _nested(kind: pa.DataType, of_part: Callable[[pa.DataType], DataType]) -> DataType:
    from pyspark.sql import types

    if is_list(kind):
        return types.ArrayType(of_part(kind.value_type))
    if kinds.is_map(kind):
        return types.MapType(of_part(kind.key_type), of_part(kind.item_type))
    return types.StructType([types.StructField(each.name, of_part(each.type)) for each in kind])


def is_ticks(kind: pa.DataType) -> bool:
    """Whether Spark's reader knows the type only as an integer number of its unit."""
    return bool(
        kinds.is_duration(kind)
        or kinds.is_time(kind)
        or (kinds.is_timestamp(kind) and kind.unit == "ns")
    )


def is_direct(physical: pa.DataType, target: pa.DataType) -> bool:
    """Whether the native reader, asked for the target's Spark type, reads this type right."""
    physical, target = storage(physical), storage(target)
    if physical == pa.float16() or kinds.is_null(physical) or is_ticks(physical):
        return False
    if kinds.is_timestamp(physical) and kinds.is_timestamp(target):
        return (physical.tz is None) == (target.tz is None)
    if kinds.is_date(physical):
        return bool(kinds.is_date(target) or (kinds.is_timestamp(target) and target.tz is None))
    if kinds.is_decimal(target) and target.precision <= MAX_PRECISION:
        return _is_direct_to_decimal(physical, target)
    if is_list(physical) and is_list(target):
        return is_direct(physical.value_type, target.value_type)
    if kinds.is_map(physical) and kinds.is_map(target):
        return is_direct(physical.key_type, target.key_type) and is_direct(
            physical.item_type, target.item_type
        )
    if kinds.is_struct(physical) and kinds.is_struct(target):
        return _is_direct_struct(physical, target)
    return physical == target or target in _WIDER.get(physical, ())


def _is_direct_to_decimal(physical: pa.DataType, target: pa.DataType) -> bool:
    whole_digits = target.precision - target.scale
    if kinds.is_decimal(physical):
        return bool(
            target.scale >= physical.scale >= 0
            and whole_digits >= physical.precision - physical.scale
        )
    return physical in _SIGNED_DIGITS and whole_digits >= _SIGNED_DIGITS[physical]


def _is_direct_struct(physical: pa.DataType, target: pa.DataType) -> bool:
    there = {each.name: each.type for each in physical}
    folded = {name.lower() for name in there}
    shared = 0
    for each in target:
        if each.name in there:
            shared += 1
            if not is_direct(there[each.name], each.type):
                return False
        elif each.name.lower() in folded:  # the reader would take the other spelling for it
            return False
    return shared > 0 and len(folded) == len(there)
