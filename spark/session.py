"""A Spark session set up for lakelog: quiet, in UTC, with the Python of this process and the data
source in place.

Nothing here is needed to read a lake: `lakelog.spark.read` takes any session. This one spares the
settings.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MissingDependency
from .row_batches import ROWS_SETTING, SESSION_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Where files must be looked up one by one, a task for each would cost twenty times the
    # look-ups.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # On their way to Python rows come in batches: ten thousand at once, as by default, take longer.
    ROWS_SETTING: str(SESSION_ROWS),
}
_LOCAL_DEFAULTS = {  # a laptop's host name need not resolve
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
_REDACTED = "spark.sql.redaction.options.regex"
_SECRETS = "(?i)(storage|location)options"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session(app_name: str = "lakelog", master: str = "local[2]", **conf: object) -> SparkSession:
    """Start a Spark session, or take the one that is there.

    Args:
        app_name: The name Spark shows for it.
        master: Where it runs.
        **conf: Spark settings by their full names: `session(**{"spark.sql.ansi.enabled": False})`.
            They win over what is set here. A running session takes the ones that can still be
            changed.

    Returns:
        A classic session, with `format("lakelog")` registered.

    Raises:
        MissingDependency: PySpark isn't installed, or there is no Java that it can start.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependency(
            "PySpark isn't installed", hint='Install it with: pip install "lakelog[spark]"'
        ) from error
    _need_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers must have lakelog and pyarrow
    settings = _DEFAULTS | (_LOCAL_DEFAULTS if master.startswith("local") else {})
    settings |= {name: _text(value) for name, value in conf.items()}
    with _quiet_start(settings) as quiet:
        builder = SparkSession.builder.appName(app_name).master(master)
        for name, value in quiet.items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except PySparkRuntimeError as error:
            if "JAVA_GATEWAY" not in str(error):
                raise
            raise MissingDependency(
                "Java was found, but Spark doesn't start on it", key=_java() or "", hint=_JAVA_HINT
            ) from error
    register(spark)
    return spark


_JAVA_HINT = "Spark 4 runs on Java 17 or 21: install one, or point JAVA_HOME at it"


def _need_java() -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # started by spark-submit: the JVM is there already
    if _java() is None:
        raise MissingDependency(
            "Spark needs Java, and there is none", key=os.environ.get("JAVA_HOME"), hint=_JAVA_HINT
        )


def _java() -> str | None:
    """Find the Java that Spark's own start script would take."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _quiet_start(settings: dict[str, str]) -> Iterator[dict[str, str]]:
    """Add log settings for the JVM's first seconds, before `spark.log.level` is heard."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "log4j" in settings.get(_JAVA_OPTIONS, ""):
        yield settings
        return
    handle, name = tempfile.mkstemp(prefix="lakelog-", suffix="-log4j2.properties")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(_LOG_SETTINGS)
        option = f"-Dlog4j2.configurationFile={Path(name).as_uri()}"
        yield settings | {_JAVA_OPTIONS: f"{option} {settings.get(_JAVA_OPTIONS, '')}".strip()}
    finally:
        os.unlink(name)


def register(spark: SparkSession) -> None:
    """Make `format("lakelog")` known to a session, and its storage options secrets in plans.

    Spark finds it alone only where lakelog is installed as a plain folder (not editable) and the
    JVM's Python has it on its path.

    The workers of a session that `session` didn't start take Spark's own Python: in a virtual
    environment that isn't activated set `os.environ["PYSPARK_PYTHON"] = sys.executable` before the
    session starts, or they find no lakelog.
    """
    from pyspark_lakelog import DefaultSource

    spark.dataSource.register(DefaultSource)
    hidden = spark.conf.get(_REDACTED, "") or ""
    if _SECRETS not in hidden:
        # CREATE VIEW ... USING shows its options in plans, but for those that this matches.
        spark.conf.set(_REDACTED, f"{hidden}|{_SECRETS}" if hidden else _SECRETS)
