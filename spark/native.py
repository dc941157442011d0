"""One DataFrame over files of different schemas, read by Spark's own Parquet reader.

Files are sorted by what has to be done to them. Whatever the native reader resolves by itself (a
column that is missing, in another place, or narrower) goes into one relation with the table's
schema; only files that need a cast in Spark or a fill get a relation of their own, and a union
joins them. Names and types that the reader would mix up are refused.

Where there is no index of files (`file_index`), as on Spark Connect, and on a Spark whose internals
have changed, Spark gets the paths alone and looks each of them up: two requests for each file when
planning.
"""

from __future__ import annotations

import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from ..errors import InvalidPath, InvalidSchema, SparkUnsupported
from . import file_index
from .arrow_types import (
    any_part,
    convert,
    is_direct,
    is_list,
    may_be_signed,
    read_type,
    spark_type,
    storage,
)
from .file_groups import hadoop_files, paths_of
from .filters import FileSkipper
from .selection import PLACE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from .access import S3Settings
    from .file_groups import FileGroup, KnownFiles
    from .filters import Judge

FILE_INDEX_SWITCH = "LAKELOG_SPARK_FILE_INDEX"
"""Set to `off` in the environment, it makes every read go by paths alone."""

# Whatever the session says: rows are right, or there is an error. Parquet readers verify the
# checksums of pages, which lakelog writes, only on request. And Parquet has no calendar but the
# one of today, though a session may be set to take dates for those of another.
_RIGHT_OR_ERROR = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
}
_METADATA = "_metadata"  # what Spark tells of a file's rows
_warned: set[str] = set()


@dataclass(frozen=True)
class _ColumnPlan:
    """How a column comes about: `read`, under the name `stored`, and, if `physical` is set, cast
    from that; or given by the index of files; or the row's number in its file; else filled, with
    `text` cast."""

    name: str
    read: DataType | None
    physical: pa.DataType | None = None
    text: str | None = None
    stored: str = ""  # as it is named
    by_index: bool = False
    is_place: bool = False


_Plan = tuple[_ColumnPlan, ...]


@dataclass(frozen=True)
class _Request:
    """What is the same for all groups of one read."""

    target: pa.Schema
    options: Mapping[str, str]
    check: Callable[[], bool]
    judge: Judge | None
    settings: S3Settings | None
    cut: str


def read_files(
    spark: SparkSession,
    groups: Sequence[FileGroup],
    target: pa.Schema,
    *,
    options: Mapping[str, str] | None = None,
    check: Callable[[], bool] = lambda: False,
    judge: Judge | None = None,
    settings: S3Settings | None = None,
    cut: str = "a list of files",
) -> DataFrame:
    """Make one DataFrame of the target schema from files of several schemas.

    Args:
        spark: The session; classic for planning without requests, Connect works too.
        groups: The files by physical schema. None at all gives an empty DataFrame.
        target: The unified schema; leave columns out of it to not read them.
        options: Options of the Parquet source, for this read alone.
        check: Called where Spark's tasks can't check the files: raises if one isn't what the log
            says, and tells whether none of lakelog's own has bounds of floats. May be called
            several times.
        judge: Tells by the filters of a query which files may hold rows, by their numbers.
        settings: What opens the stores; None: as the session is set up.
        cut: What is read, in words, for the error of a file that is gone.

    Returns:
        A lazy DataFrame with the target's columns in its order, all nullable.

    Raises:
        SparkUnsupported: There are partition columns, and this session can't have the index of
            files.
        SparkOutOfMemory: The driver has too little for so many files.
        InvalidSchema: A type that Spark can't read or that no safe cast leads from, or column names
            that differ in case only while Spark doesn't tell them apart.
        SparkUnsupported: There are settings, and no file index to take them.

    Requests: none when planned on a classic session; see `relation_of_paths` for the other.
    """
    request = _Request(target, {**(options or {}), **_RIGHT_OR_ERROR}, check, judge, settings, cut)
    exact_case = is_case_sensitive(spark)
    check_names(target, exact_case=exact_case)
    check_times(spark, target)
    branches: dict[tuple[bool, _Plan], list[FileGroup]] = {}
    for group in groups:
        if group.files.num_rows:
            plan = _plan(group, request, exact_case=exact_case)
            branches.setdefault((group.foreign, plan), []).append(group)
    frames = [
        _branch(spark, _without_footers(request) if foreign else request, plan, alike)
        for (foreign, plan), alike in branches.items()
    ]
    return _union(frames) if frames else _empty(spark, request)


