"""Arrow types as Spark knows them: what Spark's native Parquet reader takes as it is stored, what
it must cast, how batches are handed to Spark, and how rows of Spark are written.

On the way to Spark four functions answer: what is the Spark type of a column (`spark_type`), what
may be asked of the native reader for a file that holds it (`read_type`), may the reader be asked
for the target at once (`is_direct`), and else, how is it cast (`convert`).

`is_direct` is a list of what was seen to be right, not of what doesn't fail: asked for `double`,
the reader returns -1.0 for the uint32 4294967295; asked for `bigint`, it returns the raw ticks of a
timestamp. All pairs were tried on Spark 4.3.0, with and without the vectorized reader, with the
least and the greatest value of each type.

Only casts that keep every value are made: with `spark.sql.ansi.enabled=false` Spark would wrap an
overflow in silence. The one loss is by Spark's nature: it has no nanoseconds, so they are cut
(towards the past) to microseconds, by `convert` and by `as_spark` alike.
"""

from __future__ import annotations

import inspect
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ..catalog.format.schema import check_writable
from ..errors import InvalidSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

MAX_PRECISION = 38
# Spark's types that lakelog holds, by their names.
FIXED_SIZES: Final = frozenset({
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType",
    "DecimalType", "DateType", "TimestampType", "TimestampNTZType", "DayTimeIntervalType",
    "TimeType", "NullType",
})  # fmt: skip
VARYING_SIZES: Final = frozenset({"StringType", "CharType", "VarcharType", "BinaryType"})
_PLAIN = {
    pa.bool_(): "BooleanType", pa.int8(): "ByteType", pa.int16(): "ShortType",
    pa.int32(): "IntegerType", pa.int64(): "LongType", pa.uint8(): "ShortType",
    pa.uint16(): "IntegerType", pa.uint32(): "LongType", pa.float16(): "FloatType",
    pa.float32(): "FloatType", pa.float64(): "DoubleType", pa.date32(): "DateType",
    pa.date64(): "DateType", pa.null(): "NullType",
}  # fmt: skip
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


_SMALL_UNSIGNED = {pa.uint8(): 0xFF, pa.uint16(): 0xFFFF}


def may_be_signed(kind: pa.DataType) -> bool:
    """Whether Spark's reader takes for negative what some writers store: unsigned integers of 8 and
    16 bits as they are in 32, 255 as -1. All else knows them by their lowest bits."""
    return any_part(kind, lambda part: part in _SMALL_UNSIGNED)


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


# --- Casts in Spark -------------------------------------------------------------------------------

_DIGITS = {
    pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19,
    pa.uint8(): 3, pa.uint16(): 5, pa.uint32(): 10, pa.uint64(): 20,
}  # fmt: skip
_MICROS_IN = {"s": 1_000_000, "ms": 1_000, "us": 1}


def convert(column: Column, physical: pa.DataType, target: pa.DataType, name: str) -> Column:
    """Turn a column that was read as `arrow_types.read_type(physical)` into the target's Spark
    type.

    Args:
        column: What the native reader delivers.
        physical: The Arrow type in the files.
        target: The Arrow type of the table.
        name: The column's name, for errors.

    Raises:
        InvalidSchema: No cast between the two keeps all values.
    """
    from pyspark.sql import functions as F

    physical, target = storage(physical), storage(target)
    if kinds.is_null(physical):
        return F.lit(None).cast(spark_type(target, name))
    if kinds.is_struct(physical) and kinds.is_struct(target):
        return _convert_struct(column, physical, target, name)
    if is_list(physical) and is_list(target):
        # By way of a copy: on the reader's own vectors, `transform` takes each value before it asks
        # whether it is null, and fails where all elements of a row group are null.
        return F.transform(
            F.flatten(F.array(column)),
            lambda each: convert(each, physical.value_type, target.value_type, name),
        )
    if kinds.is_map(physical) and kinds.is_map(target):
        return F.transform_values(
            F.transform_keys(
                column, lambda key, _: convert(key, physical.key_type, target.key_type, name)
            ),
            lambda _, item: convert(item, physical.item_type, target.item_type, name),
        )
    if physical == pa.float16() and kinds.is_floating(target):
        return _half(column).cast(spark_type(target, name))
    if is_ticks(physical) and _same_family(physical, target):
        return _from_ticks(column, physical)
    if physical in _SMALL_UNSIGNED:
        column = column.bitwiseAND(F.lit(_SMALL_UNSIGNED[physical]))
    if not keeps_values(physical, target):
        raise InvalidSchema(
            f"Column {name!r} is {physical} in some files; no safe cast leads to {target}",
            hint="Leave the column out, or rewrite those files with the table's type",
        )
    return column.cast(spark_type(target, name))


