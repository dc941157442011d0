"""A table as a Spark DataFrame: its rows at one cut, or what changed between two.

The snapshot is resolved here, once; what Spark gets is a list of files with their sizes, so a
DataFrame reads the same rows however often it is used, and planning asks the store for nothing.
Where Spark has no connector for the store, the Python data source reads the same cut.

Source: docs/spark.md; docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

import datetime as dt
import json
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..catalog.data.footers.read import check_file
from ..catalog.format.footer import WITHOUT_FLOATS
from ..catalog.format.names import is_own
from ..catalog.parallel import parallel
from ..catalog.read.points_in_time import cut_of
from ..errors import InvalidPredicate, InvalidSchema, InvalidUrl, LakelogError, SparkUnsupported
from ..store.places import is_url, split
from . import file_index
from .access import Access, supports_url
from .arrow_types import spark_schema
from .file_groups import file_groups, known_values
from .native import check_names, is_case_sensitive, is_switched_off, read_files
from .selection import Selection, selection
from .source_options import json_text
from .versions import ASKS_WHOM_IT_CAN, NO_COLUMNS, check_spark, is_older

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from ..catalog.changing import AsOf
    from ..catalog.data.file_part import FilePart
    from ..catalog.read.file_skipping import OneValues
    from ..catalog.read.scan_request import FileList


def read(  # noqa: PLR0917 - as `Catalog.snapshot(database, as_of)` and `DataFrame.where` are called
    spark: SparkSession,
    url: str,
    database: str,
    table: str,
    as_of: AsOf = None,
    where: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    partition: str | None = None,
    writer: str | None = None,
    with_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    location_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> DataFrame:
    """A table at one point in time, as a DataFrame.

    Args:
        spark: Any session, classic or Connect.
        url: The catalog's root, as `lakelog.open_catalog` takes it.
        as_of: None for the newest; an aware datetime, a token, or a revision by writer.
        where: Only rows that meet this predicate (docs/reading.md, "Predicates"): the log's
            statistics rule files out before Spark plans, and Spark filters the rows. For what only
            Spark's SQL can say there is `DataFrame.where`.
        columns: Names, in the order wanted; types need to agree in these alone, and in those that
            `where` looks at.
        partition, writer: Only rows of files of these.
        with_writer: Add the column `_writer` at the end: who wrote the row.
        storage_options, location_options: As for `open_catalog`; Spark's own S3 connector gets them
            too, for this read alone. Without `storage_options` lakelog's requests to S3 go by the
            session's `fs.s3a.*`.
    Returns:
        A lazy DataFrame with the columns of `Snapshot.schema(table, columns)`. Files of which rows
        were deleted are read by `format("lakelog")`, beside the others.
    Raises:
        SparkOutOfMemory: The driver has too little for a list of so many files.
        As `Catalog.snapshot` and `Snapshot.scan`; InvalidSchema for a type that Spark doesn't
        have, or names that it mixes up.
    Warns:
        RuntimeWarning: Spark's own reader can't take a column's type, or can't open where files
            are, so that the data source reads the table.
    Requests: those of `Catalog.snapshot` and `Snapshot.files`, and of columns by which the table is
        partitioned 1 GET for each piece of statistics; planning the query costs none on a classic
        session.
    """
    access = Access.of(spark, url, storage_options, location_options)
    snapshot = access.catalog.snapshot(database, as_of)
    asked = selection(
        snapshot, table, columns, where, partition=partition, writer=writer, with_writer=with_writer
    )
    return frame_of(spark, access, asked)


def frame_of(spark: SparkSession, access: Access, asked: Selection) -> DataFrame:
    """What is asked for of a snapshot, as a DataFrame.

    Raises, Warns: As `read`.
    """
    if supports_url(spark, access.catalog.url):
        try:
            return natively(spark, access, asked)
        except (InvalidSchema, InvalidPredicate, InvalidUrl, SparkUnsupported) as reason:
            _check_source(spark, asked.given, reason)
    return _by_source(spark, access, asked)


def natively(spark: SparkSession, access: Access, asked: Selection) -> DataFrame:
    """What is asked for, by Spark's own reader where Spark has a connector; but for files of which
    rows were deleted, which the source in Python reads.

    Raises: As `native`.
    Requests: Those of `Snapshot.file_list`, and of `native`.
    """
    files = asked.file_list()
    rest = tuple(files.hidden)
    if rest:
        # The source takes files by their keys, and two logs may have added one.
        files = replace(files, rows=_without(files.rows, rest))
    if rest and not files.rows.num_rows:
        return _by_source(spark, access, asked)
    found = native(spark, access, asked, files)
    if not rest:
        return found
    others = _by_source(spark, access, replace(asked, keys=rest))
    if is_older(spark.version, ASKS_WHOM_IT_CAN) and _may_be_partitioned(asked, files):
        # Where a join chooses partitions, these would ask that of the source, too, and fail. They
        # ask nothing of what is below a filter that is no function of the row.
        others = others.where("spark_partition_id() >= 0")
    return found.union(others)


def _without(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The files that are none of these objects."""
    import pyarrow as pa
    import pyarrow.compute as pc

    named = pc.is_in(rows.column("key"), value_set=pa.array(keys, pa.string()))
    return rows.filter(pc.invert(named))


