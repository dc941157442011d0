"""`df.write.format("lakelog")`: the tasks do what those of `lakelog.spark.write` do.

Spark runs the three steps in different Python processes: one begins the transaction, those of the
tasks write, and another one of the driver's machine goes on with the transaction and commits it. So
what was begun is sent along, and who committed meanwhile fences it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..catalog.catalog import open_catalog
from ..catalog.commit.distributed_write import Begun, Sharing, begun, go_on
from ..catalog.data.parquet import FILE_BYTES
from ..errors import UsageError
from .access import refuse_memory
from .arrow_types import arrow_schema
from .source_options import flag, json_object, names, need, number, refuse_unknown
from .write import tx_is_done
from .write_task import Job, Outcome, parts, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.commit.transaction import Transaction
    from ..catalog.commit.writer import Writer

OPTIONS: Final = (
    "database", "table", "writer", "where", "partitionBy", "targetFileSizeBytes", "bloom", "appId",
    "appVersion", "shared", "storageOptions", "path",
)  # fmt: skip
_EXAMPLES: Final = {"database": "weather", "table": "hourly", "writer": "spark-nightly"}


@dataclass(frozen=True)
class _Message(WriterCommitMessage):
    outcome: Outcome


@dataclass(frozen=True)
class WritePlan:
    """A write, as in the options. Never shows what opens the store.

    Attributes:
        schema: Of the data.
        overwrite: Whether rows are replaced.
        how: Further options of `Sharing`.
    """

    url: str
    storage_options: str
    writer: str
    database: str
    table: str
    schema: pa.Schema
    overwrite: bool
    how: Mapping[str, Any]
    app_id: str | None
    app_version: int | None
    shared: bool

    def __repr__(self) -> str:
        return f"WritePlan({self.url!r}, {self.writer!r}, {self.database!r}, {self.table!r})"

    def opened(self) -> Writer:
        catalog = open_catalog(self.url, json.loads(self.storage_options))
        return catalog.writer(self.writer, self.database, shared=self.shared)

    def sharing(self, tx: Transaction) -> Sharing:
        return Sharing(tx, self.table, self.schema, overwrite=self.overwrite, **self.how)


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
        return _Message(Outcome() if self._job is None else run(self._job, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits what all tasks have written. Raises as `lakelog.spark.write`."""
        plan = self._plan
        found = parts(one.outcome for one in messages if isinstance(one, _Message))
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
        """Leave everything as it is: a commit that seemed to fail may be in the log. gc takes what
        no commit names."""


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
    further = {
        "where": where,
        "partition_by": names(options, "partitionBy"),
        "bloom": names(options, "bloom") if options.get("bloom") else (),
        "file_bytes": number(options, "targetFileSizeBytes", FILE_BYTES),
    }
    version = number(options, "appVersion", 0) if "appVersion" in options else None
    return WritePlan(
        catalog.url, secret, writer, database, table, arrow_schema(schema), overwrite, further,
        options.get("appId"), version, flag(options, "shared"),
    )  # fmt: skip
