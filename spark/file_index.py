"""A Spark relation over files whose paths and sizes are already known: planning asks the store for
nothing.

`spark.read.parquet(*paths)` makes two requests for each path before it plans. The log has the paths
and the exact sizes, so they are handed to Spark as an index of its own, in one call, and Spark's
native Parquet reader does the rest: column pruning, row-group push-down, splits, `_metadata`.

In the tasks each file is compared with the log before it is read (`task_java`).

This needs the JVM of a classic session. Where there is none (Spark Connect), or where a Spark to
come has changed the internals that the index uses, `SparkUnsupported` is raised and
`native.relation_of_paths` serves.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from ..errors import SparkUnsupported
from .file_groups import pack
from .filters_java import FILTERS
from .jvm import compiled, typed_errors
from .relation_java import FACTORY_CLASS, RELATION
from .task_java import TASK_CLASSES, TASK_CODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .access import S3Settings
    from .file_groups import KnownFiles
    from .filters import FileSkipper

SETTINGS_NAME: Final = "lakelog.read"
_sent_to: Final[list[Any]] = []  # the context whose executors have the code; at most one is alive
_sending: Final = Lock()


def relation(
    spark: SparkSession,
    *,
    schema: StructType,
    files: KnownFiles,
    partitions: tuple[StructType, pa.Table] | None = None,
    options: Mapping[str, str] | None = None,
    skipper: FileSkipper | None = None,
    settings: S3Settings | None = None,
    cut: str = "a list of files",
) -> DataFrame:
    """Make a DataFrame that reads exactly these Parquet files.

    A file of another size or, where it is known, with another footer fails the query that reads it.
    All columns become nullable: a column that a file lacks reads as null.

    Args:
        spark: A classic session.
        schema: What to read; the native reader must accept it for every file (see `read_types`).
        files: As the log knows them, in a scheme that Hadoop knows.
        options: Options of the Parquet source for this read alone; plans may show them.
        partitions: Further columns, and per file the one value of each: see `known_files.pack`.
        skipper: Tells by a query's filters which of the files may hold rows; it is called back from
            the JVM, in any thread. None: each query reads all.
        settings: What opens the store; asked whenever a query is planned, as the skipper is. None:
            as the session is set up.
        cut: What is read, in words, for the error of a file that is gone.

    Returns:
        A lazy DataFrame with the columns of `schema`, in its order, and those of `partitions`.

    Raises:
        SparkUnsupported: The session has no JVM at hand, or its Spark doesn't fit the index.
        SparkOutOfMemory: The driver has too little for so many files.

    Requests: none, now or when planning, but those of the skipper; reading costs what Spark's
        Parquet reader costs.
    """
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    factory = _factory(spark)
    further, values = partitions or (StructType([]), pa.table({}))
    body = pack(files, values)
    with typed_errors(f"the index of {files.num_rows:,} files"):
        given = spark._jvm.java.util.HashMap()
        for name, value in (options or {}).items():
            given.put(name, value)
        if settings is not None:
            given.put(SETTINGS_NAME, settings.name)  # so that other settings are another plan
        if skipper is not None or settings is not None:
            ensure_callback_server_started(spark.sparkContext._gateway)
        with _written(spark.sparkContext, body) as path:
            frame = factory.relation(
                spark._jsparkSession, schema.json(), further.json(), path, given, skipper,
                settings, cut,
            )  # fmt: skip
        return DataFrame(frame, spark)


def is_there(spark: SparkSession) -> bool:
    """Whether this session can have such an index."""
    try:
        _factory(spark)
    except SparkUnsupported:
        return False
    return True


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
    if getattr(spark, "_jsparkSession", None) is None:
        raise SparkUnsupported("Spark Connect gives no access to the JVM")
    context = spark.sparkContext
    texts = (TASK_CODE, FILTERS, RELATION)
    with _sending, typed_errors(f"the file index doesn't compile on Spark {spark.version}"):
        made = compiled(context._gateway, FACTORY_CLASS, texts, keep=TASK_CLASSES)
        if not any(sent is context for sent in _sent_to):
            _send(context, made.code)
            _sent_to[:] = [context]
        return made.entry


def _send(context: Any, code: Mapping[str, bytes]) -> None:
    """Give the classes that run in the tasks to all executors, those to come as well.

    The jar stays as long as the context: executors fetch it from the driver when they first need
    it.
    """
    handle, path = tempfile.mkstemp(dir=context._temp_dir, prefix="lakelog-", suffix=".jar")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as jar:
        for name, body in code.items():
            jar.writestr(name.replace(".", "/") + ".class", body)
    context._jsc.addJar(path)
