"""How the rows of a frame come to the Python workers that write them: in Arrow batches.

After each row Spark adds up what its batch weighs by then, which takes as long as all else on the
way together. So where rows are small, as nearly all are, only their number bounds a batch. A
condition in the plan sees that none is large; where one is, the frame is handed over once more,
weighed as Spark does it by itself.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, Final

from .arrow_types import FIXED_SIZES, VARYING_SIZES
from .versions import WEIGHS_BATCHES, is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession


class Turns:
    """Settings belong to a session, whichever thread has set them. Work of one kind runs at once;
    that of another waits until it is done, and lets none that comes later go first."""

    def __init__(self) -> None:
        self._door = Lock()  # held by the one that waits
        self._changed = Condition()
        self._inside = 0
        self._kind: object = None
        self._made: AbstractContextManager[None] | None = None

    @contextmanager
    def of(self, kind: object, made: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Be inside, with others of this kind alone.

        Args:
            made: What is to hold meanwhile: entered by the first of them, left by the last.
        """
        with self._door, self._changed:
            self._changed.wait_for(lambda: not self._inside or self._kind == kind)
            if not self._inside:
                self._kind, self._made = kind, made()
                self._made.__enter__()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                try:
                    if not self._inside and self._made is not None:
                        self._made.__exit__(None, None, None)
                finally:
                    self._changed.notify_all()


_guard: Final = Lock()
_by_session: Final[dict[str, Turns]] = {}


def turns(spark: SparkSession) -> Turns:
    """The turns of a session, whichever object of Python represents it."""
    java: Any = getattr(spark, "_jsparkSession", None)
    name = str(spark.session_id if java is None else java.sessionUUID())
    with _guard:
        return _by_session.setdefault(name, Turns())


LONG_DIGITS: Final = 18  # what Spark, too, keeps in 64 bits
ROWS_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BUFFER_SETTING: Final = "spark.sql.execution.pandas.udf.buffer.size"
SESSION_ROWS: Final = 65_536  # set by `lakelog.spark.session`, for what isn't handed over here
NOT_CHOSEN: Final = ("10000", str(SESSION_ROWS))
BATCH_ROWS: Final = 16_384
FEW_ROWS: Final = 512  # where rows may be large, and Spark can't weigh them
LARGE_ROW_BYTES: Final = 8_192  # times `BATCH_ROWS` is a batch of 128 MiB
BUFFER_BYTES: Final = 1 << 20
NOT_WEIGHED: Final = str((1 << 31) - 1)
_MARK: Final = "lakelog: a row is too large for batches that nobody weighs"


class LargeRow(Exception):
    """A row that came is too large for batches that aren't weighed."""


def must_be_weighed(frame: DataFrame) -> bool:
    """Whether batches of a frame's rows are to be weighed from the start.

    They are where no cheap expression gives a column's size, and where somebody has chosen how
    large batches are.
    """
    set_now = frame.sparkSession.conf.getAll
    # What `collected` sets may be there by another thread, which puts it back.
    rows = set_now.get(ROWS_SETTING, NOT_CHOSEN[0])
    if rows not in (*NOT_CHOSEN, str(BATCH_ROWS)):
        return True
    if set_now.get(BYTES_SETTING, NOT_WEIGHED) != NOT_WEIGHED:
        return True
    kinds = {type(each.dataType).__name__ for each in frame.schema}
    return not kinds <= FIXED_SIZES | VARYING_SIZES


def collected(
    frame: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    *,
    weighed: bool,
) -> list[Any]:
    """The messages of tasks, one of each partition of a frame: rows of one column `message`.

    Args:
        task: Runs in a Python worker, with the batches of its partition.
        weighed: Whether Spark weighs them.
    Raises:
        LargeRow: They were not weighed, and there is a large row. Some tasks may have run.
    """
    spark = frame.sparkSession
    many = FEW_ROWS if is_older(spark.version, WEIGHS_BATCHES) else SESSION_ROWS
    chosen = {BUFFER_SETTING: str(BUFFER_BYTES), ROWS_SETTING: str(many)}
    names, frame = frame.columns, numbered(frame)
    if not weighed:
        frame = _watched(frame)
        chosen |= {ROWS_SETTING: str(BATCH_ROWS), BYTES_SETTING: NOT_WEIGHED}
    frame, decimals = as_longs(frame)
    try:
        with turns(spark).of(weighed, lambda: _set_for_now(spark, chosen)):
            named = partial(_named, names, decimals, task)
            found: list[Any] = frame.mapInArrow(named, "message binary").collect()
            return found
    except Exception as error:
        if not weighed and _MARK in str(error):
            raise LargeRow from None
        raise


def _named(
    names: list[str],
    decimals: Mapping[int, pa.DataType],
    task: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
) -> Iterable[pa.RecordBatch]:
    """A task that gets the columns by their own names again, and decimals as such."""
    return task(with_decimals(batch.rename_columns(names), decimals) for batch in batches)


def _watched(frame: DataFrame) -> DataFrame:
    """The same rows of a frame that is `numbered`; an error if one is large.

    A column raises it, not a filter: Spark moves filters below what makes the columns that they
    look at, and would make these twice, with all that a Python function costs.
    """
    from pyspark.sql import functions

    fields = frame.schema.fields
    columns = [functions.col(each.name) for each in fields]
    kinds = [type(each.dataType).__name__ for each in fields]
    varying = [at for at, kind in enumerate(kinds) if kind in VARYING_SIZES]
    size: Any = None
    for at in varying:
        length = functions.coalesce(functions.octet_length(columns[at]), functions.lit(0))
        size = length if size is None else size + length
    if size is None:
        return frame
    error = functions.raise_error(functions.lit(_MARK))
    first = varying[0]
    columns[first] = functions.when(size <= LARGE_ROW_BYTES, columns[first]).otherwise(error)
    return frame.select(*columns).toDF(*frame.columns)


def numbered(frame: DataFrame) -> DataFrame:
    """The same columns under names by which each is found: `a` and `A` may be one for Spark."""
    return frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))


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


# --- Decimals -------------------------------------------------------------------------------------
#
# Spark keeps a decimal of up to 18 digits as a whole number of its last digit, in 64 bits. For an
# Arrow batch it makes a Java object of each, which costs more than any other type. So the number
# itself is sent, and Arrow makes decimals of a whole batch at once.


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