def keeps_values(physical: pa.DataType, target: pa.DataType) -> bool:
    """Whether a plain Spark cast between two scalar types widens (integer to float included)."""
    if physical == target or (physical == pa.string() and target == pa.binary()):
        return True
    if kinds.is_integer(physical):
        if kinds.is_integer(target):
            return _holds_integer(physical, target)
        if kinds.is_decimal(target):
            return bool(target.precision - target.scale >= _DIGITS[physical])
        return bool(kinds.is_floating(target))
    if kinds.is_decimal(physical):
        if kinds.is_decimal(target):
            whole = physical.precision - physical.scale
            return bool(target.scale >= physical.scale and target.precision - target.scale >= whole)
        return bool(kinds.is_floating(target))
    if kinds.is_floating(physical) and kinds.is_floating(target):
        return bool(target.bit_width >= physical.bit_width)
    if kinds.is_date(physical):
        return bool(kinds.is_date(target) or (kinds.is_timestamp(target) and target.tz is None))
    return _same_family(physical, target)


def _holds_integer(physical: pa.DataType, target: pa.DataType) -> bool:
    if kinds.is_signed_integer(physical) and kinds.is_unsigned_integer(target):
        return False
    sign = kinds.is_unsigned_integer(physical) and kinds.is_signed_integer(target)
    return bool(target.bit_width >= physical.bit_width + sign)


def _same_family(physical: pa.DataType, target: pa.DataType) -> bool:
    if kinds.is_timestamp(physical) and kinds.is_timestamp(target):
        return (physical.tz is None) == (target.tz is None)
    return bool(
        (kinds.is_duration(physical) and kinds.is_duration(target))
        or (kinds.is_time(physical) and kinds.is_time(target))
    )


def _convert_struct(
    column: Column, physical: pa.DataType, target: pa.DataType, name: str
) -> Column:
    """Rebuild a struct by field name, since a cast of structs would go by position."""
    from pyspark.sql import functions as F

    there = {each.name: each.type for each in physical}
    fields = []
    for each in target:
        where = f"{name}.{each.name}"
        if each.name in there:
            value = convert(column.getField(each.name), there[each.name], each.type, where)
        else:
            value = F.lit(None).cast(spark_type(each.type, where))
        fields.append(value.alias(each.name))
    return F.when(column.isNotNull(), F.struct(*fields))


def _half(column: Column) -> Column:
    """Compute a float from the two little-endian bytes of an IEEE 754 half."""
    from pyspark.sql import functions as F

    def byte(position: int) -> Column:
        return F.conv(F.hex(F.substring(column, position, 1)), 16, 10).cast("int")

    bits = byte(2) * 256 + byte(1)
    sign = F.when(bits >= 32768, F.lit(-1.0)).otherwise(F.lit(1.0))
    exponent = F.shiftright(bits, 10).bitwiseAND(31)
    fraction = bits.bitwiseAND(1023)
    special = F.when(fraction == 0, F.lit(float("inf"))).otherwise(F.lit(float("nan")))
    normal = (fraction / 1024 + 1) * F.pow(F.lit(2.0), exponent - 15)
    size = (
        F.when(exponent == 31, special).when(exponent == 0, fraction * 2.0**-24).otherwise(normal)
    )
    return F.when(column.isNotNull(), (sign * size).cast("float"))


def _time_of_day(micros: Column) -> Column:
    """Of microseconds since midnight. `time_from_micros` would do, but came with Spark 4.2 only."""
    from pyspark.sql import functions as F

    minutes = F.call_function("div", micros, F.lit(60_000_000))
    seconds = F.pmod(micros, F.lit(60_000_000)).cast("decimal(8,0)") * F.lit(Decimal("0.000001"))
    hours = F.call_function("div", minutes, F.lit(60))
    parts = hours.cast("int"), F.pmod(minutes, F.lit(60)).cast("int"), seconds.cast("decimal(16,6)")
    return F.call_function("make_time", *parts)


