"""A table of a cut as a Spark DataFrame.

The snapshot is resolved here, once; what Spark gets is a list of files with their sizes, so a
DataFrame reads the same rows however often it is used, and planning asks the store for nothing.
Where Spark has no connector for the store, the Python data source reads the same cut.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..catalog.catalog import Catalog, open_catalog
from ..catalog.data.footers.known import check_file
from ..catalog.format.footer import WITHOUT_FLOATS
from ..catalog.format.names import parse_data_file
from ..catalog.parallel import parallel
from ..errors import InvalidPredicate, InvalidSchema, InvalidUrl, LakelogError, UsageError
from ..store.places import is_url, split
from .arrow_types import spark_schema
from .column_names import check_names, is_case_sensitive
from .file_groups import file_groups
from .hadoop_options import bucket_options, hadoop_options
from .native import read_files
from .selection import Selection, selection
from .urls import supports_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..catalog.changing import AsOf
    from ..catalog.data.file_part import FilePart
    from ..catalog.read.file_list import FileList


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
        storage_options, location_options: As for `open_catalog`; Spark's own S3 connector gets them
            too, for this read alone.
    Returns:
        A lazy DataFrame with the columns of `Snapshot.schema(table, columns)`. Files of which rows
        were deleted are read by `format("lakelog")`, beside the others.
    Raises:
        As `Catalog.snapshot` and `Snapshot.scan`; InvalidSchema for a type that Spark doesn't
        have, or names that it mixes up.
    Warns:
        RuntimeWarning: Spark's own reader can't take a column's type, or can't open where files
            lie, so that the data source reads the table.
    Requests: those of `Catalog.snapshot` and `Snapshot.files`; planning the query costs none on a
        classic session.
    """
    access = Access.of(url, storage_options, location_options)
    snapshot = access.catalog.snapshot(database, as_of)
    asked = selection(snapshot, table, columns, where, partition=partition, writer=writer)
    return frame_of(spark, access, asked)


@dataclass(frozen=True)
class Access:
    """A catalog, and what opens its store, which Spark's tasks need too."""

    catalog: Catalog
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    location_options: Mapping[str, Mapping[str, Any]] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        location_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Access:
        """That of a root, opened as `open_catalog` does."""
        catalog = open_catalog(url, storage_options, location_options)
        return cls(catalog, storage_options, location_options)


def frame_of(spark: SparkSession, access: Access, asked: Selection) -> DataFrame:
    """What is asked for of a snapshot, as a DataFrame.

    Raises, Warns: As `read`.
    """
    catalog = access.catalog
    if supports_url(spark, catalog.url):
        options = hadoop_options(catalog.url, access.storage_options)
        files = asked.file_list()
        rest = tuple(files.hidden)
        try:
            if files.rows.num_rows or not rest:
                found = native(spark, catalog, asked, files, options)
                if not rest:
                    return found
                return found.union(_by_source(spark, access, replace(asked, keys=rest)))
        except (InvalidSchema, InvalidPredicate, InvalidUrl) as reason:
            _check_source(spark, asked.given, reason)
    return _by_source(spark, access, asked)


def native(
    spark: SparkSession,
    catalog: Catalog,
    asked: Selection,
    files: FileList,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """What is asked for, read by Spark's own Parquet reader, which knows nothing of deleted rows.

    Args:
        asked: What of which table.
        files: Of which files.
        options: Hadoop settings for this read alone; see `hadoop_options`.
    Raises:
        InvalidSchema: A column that this reader can't take.
        InvalidPredicate: A type or a value of `where` that Spark doesn't have.
        InvalidUrl: Files lie where Spark has no connector for.
        ObjectNotFound, CorruptObject: Where Spark's tasks can't check the files, one isn't what
            the log says.
    Requests: none on a classic session; else 1 HEAD and 1 GET a file, and Spark's own look-ups.
    """
    target = asked.schema
    options = {**(options or {}), **_of_locations(spark, catalog, files)}

    @cache
    def check() -> bool:
        """Whether no file has bounds of floats: a copy of a file of ours may say so and have them,
        but doesn't have such a name."""

        def is_without(part: FilePart) -> bool:
            footer = check_file(catalog.wide, part)
            is_ours = not is_url(part.key) and parse_data_file(part.key) is not None
            return is_ours and WITHOUT_FLOATS in footer

        return all(parallel(is_without, list(files.parts())))

    judge = asked.judged(files).may_hold
    groups = file_groups(files, target)
    found = read_files(spark, groups, target, options=options, check=check, judge=judge)
    return asked.of(found)


def _of_locations(spark: SparkSession, catalog: Catalog, files: FileList) -> dict[str, str]:
    """Hadoop settings for the places where files lie that are not the catalog's own.

    Raises:
        InvalidUrl: Spark has no connector for one.
    """
    found: dict[str, str] = {}
    import pyarrow.compute as pc

    keys = files.rows.column("key")
    elsewhere = keys.filter(pc.match_substring(keys, "://")).to_pylist()
    for root in sorted({split(key).root for key in elsewhere if is_url(key)}):
        if not supports_url(spark, root):
            raise InvalidUrl(f"Spark has no connector for {root}", key=root)
        found |= bucket_options(root, catalog.wide.options_of(root))
    return found


def _check_source(spark: SparkSession, target: pa.Schema, reason: LakelogError) -> None:
    """Warn that the data source reads what Spark's own reader can't; it needs a Spark type too.

    Raises:
        InvalidSchema: It can't either.
    """
    check_names(target, exact_case=is_case_sensitive(spark))
    spark_schema(target)
    warnings.warn(
        f"{reason.message}: the slower format('lakelog') reads the table",
        RuntimeWarning,
        stacklevel=3,
    )


def _by_source(spark: SparkSession, access: Access, asked: Selection) -> DataFrame:
    from .session import register

    register(spark)
    reader = spark.read.format("lakelog").options(**asked.options)
    if access.storage_options:
        reader = reader.option("storageOptions", json_text(access.storage_options))
    if access.location_options:
        reader = reader.option("locationOptions", json_text(access.location_options))
    return reader.load(access.catalog.url)


def json_text(given: Mapping[str, Any]) -> str:
    """Options of a store, as those of Spark say them.

    Raises:
        UsageError: Something in them is no JSON.
    """
    try:
        return json.dumps(dict(given))
    except (TypeError, ValueError):
        raise UsageError(
            "The storage options hold something that isn't JSON, so Spark's tasks can't have them",
            key="storage_options",
            hint="Give plain texts, numbers, lists and dicts",
        ) from None  # the cause might show a value