def _plan(group: FileGroup, request: _Request, *, exact_case: bool) -> _Plan:
    near = {each.lower() for each in (*group.schema.names, *group.hidden)}
    plan = []
    for wished in request.target:
        name = wished.name
        wanted = spark_type(wished.type, name)
        if name == PLACE_COLUMN:
            plan.append(_ColumnPlan(name, None, is_place=True))
            continue
        if name in group.partitions.column_names:
            plan.append(_ColumnPlan(name, wanted, by_index=True))
            continue
        if name in group.values:
            plan.append(_ColumnPlan(name, None, text=group.values[name]))
            continue
        stored = group.renamed.get(name, "")
        lacks = name in group.hidden and not stored
        if lacks or not is_there(group.schema, stored or name, exact_case=exact_case):
            # The reader itself fills in nulls for a column, if no name in the file comes near it.
            by_reader = name.lower() not in near and not any_part(wished.type, kinds.is_null)
            plan.append(_ColumnPlan(name, wanted if by_reader else None))
            continue
        physical = group.schema.field(stored or name).type
        if kinds.is_null(storage(physical)):
            plan.append(_ColumnPlan(name, None))
        elif is_direct(physical, wished.type) and not (may_be_signed(physical) and group.foreign):
            plan.append(_ColumnPlan(name, wanted, stored=stored))
        else:
            kind = read_type(physical, name)
            plan.append(_ColumnPlan(name, kind, physical, stored=stored))
    return tuple(_without_clashes(plan))


def _without_footers(request: _Request) -> _Request:
    """The same for files that another program wrote: Spark's reader skips no row groups and pages
    of them by what they themselves say. The log's statistics skip whole files, as far as those of
    others count (`foreign_statistics`)."""
    return replace(request, options={**request.options, **_EXACT, **_WITHOUT_BOUNDS})


def _without_clashes(plan: list[_ColumnPlan]) -> Iterator[_ColumnPlan]:
    """Columns that the index tells under names that nothing has which is read from the files: where
    both have one name, Spark takes what the index tells for both."""
    read = {(each.stored or each.name).lower() for each in plan if each.read and not each.by_index}
    taken = read | {each.name.lower() for each in plan if each.by_index}
    for each in plan:
        name = each.name
        if each.by_index and name.lower() in read:
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
        yield replace(each, stored=name) if name != each.name else each


def _branch(
    spark: SparkSession, request: _Request, plan: _Plan, groups: list[FileGroup]
) -> DataFrame:
    from pyspark.sql.types import StructField, StructType

    read = [
        StructField(each.stored or each.name, each.read)
        for each in plan
        if each.read is not None and not each.by_index
    ]
    _check_hidden([column.name for column in read], metadata=any(each.is_place for each in plan))
    indexed = {
        each.name: StructField(each.stored or each.name, each.read)
        for each in plan
        if each.by_index and each.read is not None
    }
    skipper = None
    if request.judge is not None:
        renamed = {each.stored for each in plan}  # a filter there means another column of the cut
        judged = [column for column in read if column.name not in renamed]
        numbers = np.concatenate([group.numbers for group in groups])
        skipper = FileSkipper(request.judge, numbers, judged, request.target)
    known = hadoop_files(spark, pa.concat_tables([group.files for group in groups]))
    partitions = None
    if indexed:
        values = pa.concat_tables([group.partitions for group in groups])
        partitions = StructType([*indexed.values()]), values.select([*indexed])
    frame = _scan(spark, StructType(read), known, request, partitions=partitions, skipper=skipper)
    as_read = not indexed and all(
        each.read is not None and each.physical is None and not each.stored for each in plan
    )
    return frame if as_read else frame.select(*(_column(each, request) for each in plan))


def _column(plan: _ColumnPlan, request: _Request) -> Column:
    from pyspark.sql import functions as F

    if plan.is_place:
        return F.col(f"{_METADATA}.row_index").alias(plan.name)
    target = request.target.field(plan.name).type
    if plan.read is None:
        return F.lit(plan.text).cast(spark_type(target, plan.name)).alias(plan.name)
    stored = plan.stored or plan.name
    column = F.col("`" + stored.replace("`", "``") + "`")
    if plan.physical is None:
        return column.alias(plan.name) if plan.stored else column
    return convert(column, plan.physical, target, plan.name).alias(plan.name)


def _scan(
    spark: SparkSession,
    schema: StructType,
    files: KnownFiles,
    request: _Request,
    *,
    partitions: tuple[StructType, pa.Table] | None,
    skipper: FileSkipper | None,
) -> DataFrame:
    options, settings = request.options, request.settings
    if not is_switched_off():
        try:
            return file_index.relation(
                spark, schema=schema, files=files, partitions=partitions, options=options,
                skipper=skipper, settings=settings, cut=request.cut,
            )  # fmt: skip
        except SparkUnsupported as reason:
            if partitions is not None or settings is not None:
                raise  # for columns the caller knows another way; for settings there is none
            _warn_once(f"{reason.message}: Spark looks up each of the files when it plans")
    if settings is not None:
        # Options of a source are shown in plans, and each path would be opened by a connector of
        # its own.
        raise SparkUnsupported(f"{FILE_INDEX_SWITCH} is off, so Spark can't be given credentials")
    return relation_of_paths(
        spark, schema=schema, files=files, options=options, float_bounds=not request.check()
    )


