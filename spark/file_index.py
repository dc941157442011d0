"""A Spark relation over files whose paths and sizes are already known: planning asks the store for
nothing.

`spark.read.parquet(*paths)` makes two requests for each path before it plans. The log has the paths
and the exact sizes, so they are handed to Spark as an index of its own, in one call, and Spark's
native Parquet reader does the rest: column pruning, row-group push-down, splits, `_metadata`.

In the tasks each file is held against the log before it is read (`checked_read_java`).

This needs the JVM of a classic session. Where there is none (Spark Connect), or where a Spark to
come has changed the internals that the index stands on, `SparkUnsupported` is raised and
`parquet_paths.relation` serves.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import SparkUnsupported
from .checked_read_java import CHECKED_READ, CHECKED_READ_CLASS
from .file_index_java import FACTORY_CLASS, FILE_INDEX, PARQUET_FORMAT, RELATION_FACTORY
from .filters_java import FILTERS
from .janino import compile_texts, first_line, new_instance
from .known_files import pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .known_files import KnownFiles
    from .skipping import FileSkipper


class _Compiled(NamedTuple):
    """What was compiled for a JVM: one time, for py4j finds methods by the name of a class.

    Attributes:
        gateway: To that JVM; kept, so that its identity can't be taken over by another one's.
        factory: Makes relations.
        task_code: The class that runs in the tasks.
        told: The contexts whose executors were given it; at most one is alive.
    """

    gateway: Any
    factory: Any
    task_code: bytes
    told: list[Any]


_compiled: list[_Compiled] = []
_compiling = Lock()  # two threads may make the first frames of a session


def relation(
    spark: SparkSession,
    *,
    schema: StructType,
    files: KnownFiles,
    options: Mapping[str, str] | None = None,
    skipper: FileSkipper | None = None,
    cut: str = "a list of files",
) -> DataFrame:
    """Make a DataFrame that reads exactly these Parquet files.

    A file of another size or, where it is known, with another footer fails the query that reads it.
    All columns become nullable: a column that a file lacks reads as null.

    Args:
        spark: A classic session.
        schema: What to read; the native reader must accept it for every file (see `read_types`).
        files: As the log knows them, in a scheme that Hadoop knows.
        options: Options of the Parquet source, and Hadoop settings, for this read alone.
        skipper: Tells by a query's filters which of the files may hold rows; it is called back from
            the JVM, in any thread. None: each query reads all.
        cut: What is read, in words, for the error of a file that is gone.

    Returns:
        A lazy DataFrame with the columns of `schema`, in its order.

    Raises:
        SparkUnsupported: The session has no JVM at hand, or its Spark doesn't fit the index.

    Requests: none, now or when planning, but those of the skipper; reading costs what Spark's
        Parquet reader costs.
    """
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame

    java_session = getattr(spark, "_jsparkSession", None)
    if java_session is None:
        raise SparkUnsupported("Spark Connect gives no access to the JVM")
    factory = _factory(spark)
    try:
        settings = spark._jvm.java.util.HashMap()
        for name, value in (options or {}).items():
            settings.put(name, value)
        if skipper is not None:
            ensure_callback_server_started(spark.sparkContext._gateway)
        with _written(spark.sparkContext, pack(files)) as path:
            frame = factory.relation(java_session, schema.json(), path, settings, skipper, cut)
    except Exception as error:
        raise SparkUnsupported(f"Spark refused the file index: {first_line(error)}") from error
    return DataFrame(frame, spark)


@contextmanager
def _written(context: Any, body: bytes) -> Iterator[str]:
    """A file for the JVM to read, which is on this machine."""
    handle, path = tempfile.mkstemp(dir=context._temp_dir, prefix="lakelog-", suffix=".files")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        yield path
    finally:
        os.unlink(path)


class FilesRead(NamedTuple):
    """What a query reads of its tables.

    Attributes:
        read: Files that may hold rows which it asks for.
        of: All files that its frames know.
    """

    read: int
    of: int


def files_read(frame: DataFrame) -> FilesRead:
    """How many files a query reads, planned and not run: those of frames that `read` made.

    Args:
        frame: With all that is done to it, of a classic session. What it has cached isn't counted.
    Raises:
        SparkUnsupported: The session has no JVM at hand.
    Requests: 1 GET for each piece of statistics of columns that nobody asked for before.
    """
    java_frame = getattr(frame, "_jdf", None)
    if java_frame is None:
        raise SparkUnsupported("Spark Connect gives no access to the JVM")
    return FilesRead(*map(int, _factory(frame.sparkSession).filesRead(java_frame)))


def _factory(spark: SparkSession) -> Any:
    with _compiling:
        return _factory_of(spark)


def _factory_of(spark: SparkSession) -> Any:
    context = spark.sparkContext
    try:
        found = next((one for one in _compiled if one.gateway is context._gateway), None)
        if found is None:
            found = _compile(context)
            _compiled[:] = [found]  # a process has one JVM at a time
        if not any(told is context for told in found.told):
            _send(context, found.task_code)
            found.told[:] = [context]
    except Exception as error:
        raise SparkUnsupported(
            f"the file index doesn't compile on Spark {spark.version}: {first_line(error)}"
        ) from error
    return found.factory


def _compile(context: Any) -> _Compiled:
    texts = (CHECKED_READ, FILTERS, FILE_INDEX, PARQUET_FORMAT, RELATION_FACTORY)
    gateway = context._gateway
    made = compile_texts(gateway.jvm, texts, keep=[CHECKED_READ_CLASS])
    factory = new_instance(gateway, made.loader, FACTORY_CLASS)
    return _Compiled(gateway, factory, made.code[CHECKED_READ_CLASS], [])


def _send(context: Any, code: bytes) -> None:
    """Give the class that runs in the tasks to all executors, those to come as well.

    The jar stays as long as the context: executors fetch it from the driver when they first need
    it.
    """
    handle, path = tempfile.mkstemp(dir=context._temp_dir, prefix="lakelog-", suffix=".jar")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as jar:
        jar.writestr(CHECKED_READ_CLASS.replace(".", "/") + ".class", code)
    context._jsc.addJar(path)
