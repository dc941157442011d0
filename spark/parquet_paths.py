"""The second-best way to read known files: hand Spark their paths, and let it look each of them up.

It serves where `file_index` can't: on Spark Connect, and on a Spark whose internals have changed.
It costs two requests for each file when planning.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import InvalidPath
from .known_files import paths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .known_files import KnownFiles

_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
# Spark makes a task of each path, up to this number. Ten thousand tasks cost twenty times the
# listing itself.
_TASKS = "8"
# What Hadoop's globs give a meaning to. Spark has an option against globbing; Connect ignores it,
# and then `a*.parquet` reads other files too.
_GLOB = re.compile(r"([\[\]{}*?\\])")
# Of floats dictionaries and Bloom filters tell -0.0 from 0.0, which are equal for Spark; bounds in
# footers and page indexes ignore NaN, which is greater than all else for Spark. And the value that
# a decimal, a date or a time is compared with may reach the reader as another one
# (`relation_java`). Spark's reader heeds these options per read, and for all columns alike.
_FLOATS = ('"float"', '"double"')
_MOVED = ('"decimal(', '"date"', '"timestamp')
_EXACT = {
    "parquet.filter.dictionary.enabled": "false",
    "parquet.filter.bloom.enabled": "false",
}
_WITHOUT_BOUNDS = {
    "parquet.filter.stats.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
}


def relation(
    spark: SparkSession,
    *,
    schema: StructType,
    files: KnownFiles,
    options: Mapping[str, str] | None = None,
    float_bounds: bool = True,
) -> DataFrame:
    """Make a DataFrame that reads exactly these Parquet files, by their paths alone.

    Args:
        spark: A session of any kind, Connect included.
        schema: What to read; the native reader must accept it for every file.
        files: As the log knows them, at least one. Spark looks them up again and takes whatever it
            finds: the caller holds them against the log (`catalog.data.footers.read`).
        options: Options of the Parquet source, for this read alone.
        float_bounds: Whether a file may have bounds of floats: then none are used, if there are
            floats to read.

    Raises:
        InvalidPath: A file's name starts with `_` or `.`: Spark would leave it out without a word.

    Requests: one HEAD and one LIST for each file, now (Connect may repeat them).
    """
    paths = paths_of(files)
    for path in paths:
        if path.rpartition("/")[2].startswith(("_", ".")):
            raise InvalidPath(
                "Spark leaves out files whose names start with '_' or '.', without a word",
                key=path,
                hint="Read on a classic session, where the file index takes such names",
            )
    # No partition discovery: `day=1` in a path is no column here.
    settings = dict(options or {}) | {"recursiveFileLookup": "true"}
    kinds = schema.json()
    are_moved = any(kind in kinds for kind in _MOVED)
    if are_moved or any(kind in kinds for kind in _FLOATS):
        settings |= _EXACT | (_WITHOUT_BOUNDS if are_moved or float_bounds else {})
    with _few_listing_tasks(spark):
        reader = spark.read.schema(schema).options(**settings)
        frame = reader.parquet(*(_GLOB.sub(r"\\\1", path) for path in paths))
        _ = frame.schema  # Connect looks the files up only when asked, and then keeps the answer
        return frame


@contextmanager
def _few_listing_tasks(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(_LISTING_TASKS)
    spark.conf.set(_LISTING_TASKS, _TASKS)
    try:
        yield
    finally:
        spark.conf.set(_LISTING_TASKS, before)
