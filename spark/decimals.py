"""Decimals on their way to Python workers: as the whole numbers that they are of their last digit.

Spark keeps a decimal of up to 18 digits as such a number of 64 bits, and makes an object of Java's
big decimals of each before it goes into an Arrow batch, of 128 bits. That costs more than any other
kind of column. The number itself goes as it is, and Arrow makes decimals of a whole batch at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

LONG_DIGITS: Final = 18  # what Spark, too, keeps in 64 bits


def as_longs(frame: DataFrame) -> tuple[DataFrame, dict[int, pa.DataType]]:
    """The same frame with decimals as whole numbers, and by their places what they were.

    Spark Connect takes no such expression: there nothing changes, nor where a Spark lacks it.

    Args:
        frame: Whose columns are found by their names.
    """
    import pyarrow as pa
    from pyspark.sql import functions

    spark, fields = frame.sparkSession, frame.schema.fields
    found: dict[int, pa.DataType] = {}
    columns = []
    for at, each in enumerate(fields):
        kind: Any = each.dataType
        column = None
        if type(kind).__name__ == "DecimalType" and kind.precision <= LONG_DIGITS:
            column = _unscaled(spark, each.name, kind.precision, kind.scale)
        if column is None:
            column = functions.col(each.name)
        else:
            found[at] = pa.decimal128(kind.precision, kind.scale)
        columns.append(column.alias(each.name))
    return (frame.select(*columns) if found else frame), found


def _unscaled(spark: Any, name: str, precision: int, scale: int) -> Column | None:
    if not hasattr(spark, "_jsparkSession"):
        return None
    from py4j.protocol import Py4JError
    from pyspark.sql.classic.column import Column as ClassicColumn

    sql = spark._jvm.org.apache.spark.sql
    try:
        column = sql.catalyst.analysis.UnresolvedAttribute.quoted(name)
        # A source may hand over one of another scale than its column's. As Spark does before it
        # writes any, this puts it right, and makes null of what is too large for the column.
        kind = sql.types.DecimalType(precision, scale)
        checked = sql.catalyst.expressions.CheckOverflow(column, kind, True)
        number = sql.catalyst.expressions.UnscaledValue(checked)
        return ClassicColumn(sql.classic.ExpressionUtils.column(number))
    except (Py4JError, TypeError):  # the latter of a class that isn't there
        return None


def with_decimals(batch: pa.RecordBatch, decimals: Mapping[int, pa.DataType]) -> pa.RecordBatch:
    """A batch of `as_longs` with its decimals again.

    Args:
        decimals: As from there.
    """
    if not decimals:
        return batch
    import pyarrow as pa

    of_longs = pa.decimal128(19, 0)  # has room for each
    columns = [
        each if at not in decimals else each.cast(of_longs).view(decimals[at])
        for at, each in enumerate(batch.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