def is_switched_off() -> bool:
    """Whether the environment says that the index of files isn't to be used."""
    return os.environ.get(FILE_INDEX_SWITCH, "").lower() in ("off", "0", "false")


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=5)


def _union(frames: list[DataFrame]) -> DataFrame:
    # In pairs: Spark analyses a plan again at each step, so a chain of n unions costs n squared.
    while len(frames) > 1:
        pairs = [frames[at : at + 2] for at in range(0, len(frames), 2)]
        frames = [pair[0].union(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
    return frames[0]


def _empty(spark: SparkSession, request: _Request) -> DataFrame:
    columns = [_column(_ColumnPlan(name, None), request) for name in request.target.names]
    return spark.range(0).select(*columns)


# --- Relations by paths ---------------------------------------------------------------------------

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


def relation_of_paths(
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
            floats to read. Those of files of others `options` turn off.

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


# --- What the reader would mix up -----------------------------------------------------------------

_CASE = "spark.sql.caseSensitive"
_TIME = "spark.sql.timeType.enabled"
_ROW_NUMBERS = "_tmp_metadata_row_index"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether the session tells names apart by case."""
    return str(spark.conf.get(_CASE)).lower() == "true"


def check_names(target: pa.Schema, *, exact_case: bool) -> None:
    """Refuse a schema that the session, as it is set up, would mix up.

    Raises:
        InvalidSchema: Names that differ in case only (or not at all).
    """
    _check_distinct(target.names, "", exact_case=exact_case)
    for field in target:
        _check_nested(field.type, field.name, exact_case=exact_case)


def check_times(spark: SparkSession, target: pa.Schema) -> None:
    """Raises `InvalidSchema` for times of day where Spark has them off: its own reader rejects
    them."""
    from pyspark.sql import types

    cure = f"Set {_TIME}=true" if hasattr(types, "TimeType") else "Use Spark 4.1 or later"
    for field in target:
        if any_part(field.type, kinds.is_time) and not _has_times(spark):
            raise InvalidSchema(
                f"Column {field.name!r} is {field.type}, and this session has no times of day",
                hint=f"{cure}, or leave the column out",
            )


def _check_hidden(names: Sequence[str], *, metadata: bool) -> None:
    """Raises `InvalidSchema` for names under which Spark's own Parquet reader gives something else;
    `metadata`: the numbers of rows are read, too."""
    for name in names:
        if name.lower() == _ROW_NUMBERS:
            raise InvalidSchema(
                f"Spark's own reader takes column {name!r} for the numbers of rows",
                hint="Leave the column out, or read it with snapshot.scan()",
            )
        if metadata and name.lower() == _METADATA:
            raise InvalidSchema(f"Column {name!r} hides where Spark gives the numbers of rows")


def is_there(schema: pa.Schema, name: str, *, exact_case: bool) -> bool:
    """Whether files of this schema have the column, under exactly this name.

    Raises:
        InvalidSchema: They have it, and another that Spark takes for the same.
    """
    if name not in schema.names:
        return False
    if not exact_case:
        alike = [each for each in schema.names if each.lower() == name.lower()]
        _check_distinct(alike, "", exact_case=False)
        _check_nested(schema.field(name).type, name, exact_case=False)
    return True


def _check_nested(kind: pa.DataType, where: str, *, exact_case: bool) -> None:
    kind = storage(kind)
    if is_list(kind):
        _check_nested(kind.value_type, where, exact_case=exact_case)
    elif kinds.is_map(kind):
        _check_nested(kind.item_type, where, exact_case=exact_case)
    elif kinds.is_struct(kind):
        _check_distinct([each.name for each in kind], f"{where}.", exact_case=exact_case)
        for each in kind:
            _check_nested(each.type, f"{where}.{each.name}", exact_case=exact_case)


def _check_distinct(names: Sequence[str], prefix: str, *, exact_case: bool) -> None:
    seen: dict[str, str] = {}
    for name in names:
        key = name if exact_case else name.lower()
        if key in seen:
            raise InvalidSchema(
                f"Spark takes columns {prefix + seen[key]!r} and {prefix + name!r} for one",
                hint=f"Set {_CASE}=true, or leave one of them out",
            )
        seen[key] = name


def _has_times(spark: SparkSession) -> bool:
    from pyspark.sql import types

    if not hasattr(types, "TimeType"):
        return False
    try:
        return str(spark.conf.get(_TIME)).lower() == "true"
    except Exception:  # a Spark that knows no such setting: the type is simply there
        return True
