"""Spark columns that turn what the native reader delivers into the target type, where it can't do
so itself.

Only casts that keep every value are made: with `spark.sql.ansi.enabled=false` Spark would wrap an
overflow in silence. The one loss is by Spark's nature: it has no nanoseconds, so they are cut
(towards the past) to microseconds.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from ..errors import InvalidSchema
from .arrow_types import is_list, is_ticks, spark_type, storage

if TYPE_CHECKING:
    from pyspark.sql import Column

_DIGITS = {
    pa.int8(): 3,
    pa.int16(): 5,
    pa.int32(): 10,
    pa.int64(): 19,
    pa.uint8(): 3,
    pa.uint16(): 5,
    pa.uint32(): 10,
    pa.uint64(): 20,
}
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
        return _struct(column, physical, target, name)
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
    if kinds.is_signed_integer(physical):
        return bool(kinds.is_signed_integer(target) and target.bit_width >= physical.bit_width)
    if kinds.is_signed_integer(target):
        return bool(target.bit_width > physical.bit_width)
    return bool(target.bit_width >= physical.bit_width)


def _same_family(physical: pa.DataType, target: pa.DataType) -> bool:
    if kinds.is_timestamp(physical) and kinds.is_timestamp(target):
        return (physical.tz is None) == (target.tz is None)
    return bool(
        (kinds.is_duration(physical) and kinds.is_duration(target))
        or (kinds.is_time(physical) and kinds.is_time(target))
    )


def _struct(column: Column, physical: pa.DataType, target: pa.DataType, name: str) -> Column:
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
