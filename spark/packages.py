"""What `session(packages=...)` fetches from Maven Central, as Spark's own settings say it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import SparkUnsupported, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        SparkUnsupported: Which Hadoop Spark has can't be told.
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
    """The version of Hadoop that comes with Spark.

    Raises:
        SparkUnsupported: Its jars don't tell.
    """
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
    told = jvm.java.lang.System.getProperty(PACKAGES) or ""
    lacks = sorted(set(wanted.get(PACKAGES, "").split(",")) - set(told.split(",")) - {""})
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
