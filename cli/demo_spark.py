"""The part of the demo that needs Java: Spark reads two points in time."""

from __future__ import annotations

import datetime as dt
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptError, MissingDependency
from . import demo_data as data
from .output import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Answers = list[tuple[Any, ...]]

JUNE: Final = "2013-06-15T00:00:00Z"
_SQL: Final = """\
SELECT origin, count(*) AS hours, min(temp) AS coldest_may_hour
FROM {view} WHERE month = 5 GROUP BY origin ORDER BY origin"""


@contextmanager
def spark_reader(url: str) -> Iterator[Callable[[], Answers]]:
    """A session, for as long as the block lasts.

    Yields:
        Has Spark read both points in time, prints the answers and returns them. Where Spark or
        Java is missing it says so, once, and has no answers.
    """
    from ..spark import session

    try:
        with warnings.catch_warnings():  # Spark's own, about Python packages, are no part of a tour
            warnings.simplefilter("ignore")
            spark = session("lakelog demo")
    except MissingDependency as error:
        line(f"  left out: {error}")
        yield list
        return
    try:
        yield lambda: _read_both(spark, url)
    finally:
        spark.stop()


def _read_both(spark: Any, url: str) -> Answers:
    """Ask for both, and hold the counts against the source."""
    from ..spark import read

    answers: Answers = []
    rows = data.source()
    june = dt.datetime.fromisoformat(JUNE)
    for view, as_of, months in (("june", june, 5), ("now", None, 12)):
        frame = read(spark, url, data.DATABASE, data.TABLE, as_of=as_of)
        frame.createOrReplaceTempView(view)
        count = frame.count()
        expected = sum(
            data.month_of(rows, airport, month).num_rows
            for airport in data.AIRPORTS
            for month in range(1, months + 1)
        )
        if count != expected:
            raise CorruptError(
                f"Spark counts {count} rows where the source has {expected}", key=url
            )
        line(f"  as of {JUNE if as_of else 'now'}: {count:,} rows, as many as in the source")
        found = [tuple(row) for row in spark.sql(_SQL.format(view=view)).collect()]
        for origin, hours, coldest in found:
            line(f"    {origin}  {hours} hours in May, the coldest {coldest:.2f} °F")
        answers += [(view, count), *found]
    return answers
