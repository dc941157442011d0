"""`df.write.format("lakelog")`: the tasks do what those of `lakelog.spark.write` do.

Spark runs the three steps in different Python processes: one begins the transaction, those of the
tasks write, and another one of the driver's machine goes on with the transaction and commits it. So
what was begun is sent along, and who committed meanwhile fences it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..catalog.catalog import open_catalog
from ..catalog.commit.distributed_write import Begun, Sharing, begun, go_on
from ..catalog.data.parquet import FILE_BYTES
from ..errors import UsageError
from .arrow_types import arrow_schema
from .source_options import flag, json_object, names, need, number, refuse_unknown
from .write import refuse_memory, tx_is_done
from .write_task import Job, Told, parts, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.catalog import Catalog
    from ..catalog.commit.transaction import Transaction
    from ..catalog.commit.writer import Writer

OPTIONS: Final = (
    "database", "table", "writer", "where", "partitionBy", "targetFileSizeBytes", "bloom", "appId",
    "appVersion", "shared", "storageOptions", "path",
)  # fmt: skip
_EXAMPLES: Final = {
    "database": "weather",
    "table": "hourly",
    "writer": "spark-nightly",
}


@dataclass(frozen=True)
class _Message(WriterCommitMessage):
    told: Told


@dataclass(frozen=True)
class WritePlan:
    """What is to be written, as the options say it. Never shows what opens the store.

    Attributes:
        schema: Of the data, packed.
        overwrite: Whether rows are replaced.
    """

    url: str
    storage_options: str
    writer: str
    database: str
    table: str
    schema: pa.Schema
    overwrite: bool
    where: str | None
    partition_by: tuple[str, ...] | None
    bloom: tuple[str, ...]
    file_bytes: int
    app_id: str | None
    app_version: int | None
    shared: bool

    def __repr__(self) -> str:
        return f"WritePlan({self.url!r}, {self.writer!r}, {self.database!r}, {self.table!r})"

    def opened(self) -> Writer:
        return self._catalog().writer(self.writer, self.database, shared=self.shared)

    def _catalog(self) -> Catalog:
        return open_catalog(self.url, json.loads(self.storage_options))

    def sharing(self, tx: Transaction) -> Sharing:
        return Sharing(
            tx, self.table, self.schema, partition_by=self.partition_by, overwrite=self.overwrite,
            where=self.where, file_bytes=self.file_bytes, bloom=self.bloom,
        )  # fmt: skip


class LakelogWriter(DataSourceArrowWriter):
    """Writes one DataFrame, in one commit.

    Args:
        options: Those of `OPTIONS`.
        schema: Of the frame.
        overwrite: Whether rows are replaced: all of the table's in this writer's files, or those
            that the option `where` names.
    Raises:
        UsageError: An option that is missing, unknown, or can't be.
        Else what `lakelog.spark.write` raises before its tasks run.
    Requests: Those of `Catalog.writer`.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._plan = write_plan(options, schema, overwrite, "write", OPTIONS)
        self._begun: Begun | None = None  # nothing is to be written
        self._job: Job | None = None
        with self._plan.opened() as writer:
            tx = writer.transaction(self._plan.app_id, self._plan.app_version)
            try:
                if not tx_is_done(tx):
                    share = self._plan.sharing(tx).share
                    self._job = Job(self._plan.url, self._plan.storage_options, share)
                    self._begun = begun(writer, tx)
            finally:
                tx.discard()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return _Message(Told() if self._job is None else run(self._job, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks have written.

        Raises:
            What `lakelog.spark.write` raises when it commits.
        """
        plan = self._plan
        found = parts(one.told for one in messages if isinstance(one, _Message))
        with plan.opened() as writer:
            if self._begun is None:
                tx = writer.transaction(plan.app_id, plan.app_version)
            else:
                tx = go_on(writer, self._begun, plan.app_id, plan.app_version)
                try:
                    plan.sharing(tx).finish(found)
                except BaseException:
                    tx.discard()
                    raise
            info = tx.commit()
        if info is not None and info.skipped:
            print(
                f"lakelog: version {plan.app_version} of {plan.app_id!r}, or a later one, was "
                "committed before: nothing was written",
                file=sys.stderr,
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave everything as it is: a commit that seemed to fail may stand. gc takes what no
        commit names."""


def write_plan(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,
    how: str,
    known: Sequence[str],
) -> WritePlan:
    """What options say.

    Args:
        how: `write` or `writeStream`.
        known: Those that there are.
    Raises:
        UsageError: One is missing, unknown, or can't be.
    """
    refuse_unknown(options, known, f"df.{how}.format('lakelog')")
    writer, database, table = (
        need(options, name, f"e.g. .option({name!r}, {_EXAMPLES[name]!r})")
        for name in ("writer", "database", "table")
    )
    where = options.get("where")
    if where is not None and not overwrite:
        raise UsageError(
            "The option where says which rows are replaced, and mode('append') replaces none",
            key="where",
            hint="Use mode('overwrite'), or filter the frame: df.where(...)",
        )
    url = need(options, "path", "the catalog's URL goes to save(url), or start(url)")
    secret = options.get("storageOptions") or "{}"
    catalog = open_catalog(url, json_object("storageOptions", secret))
    refuse_memory(catalog.url)
    by = options.get("partitionBy")
    version = options.get("appVersion")
    return WritePlan(
        url=catalog.url,
        storage_options=secret,
        writer=writer,
        database=database,
        table=table,
        schema=arrow_schema(schema),
        overwrite=overwrite,
        where=where,
        partition_by=None if by is None else tuple(names(by, "partitionBy")),
        bloom=tuple(names(options.get("bloom") or "[]", "bloom")),
        file_bytes=number(
            options.get("targetFileSizeBytes", str(FILE_BYTES)), "targetFileSizeBytes"
        ),
        app_id=options.get("appId"),
        app_version=None if version is None else number(version, "appVersion"),
        shared=flag(options, "shared"),
    )
