"""How the rows of a frame come to the Python workers that write them: in Arrow batches.

After each row Spark adds up what its batch weighs by then, which takes as long as all else on the
way together. So where rows are small, as nearly all are, only their number bounds a batch. A
condition in the plan sees that none is large; where one is, the frame is handed over once more,
weighed as Spark does it by itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BUFFER_SETTING: Final = "spark.sql.execution.pandas.udf.buffer.size"
SESSION_ROWS: Final = 65_536  # set by `lakelog.spark.session`, for what isn't handed over here
NOT_CHOSEN: Final = ("10000", str(SESSION_ROWS))
BATCH_ROWS: Final = 16_384
LARGE_ROW_BYTES: Final = 8_192  # times `BATCH_ROWS` is a batch of 128 MiB
BUFFER_BYTES: Final = 1 << 20
_NOT_WEIGHED: Final = str((1 << 31) - 1)
_MARK: Final = "lakelog: a row is too large for batches that nobody weighs"
_FIXED: Final = frozenset({
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType",
    "DecimalType", "DateType", "TimestampType", "TimestampNTZType", "DayTimeIntervalType",
    "TimeType", "NullType",
})  # fmt: skip
_VARYING: Final = frozenset({"StringType", "CharType", "VarcharType", "BinaryType"})


class LargeRow(Exception):
    """A row that came is too large for batches that aren't weighed."""


def must_be_weighed(frame: DataFrame) -> bool:
    """Whether batches of a frame's rows are to be weighed from the start.

    They are where a column's size can't be told by a cheap expression, and where somebody has
    chosen how large batches are.
    """
    conf = frame.sparkSession.conf
    if conf.get(ROWS_SETTING) not in NOT_CHOSEN or BYTES_SETTING in conf.getAll:
        return True
    return any(type(each.dataType).__name__ not in _FIXED | _VARYING for each in frame.schema)


def collected(
    frame: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    *,
    weighed: bool,
) -> list[Any]:
    """What a task tells, a row of one column `told`, of each partition of a frame.

    Args:
        task: Runs in a Python worker, with the batches of its partition.
        weighed: Whether Spark weighs them.
    Raises:
        LargeRow: They were not weighed, and there is a large row. Some tasks may have run.
    """
    spark = frame.sparkSession
    chosen = {BUFFER_SETTING: str(BUFFER_BYTES), ROWS_SETTING: str(SESSION_ROWS)}
    if not weighed:
        frame = _watched(frame)
        chosen |= {ROWS_SETTING: str(BATCH_ROWS), BYTES_SETTING: _NOT_WEIGHED}
    try:
        with _set_for_now(spark, chosen):
            found: list[Any] = frame.mapInArrow(task, "told binary").collect()
            return found
    except Exception as error:
        if not weighed and _MARK in str(error):
            raise LargeRow from None
        raise


def _watched(frame: DataFrame) -> DataFrame:
    """The same rows; an error if one is large."""
    from pyspark.sql import functions

    size: Any = None
    for each in frame.schema:
        if type(each.dataType).__name__ in _VARYING:
            column = frame["`" + each.name.replace("`", "``") + "`"]
            length = functions.coalesce(functions.octet_length(column), functions.lit(0))
            size = length if size is None else size + length
    if size is None:
        return frame
    error = functions.raise_error(functions.lit(_MARK)).cast("boolean")
    return frame.where(functions.when(size <= LARGE_ROW_BYTES, True).otherwise(error))


@contextmanager
def _set_for_now(spark: SparkSession, chosen: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session where nobody has chosen them, set back afterwards."""
    before = {name: spark.conf.getAll.get(name) for name in chosen}
    todo = [
        name
        for name, was in before.items()
        if was is None or (name == ROWS_SETTING and was in NOT_CHOSEN)
    ]
    for name in todo:
        spark.conf.set(name, chosen[name])
    try:
        yield
    finally:
        for name in todo:
            was = before[name]
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
