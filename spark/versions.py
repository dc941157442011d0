"""Which versions of Spark lakelog serves, and what some of them can't do."""

from __future__ import annotations

import re
from typing import Final

from ..errors import SparkUnsupported

OLDEST: Final = (4, 0)
ASKS_WHOM_IT_CAN: Final = (4, 2)  # for the partitions that a join chooses
NO_COLUMNS: Final = (4, 1)
WEIGHS_BATCHES: Final = (4, 1)  # of rows on their way to Python
STREAM_SINK: Final = (4, 1)
STREAM_SOURCE: Final = (4, 2)


def check_spark() -> None:
    """Runs `check_version` for the PySpark that is installed; raises as it does."""
    import pyspark

    check_version(pyspark.__version__)


def check_version(version: str) -> None:
    """Refuse a Spark that is too old.

    Args:
        version: Of PySpark, which is that of the session.
    Raises:
        SparkUnsupported: It lacks what reading and writing need.
    """
    _refuse_older(
        version, OLDEST,
        "can neither read nor write lakes: it lacks the data sources in Python by which lakelog "
        "reads files with deleted rows and writes, and the classes that its index of files and its "
        "SQL catalog are made of",
        "with an older one spark.createDataFrame(catalog.snapshot(database).to_pandas(table)) "
        "gives the rows",
    )  # fmt: skip


def check_no_columns(version: str) -> None:
    """Raises `SparkUnsupported` for rows without columns if this Spark counts none from a Python
    source."""
    what = "loses all rows without columns that a source in Python gives it"
    _refuse_older(version, NO_COLUMNS, what, "or ask for a column")


def check_stream_source(version: str) -> None:
    """Refuse a stream from a table on a Spark whose streams can't follow one.

    Raises:
        SparkUnsupported: It tells a source in Python neither where a batch begins nor how much it
            may have.
    """
    _refuse_older(
        version, STREAM_SOURCE,
        "can't stream from a table: it tells a source in Python neither where a batch begins nor "
        "how much it may have, and has no availableNow for it",
        "an older one has streams into tables, and lakelog.spark.changes(...) gives what was "
        "committed since a job last asked",
    )  # fmt: skip


def check_stream_sink(version: str) -> None:
    """Raises `SparkUnsupported` for a stream into a table if this Spark gives a Python sink no
    Arrow."""
    _refuse_older(
        version, STREAM_SINK,
        "can't stream into a table by format('lakelog'): it hands a sink in Python no Arrow",
        "an older one has foreachBatch, with lakelog.spark.write(..., app_id=..., "
        "app_version=batch) in it each batch is committed once",
    )  # fmt: skip


def _refuse_older(version: str, than: tuple[int, int], what: str, else_: str) -> None:
    if is_older(version, than):
        hint = f"Use Spark {than[0]}.{than[1]} or later; {else_}"
        raise SparkUnsupported(f"Spark {version} {what}", key=version, hint=hint)


def is_older(version: str, than: tuple[int, int]) -> bool:
    """Whether a version is before the first one with these numbers; one without numbers isn't."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and tuple(map(int, numbers.groups())) < than
