"""What changed in a table between two points in time, as a DataFrame.

Source: docs/spark.md, "Changes"; docs/changing.md, "What changed, row by row".
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..catalog.changing import cut_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..catalog.changing import AsOf


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

    from ..catalog.read.step_rows import ABOUT
    from .access import Access
    from .arrow_types import spark_schema
    from .session import register
    from .source_options import json_text

    access = Access.of(spark, url, storage_options, location_options)
    catalog = access.catalog
    end = catalog.snapshot(database, until).token
    begin = cut_of(database, catalog._earlier(database, since, None, whole=False))
    # Before the first commit there is nothing that a token could name.
    start = begin.token if begin.writers else _text(since)
    found = catalog._changes(database, table, start, end, columns, net=net)
    register(spark)
    reader = spark.read.format("lakelog").option("readChangeFeed", "true")
    reader = reader.option("database", database).option("table", table).option("net", str(net))
    reader = reader.option("since", start).option("until", end)
    if columns is not None:
        reader = reader.option("columns", json.dumps(list(columns)))
    if access.storage_options:
        reader = reader.option("storageOptions", json_text(access.storage_options))
    if location_options:
        reader = reader.option("locationOptions", json_text(location_options))
    given = pa.schema([*ABOUT, *found.projection.given])
    return reader.schema(spark_schema(given)).load(catalog.url)


def _text(since: AsOf) -> str:
    """A point in time before the first commit, as options say it."""
    if isinstance(since, dt.datetime):
        return since.isoformat()
    if isinstance(since, Mapping):
        return ",".join(f"{writer}={revision}" for writer, revision in since.items())
    return str(since)