def _may_be_partitioned(asked: Selection, files: FileList) -> bool:
    """Whether the index of files may have partition columns."""
    import pyarrow.compute as pc

    named = pc.any(pc.not_equal(files.rows.column("partition"), "")).as_py()
    return asked.with_writer or asked.with_places or bool(named)


def native(
    spark: SparkSession,
    access: Access,
    asked: Selection,
    files: FileList,
) -> DataFrame:
    """What is asked for, read by Spark's own Parquet reader, which knows nothing of deleted rows.

    Args:
        asked: What of which table.
        files: Of which files.
    Raises:
        InvalidSchema: A column that this reader can't take.
        InvalidPredicate: A type or a value of `where` that Spark doesn't have.
        InvalidUrl: Files are where Spark has no connector for.
        SparkUnsupported: The connector needs settings, and there is no file index.
        ObjectNotFound, CorruptObject: Where Spark's tasks can't check the files, one isn't what
            the log says.
    Requests: on a classic session those for statistics of partition columns; else 1 HEAD and 1 GET
        a file, and Spark's own look-ups.
    """
    target = asked.read_schema
    elsewhere = _elsewhere(files)
    for root in elsewhere:
        if not supports_url(spark, root):
            raise InvalidUrl(f"Spark has no connector for {root}", key=root)

    @cache
    def check() -> bool:
        """Whether no file that lakelog wrote has bounds of floats."""

        def is_without(part: FilePart) -> bool:
            footer = check_file(access.catalog.wide, part)
            return not is_own(part.key) or WITHOUT_FLOATS in footer

        return all(parallel(is_without, list(files.parts())))

    judged = asked.judged(files)
    settings = access.settings(elsewhere)

    def frame(known: Mapping[str, OneValues]) -> DataFrame:
        groups = file_groups(files, target, known, with_writer=asked.with_writer)
        # A MERGE that misses a row adds it again.
        judge = partial(judged.may_hold, proven=asked.with_places)
        found = read_files(
            spark, groups, target, check=check, judge=judge, settings=settings, cut=asked.cut
        )
        return asked.of(found)

    if not is_switched_off() and file_index.is_there(spark):
        try:
            more = {"with_writer": asked.with_writer, "with_places": asked.with_places}
            return frame(known_values(files, asked.schema, judged, **more))
        except SparkUnsupported:
            if asked.with_places:
                raise
            # where no partition columns are needed, there is another way, which warns
    if asked.with_places:
        raise SparkUnsupported("Without the index of files, rows have no places")
    return frame({})


def _elsewhere(files: FileList) -> list[str]:
    """The roots of the places, other than the catalog's own, of files."""
    import pyarrow.compute as pc

    keys = files.rows.column("key")
    found = keys.filter(pc.match_substring(keys, "://")).to_pylist()
    return sorted({split(key).root for key in found if is_url(key)})


def _check_source(spark: SparkSession, target: pa.Schema, reason: LakelogError) -> None:
    """Warns that the data source reads what Spark's own reader can't. Raises `InvalidSchema` if it
    can't either."""
    check_names(target, exact_case=is_case_sensitive(spark))
    spark_schema(target)
    warnings.warn(
        f"{reason.message}: the slower format('lakelog') reads the table",
        RuntimeWarning,
        stacklevel=3,
    )


