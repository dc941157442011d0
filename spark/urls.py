"""Which URLs Spark can open by itself, and how Hadoop spells them.

fsspec and Hadoop share most schemes, but not all names: what is `s3://` to the one is `s3a://` to
the other. Whether a scheme has a connector is asked of the JVM, by loading the class, not guessed
from a list of jars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HADOOP_NAMES = {
    "local": ("file",),
    "s3": ("s3", "s3a"),  # `s3` first: on EMR it is a connector of its own
    "s3a": ("s3a",),
    "gcs": ("gs",),
}


def supports_url(spark: SparkSession, url: str) -> bool:
    """Whether this Spark can open the URL by itself, with a Hadoop connector that is on its class
    path.

    On Spark Connect nobody can be asked: only local files are said to be supported there. Where
    this is false, the Python data source (`format("lakelog")`), which reads by fsspec, is the way.

    Requests: none.
    """
    scheme, rest = split_scheme(url)
    if scheme in ("abfs", "abfss") and "@" not in rest.partition("/")[0]:
        return False  # adlfs takes the account from the options, Hadoop only from the URL
    return hadoop_scheme(spark, scheme) is not None


def hadoop_scheme(spark: SparkSession, scheme: str) -> str | None:
    """Name the scheme under which Hadoop has a connector for an fsspec scheme; None without one."""
    if getattr(spark, "_jsparkSession", None) is None:
        return "file" if scheme in ("file", "local") else None
    for name in _HADOOP_NAMES.get(scheme, (scheme,)):
        if _has_connector(spark, name):
            return name
    return None


def split_scheme(url: str) -> tuple[str, str]:
    """Split a URL into scheme and rest; a plain path is a local file."""
    scheme, separator, rest = url.partition("://")
    return (scheme.lower(), rest) if separator else ("file", url)


def _has_connector(spark: SparkSession, scheme: str) -> bool:
    from py4j.protocol import Py4JJavaError

    # Spark's view of the configuration: it has what `spark.hadoop.*` set.
    java: Any = spark
    configuration = java._jsparkSession.sessionState().newHadoopConf()
    file_system = java._jvm.org.apache.hadoop.fs.FileSystem
    try:
        file_system.getFileSystemClass(scheme, configuration)
    except Py4JJavaError:  # no such scheme, or its class isn't there
        return False
    return True