def _from_ticks(column: Column, physical: pa.DataType) -> Column:
    from pyspark.sql import functions as F

    # Parquet has no seconds: Arrow writes times of day in seconds as milliseconds, but durations as
    # they are.
    unit = "ms" if kinds.is_time32(physical) else physical.unit
    ticks = column.cast("bigint")
    if unit == "ns":
        # Towards the past, for times before 1970 too. `/` would go by way of a double.
        micros = F.call_function("div", ticks - F.pmod(ticks, F.lit(1000)), F.lit(1000))
    else:
        micros = ticks * F.lit(_MICROS_IN[unit])
    if kinds.is_time(physical):
        return _time_of_day(micros)
    if kinds.is_timestamp(physical) and physical.tz is not None:
        return F.timestamp_micros(micros)
    interval = F.expr("INTERVAL '0 00:00:00.000001' DAY TO SECOND") * micros
    if kinds.is_duration(physical):
        return interval
    # No function makes a timestamp without zone of a number; by way of one with a zone, the
    # session's would shift it.
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + interval


# --- Batches for Spark ----------------------------------------------------------------------------


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
            columns.append(_exchange(column, field.type))
        except pa.ArrowException as error:
            raise InvalidSchema(
                f"Column {field.name!r} of type {column.type} doesn't fit Spark's {field.type}: "
                f"{error}",
                key=field.name,
                hint="Leave the column out of the selection, or read it with snapshot.scan()",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _exchange(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type.equals(wanted):
        return column
    if isinstance(column, pa.ExtensionArray):
        return _exchange(column.storage, wanted)
    if is_nanoseconds(column.type):
        micros = _cut_to_micros(column)
        return (pc.multiply(micros, 1_000) if kinds.is_time(wanted) else micros).cast(wanted)
    if not any_part(column.type, is_nanoseconds):
        return column.cast(wanted)  # nested types too: by position, and `wanted` has the same ones
    if kinds.is_struct(column.type):
        fields = list(wanted)
        parts = [_exchange(column.field(at), field.type) for at, field in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
    if kinds.is_map(column.type):
        keys, items = (column.keys, wanted.key_type), (column.items, wanted.item_type)
        return _rebuilt_map(column, wanted, _exchange(*keys), _exchange(*items))
    plain = column.cast(pa.list_(column.type.value_field))
    values = _exchange(plain.values, wanted.value_type)
    # From the buffers, because a slice has an offset of its own into them.
    return pa.Array.from_buffers(
        wanted, len(plain), plain.buffers()[:2], offset=plain.offset, children=[values]
    )


def _rebuilt_map(
    column: pa.MapArray, kind: pa.MapType, keys: pa.Array, items: pa.Array
) -> pa.Array:
    fields = [kind.key_field, kind.item_field]
    entries = pa.StructArray.from_arrays([keys, items], fields=fields)
    return pa.Array.from_buffers(
        kind, len(column), column.buffers()[:2], offset=column.offset, children=[entries]
    )


def is_nanoseconds(kind: pa.DataType) -> bool:
    """Whether a type is a time in nanoseconds, which Spark hasn't got."""
    timed = kinds.is_timestamp(kind) or kinds.is_duration(kind) or kinds.is_time(kind)
    return bool(timed and kind.unit == "ns")


def _cut_to_micros(column: pa.Array) -> pa.Array:
    """Ticks in microseconds, cut towards the past, for times before 1970 too."""
    ticks = column.cast(pa.int64())
    micros = pc.divide(ticks, 1_000)  # towards zero
    return pc.subtract(micros, pc.less(ticks, pc.multiply(micros, 1_000)).cast(pa.int64()))


# --- Rows of Spark --------------------------------------------------------------------------------


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that a DataFrame of a Spark schema is written with.

    Raises:
        InvalidSchema: No columns, a name that is empty or occurs twice, or a type that lakelog
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
    if name not in FIXED_SIZES | VARYING_SIZES:
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
            keys = _conform(column.keys, field.type.key_field.with_name(field.name))
            items = _conform(column.items, field.type.item_field.with_name(field.name))
            return _rebuilt_map(column, field.type, keys, items)
        raise InvalidSchema(
            f"Column {field.name!r} comes as {column.type}, and can't be written as {field.type}: "
            f"{error}",
            key=field.name,
            hint="Cast it in Spark before it is written",
        ) from error
