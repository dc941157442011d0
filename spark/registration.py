"""The data source `lakelog` made known to a session of Spark's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .versions import check_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_REDACTED = "spark.sql.redaction.options.regex"
_SECRETS = "(?i)(storage|location)options"
# What a server of Connect is asked for stands in its event log and its UI, line by line; each
# option there is a line of its name and one of its value.
_REDACTED_TEXTS = ("spark.sql.redaction.string.regex", "spark.redaction.string.regex")
_SECRET_LINES = r"(?i)(storage|location)options[^\n]*(\n\s*value: [^\n]*)?"


def register_source(spark: SparkSession) -> None:
    """Make the source in Python known, and its storage options secrets in plans.

    Raises:
        SparkUnsupported: This Spark is too old.
    """
    check_spark()
    from pyspark.errors import AnalysisException
    from pyspark_lakelog import DefaultSource

    try:
        with _active(spark):
            spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise  # else Spark 4.0 has found it alone, and registers none in its place
    # CREATE VIEW ... USING shows its options in plans, but for those that this matches.
    _hide(spark, _SECRETS, _REDACTED)
    if not hasattr(spark, "_jsparkSession"):
        _hide(spark, _SECRET_LINES, *_REDACTED_TEXTS)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a classic session the active one of this thread: whether there is such a source already,
    Spark asks the active one, whichever is to be given it."""
    own = getattr(spark, "_jsparkSession", None)
    if own is None:
        yield
        return
    sessions = spark._get_j_spark_session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(own)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _hide(spark: SparkSession, secrets: str, setting: str, *fallbacks: str) -> None:
    """Add an expression to a setting that says what Spark hides.

    Args:
        fallbacks: Settings that hold where this one isn't set; none where Spark has a value.
    """
    if fallbacks:
        told = (spark.conf.get(name, None) for name in (setting, *fallbacks))
        hidden = next((one for one in told if one), "")
    else:  # with a default of ours, Spark's own would be passed over
        hidden = spark.conf.get(setting) or ""
    if secrets not in hidden:
        spark.conf.set(setting, f"{hidden}|{secrets}" if hidden else secrets)
