"""A Spark relation over files whose paths and sizes are already known: planning asks the store for
nothing.

`spark.read.parquet(*paths)` makes two requests for each path before it plans. The log has the paths
and the exact sizes, so they are handed to Spark as an index of its own, in one call, and Spark's
native Parquet reader does the
rest: column pruning, row-group push-down, splits, `_metadata`.

This needs the JVM of a classic session. Where there is none (Spark Connect), or where a Spark to
come has changed the internals that the index stands on, `FileIndexUnavailable` is raised and
`parquet_paths.relation` serves.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ..errors import LakelogError
from .file_index_java import FACTORY_CLASS, FILE_INDEX, RELATION_FACTORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    KnownFile = tuple[str, int]
    """A raw path or URL (never percent-encoded) and the exact size in bytes."""


class FileIndexUnavailable(LakelogError):
    """This session can't take a file index of ours: no JVM at hand, or another Spark inside."""


# One factory for each JVM. A process has one JVM in all but exotic cases, and it survives
# `spark.stop()`; the gateway is kept beside the factory, so that its identity can't be taken over
# by a new one at the same address.
_factories: list[tuple[Any, Any]] = []


def relation(
    spark: SparkSession,
    *,
    schema: StructType,
    files: Sequence[KnownFile],
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Make a DataFrame that reads exactly these Parquet files.

    A size smaller than the true one cuts rows off without an error, so sizes must come from the
    log, which holds what was verified at commit. All columns become nullable: a column that a file
    lacks reads as null.

    Args:
        spark: A classic session.
        schema: What to read; the native reader must accept it for every file (see `read_types`).
        files: Paths or URLs as they are, in a scheme that Hadoop knows, and sizes in bytes.

        options: Options of the Parquet source, and Hadoop settings, for this read alone.

    Returns:
        A lazy DataFrame with the columns of `schema`, in its order.

    Raises:
        FileIndexUnavailable: The session has no JVM at hand, or its Spark doesn't fit the index.

    Requests: none, now or when planning; reading costs what Spark's Parquet reader costs.
    """
    from pyspark.sql import DataFrame

    java_session = getattr(spark, "_jsparkSession", None)
    if java_session is None:
        raise FileIndexUnavailable("Spark Connect gives no access to the JVM")
    factory = _factory(spark)
    try:
        settings = spark._jvm.java.util.HashMap()
        for name, value in (options or {}).items():
            settings.put(name, value)
        frame = factory.relation(java_session, schema.json(), pack(files), settings)
    except Exception as error:
        raise FileIndexUnavailable(f"Spark refused the file index: {_first_line(error)}") from error
    return DataFrame(frame, spark)


def pack(files: Sequence[KnownFile]) -> bytes:
    """Put paths and sizes into one byte string, since each call into the JVM costs as much as a
    thousand paths.

    Big-endian: the count (4 bytes), the length of each path in bytes (4 each), the sizes (8 each),
    the paths.
    """
    paths = [path.encode() for path, _ in files]
    count = len(paths)
    sizes = [size_bytes for _, size_bytes in files]
    return (
        struct.pack(f">i{count}i", count, *map(len, paths))
        + struct.pack(f">{count}q", *sizes)
        + b"".join(paths)
    )


def _factory(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    for known, factory in _factories:
        if known is gateway:
            return factory
    try:
        factory = _compile(spark._jvm, gateway)
    except Exception as error:
        raise FileIndexUnavailable(
            f"the file index doesn't compile on Spark {spark.version}: {_first_line(error)}"
        ) from error
    _factories.append((gateway, factory))
    return factory


def _compile(jvm: Any, gateway: Any) -> Any:
    # The context class loader, because under spark-submit Spark itself isn't on the system class
    # path.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for text in (
        FILE_INDEX,
        RELATION_FACTORY,
    ):  # one class at a time: Janino resolves them in this order
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(text)
        loader = compiler.getClassLoader()
    constructor = loader.loadClass(FACTORY_CLASS).getDeclaredConstructor(
        gateway.new_array(jvm.java.lang.Class, 0)
    )
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))


def _first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    text = str(cause.toString()) if cause is not None else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