def _by_source(spark: SparkSession, access: Access, asked: Selection) -> DataFrame:
    if is_older(spark.version, NO_COLUMNS) and not asked.given.names:
        return _by_source(spark, access, replace(asked, with_writer=True)).select()
    return _source(spark, access, asked.options | {"native": "false"}).load(access.catalog.url)


def _source(spark: SparkSession, access: Access, options: Mapping[str, str]) -> DataFrameReader:
    """The reader of the data source in Python."""
    register_source(spark)
    reader = spark.read.format("lakelog").options(**options)
    if access.storage_options:
        reader = reader.option("storageOptions", json_text(access.storage_options))
    if access.location_options:
        reader = reader.option("locationOptions", json_text(access.location_options))
    return reader


# --- Changes --------------------------------------------------------------------------------------


def changes(  # noqa: PLR0917 - as `Catalog.changes` is called
    spark: SparkSession,
    url: str,
    database: str,
    table: str,
    since: AsOf,
    until: AsOf = None,
    *,
    columns: Sequence[str] | None = None,
    net: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    location_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> DataFrame:
    """The rows that were inserted and deleted between two points in time, as `Catalog.changes`
    gives them. The DataFrame keeps the cuts, however often it is used.

    Args:
        spark: Any session, classic or Connect.
        url: The catalog's root, as `lakelog.open_catalog` takes it, and as all executors reach it.
        since, until: A time, a token, or a revision by writer; `until` None: the newest.
        columns: Of the table, in this order; None: all.
        net: Leave out rows that came and went again between. False: what every commit did.
        storage_options, location_options: As for `open_catalog`.
    Returns:
        `_change` (insert or delete), `_writer`, `_revision` and `_committed_at` of the commit, then
        the columns of `Catalog.changes`. Rows come in no order.
    Raises:
        As `Catalog.changes`; InvalidSchema for a type that Spark doesn't have.
    Requests: Here and again when it is used those of `Catalog.changes`, but for reading rows.
    """
    import pyarrow as pa

    from ..catalog.read.commits_between import ABOUT

    access = Access.of(spark, url, storage_options, location_options)
    catalog = access.catalog
    end = catalog.snapshot(database, until).token
    begin = cut_of(database, catalog._earlier(database, since, None, whole=False))
    # Before the first commit there is nothing that a token could name.
    start = begin.token if begin.writers else _point_text(since)
    found = catalog._changes(database, table, start, end, columns, net=net)
    options = {
        "readChangeFeed": "true", "database": database, "table": table, "net": str(net),
        "since": start, "until": end,
    }  # fmt: skip
    if columns is not None:
        options["columns"] = json.dumps(list(columns))
    given = pa.schema([*ABOUT, *found.projection.given])
    return _source(spark, access, options).schema(spark_schema(given)).load(catalog.url)


def _point_text(since: AsOf) -> str:
    """A point in time before the first commit, as options say it."""
    if isinstance(since, dt.datetime):
        return since.isoformat()
    if isinstance(since, Mapping):
        return ",".join(f"{writer}={revision}" for writer, revision in since.items())
    return str(since)


# --- The data source ------------------------------------------------------------------------------

_REDACTED = "spark.sql.redaction.options.regex"
_SECRETS = "(?i)(storage|location)options"
# The event log and the UI of a server of Connect show its requests line by line; each option there
# is a line of its name and one of its value.
_REDACTED_TEXTS = ("spark.sql.redaction.string.regex", "spark.redaction.string.regex")
_SECRET_LINES = r"(?i)(storage|location)options[^\n]*(\n\s*value: [^\n]*)?"


def register_source(spark: SparkSession) -> None:
    """Registers the Python source, and its storage options as secrets in plans. Raises
    `SparkUnsupported` if this Spark is too old."""
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
        values = (spark.conf.get(name, None) for name in (setting, *fallbacks))
        hidden = next((one for one in values if one), "")
    else:  # with a default of ours, Spark's own would be passed over
        hidden = spark.conf.get(setting) or ""
    if secrets not in hidden:
        spark.conf.set(setting, f"{hidden}|{secrets}" if hidden else secrets)
