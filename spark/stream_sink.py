"""`df.writeStream.format("lakelog")`: each batch of a query is one commit, once.

Spark tells tasks and the commit which batch of which query they are of; in the log these are an
application and its version. A batch is run in three kinds of Python processes: one begins the
transaction and sends along what the log knows of applications, those of the tasks write, and
another one goes on with the transaction and commits it.

Source: docs/spark.md, "Streams".
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ..catalog.commit.distributed_write import begun, go_on, known_versions
from ..errors import StreamLost, UsageError
from .write_source import write_plan
from .write_task import Job, Outcome, parts, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..catalog.commit.distributed_write import Begun

OPTIONS: Final = (
    "database", "table", "writer", "partitionBy", "targetFileSizeBytes", "bloom", "appId",
    "shared", "storageOptions", "path", "checkpointLocation", "queryName", "outputMode",
)  # fmt: skip
# As Spark's tasks know them.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
MOST_APPLICATIONS: Final = 10_000


@dataclass(frozen=True)
class _Message(WriterCommitMessage):
    """The message of a task.

    Attributes:
        outcome: What it has written.
        app_id, batch: Of which batch of which query it is.
        known: The newest batch of it that was in the log when the transaction was begun.
        begun: The transaction.
    """

    outcome: Outcome
    app_id: str
    batch: int
    known: int
    begun: Begun


class LakelogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each in one commit.

    Args:
        options: Those of `OPTIONS`.
        schema: Of the frame.
        overwrite: Whether each batch is the whole result, so that it takes the place of all rows of
            the table in this writer's files.
    Raises:
        UsageError: An option that is missing, unknown, or can't be; a log that knows too many
            applications.
        Else what `lakelog.spark.write` raises before its tasks run.
    Requests: Those of `Catalog.writer`.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._plan = write_plan(options, schema, overwrite, "writeStream", OPTIONS)
        with self._plan.opened() as writer:
            tx = writer.transaction()
            try:
                share = self._plan.sharing(tx).share
                self._job = Job(self._plan.url, self._plan.storage_options, share)
                self._begun = begun(writer, tx)
                self._known = known_versions(writer, self._plan.app_id, most=MOST_APPLICATIONS)
            finally:
                tx.discard()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; nothing if the log has the batch already."""
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        app_id = self._plan.app_id or context.getLocalProperty(_QUERY)
        batch = context.getLocalProperty(_BATCH)
        if not app_id or batch is None:
            raise UsageError(
                "Spark doesn't tell its tasks which batch of which query they are of",
                hint="Write the batches yourself: foreachBatch, with lakelog.spark.write",
            )
        number, known = int(batch), self._known.get(app_id, -1)
        if known >= number:
            return _Message(Outcome(), app_id, number, known, self._begun)
        meta = replace(self._job.share.meta, app_id=app_id, app_version=number)
        job = replace(self._job, share=replace(self._job.share, meta=meta))
        return _Message(run(job, iterator), app_id, number, known, self._begun)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit what all tasks have written, unless the log has the batch already.

        Raises:
            StreamLost: The log has a later batch of the query.
            What `lakelog.spark.write` raises when it commits.
        """
        plan = self._plan
        found = [one for one in messages if isinstance(one, _Message)]
        first = found[0] if found else None
        if first is None and not plan.overwrite:
            return  # no task, no row
        app_id = plan.app_id if first is None else first.app_id
        if app_id is None:
            raise UsageError(
                "A batch without any task doesn't tell which query it is of",
                hint="Name the query: .option('appId', ...)",
            )
        ours = {(one.app_id, one.batch, one.begun.transaction_id) for one in found}
        if first is not None and ours != {(app_id, batchId, first.begun.transaction_id)}:
            raise UsageError(f"The tasks of batch {batchId} tell of other batches", key=app_id)
        with plan.opened() as writer:
            known = known_versions(writer, app_id, most=1).get(app_id, -1)
            if known >= batchId:
                self._skip(app_id, batchId, known)
                return
            if first is None:
                tx = writer.transaction(app_id, batchId)
            else:
                base = first.begun.base._replace(app_version=first.known)
                tx = go_on(writer, replace(first.begun, base=base), app_id, batchId)
            try:
                rows = plan.sharing(tx).finish(parts(one.outcome for one in found)).rows_added
            except BaseException:
                tx.discard()
                raise
            if not rows and not tx._intent.actions:
                tx.discard()  # no row, and nothing that it would be right to do only once
                return
            info = tx.commit()
        if info is not None and info.skipped:  # another run of the query was faster
            self._skip(app_id, batchId, batchId)

    def _skip(self, app_id: str, batch: int, known: int) -> None:
        """Say that the log has a batch already.

        Raises:
            StreamLost: It has later ones, too: Spark runs only the last one again.
        """
        where = f"{self._plan.writer}/{self._plan.database}"
        if known > batch:
            raise StreamLost(
                f"Batch {batch} of query {app_id} comes, and {where} has its batch {known} already",
                key=where,
                hint="Nothing was written. Was the checkpoint deleted or set back, or does another "
                "process run the query? Stop that one; or give the query a new checkpointLocation, "
                "and no appId or a new one",
            )
        print(
            f"lakelog: batch {batch} of query {app_id} was committed before: nothing was written",
            file=sys.stderr,
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave everything as it is: a commit that seemed to fail may be in the log. gc takes what
        no commit names."""
