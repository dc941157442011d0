"""A DataFrame into a table: executors write the files, this process commits them once.

Each task hands its rows, as Arrow batches, to lakelog's own writer of Parquet in a Python worker,
which puts files straight below the writer's prefix. Nobody sees them before the commit. A task that
is tried again writes other files; those of attempts that don't count are left to gc.

Source: docs/spark.md, "Writing".
"""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

from ..catalog.commit.distributed_write import Sharing
from ..catalog.data.parquet import FILE_BYTES
from ..errors import UsageError
from .access import Access, refuse_memory
from .arrow_types import arrow_schema
from .row_batches import LargeRow, collected, must_be_weighed, numbered
from .source_options import json_text
from .stages import watched
from .versions import check_spark
from .write_task import Job, as_batches, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from ..catalog.commit.base_transaction import Replaced
    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.outcomes import CommitInfo
    from .stages import Stages

MODES: Final = ("append", "overwrite")


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did.

    Attributes:
        commit_info: The commit; None if there was nothing to commit.
        skipped: Whether this version of the application, or a later one, was committed before:
            nothing was written.
        files: Paths of the new files, relative to `<writer>/<database>/`.
        rows: How many rows came.
        rows_removed: How many went, of an overwrite.
    """

    commit_info: CommitInfo | None
    skipped: bool
    files: tuple[str, ...] = ()
    rows: int = 0
    rows_removed: int = 0


def write(
    frame: DataFrame,
    url: str,
    database: str,
    table: str,
    *,
    writer: str,
    mode: Literal["append", "overwrite"] = "append",
    where: str | None = None,
    partition_by: Sequence[str] | None = None,
    sort_by: Sequence[str] | str | None = None,
    target_file_size_bytes: int = FILE_BYTES,
    bloom: Sequence[str] = (),
    app_id: str | None = None,
    app_version: int | None = None,
    shared: bool = False,
    summary: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | Callable[[Stages], None] = False,
) -> Written:
    """Write a DataFrame into a table, in one commit: all of it becomes visible, or nothing.

    Args:
        frame: Of any session, classic or Connect.
        url: The catalog's root, as `lakelog.open_catalog` takes it, and as all executors reach it.
        writer: Whose log it is committed to. Opening it fences a process that has it open, unless
            `shared`: give Spark a writer of its own. Threads of one process wait for each other.
        mode: Whether the rows are added, or come in the place of all rows of this writer's files
            of the table, or of those that meet `where`.
        where: What is replaced, in lakelog's predicates (docs/reading.md); the frame's rows must
            meet it as well.
        partition_by: Columns by whose values each task's rows are split.
        sort_by: Columns by which each task's rows are sorted first.
        target_file_size_bytes: A file is closed once it is about so large.
        bloom: Columns that get bloom filters.
        app_id, app_version: Idempotence: if this version of the application or a later one is in
            the log, no task runs, nothing is written, and the result says `skipped`.
        shared: Commit beside the writer's owner and other guests.
        summary: Words for the history.
        storage_options: For the store, here and in the executors; never in a plan. Without them S3
            is opened by the session's `fs.s3a.*`.
        progress: Called with how far Spark is, several times a second, from another thread. True:
            shown on stderr, as a line that is written again on a terminal, as a line every 10 s
            elsewhere.
    Returns:
        What it did. A frame without rows adds no file; where the table is new its columns are
        committed, and so is the application's version.
    Raises:
        UsageError: A mode or an argument that can't be; a stream.
        SparkUnsupported: The Spark that is installed is too old.
        InvalidSchema: A column of a type that lakelog can't hold, named.
        OperationInvalid: Rows that don't meet `where`.
        FencedError, EpochChanged: Another owner has taken the writer over. Nothing was committed.
        CommitOutcomeUnknown: The store gave no answer: with `app_id` just run the job again.
        Else as `Catalog.writer`, `Transaction.write` and `Transaction.overwrite`; what Spark raises
            where a task fails. Files that are left over are gc's.
    Requests: In this process those of `Catalog.writer`, and 1 PUT; an overwrite those of
        `Transaction.overwrite`; in the executors 1 PUT a file.
    """
    check_spark()
    _check(frame, mode, where)
    schema = arrow_schema(frame.schema)
    spark = frame.sparkSession
    access = Access.of(spark, url, storage_options)
    catalog = access.catalog
    refuse_memory(catalog.url)
    frame = _sorted(frame, partition_by, sort_by)
    weighed = must_be_weighed(frame)
    turn = nullcontext() if shared else owner_turn(catalog.url, database, writer)
    with turn, catalog.writer(writer, database, shared=shared) as opened:
        while True:
            tx = opened.transaction(app_id, app_version, summary=summary)
            if tx_is_done(tx):
                return Written(tx.commit(), skipped=True)
            try:
                sharing = Sharing(
                    tx, table, schema, partition_by=partition_by, overwrite=mode == "overwrite",
                    where=where, file_bytes=target_file_size_bytes, bloom=bloom,
                )  # fmt: skip
                job = Job(catalog.url, json_text(access.task_options()), sharing.share)
                with watched(spark, progress, f"writing {table}") as watch, watch.tagged():
                    messages = collected(frame, partial(as_batches, job), weighed=weighed)
                done = sharing.finish(parts(pickle.loads(row["message"]) for row in messages))
            except LargeRow:
                tx.discard()  # another transaction: tasks of this one have left files behind
                weighed = True
                continue
            except BaseException:
                tx.discard()
                raise
            return _committed(tx, done)


_turns: Final[dict[tuple[str, str, str], Lock]] = {}


def owner_turn(url: str, database: str, writer: str) -> Lock:
    """What threads of this process hold while they own a writer: else each that opens it would
    fence the one before."""
    return _turns.setdefault((url, database, writer), Lock())


def tx_is_done(tx: Transaction) -> bool:
    """Whether the log has the transaction's version of its application, or a later one."""
    return bool(tx._intent.app_id) and tx._base.app_version >= tx._intent.app_version


def _committed(tx: Transaction, done: Replaced) -> Written:
    info = tx.commit()
    if info is not None and info.skipped:  # another run was faster
        return Written(info, skipped=True)
    files = (*done.paths, *done.rewritten)
    return Written(info, False, files, done.rows_added, done.rows_removed)


def _check(frame: DataFrame, mode: str, where: str | None) -> None:
    if mode not in MODES:
        raise UsageError(
            f"mode= can't be {mode!r:.60}",
            key=str(mode)[:60],
            hint="Give 'append', or 'overwrite', with where= for some of the rows",
        )
    if where is not None and mode != "overwrite":
        raise UsageError(
            "where= says which rows are replaced, and mode='append' replaces none",
            key="where",
            hint="Give mode='overwrite', or filter the frame: frame.where(...)",
        )
    if frame.isStreaming:
        raise UsageError(
            "A streaming frame can't be written as a whole",
            hint="Write each batch: foreachBatch, with the query's id as app_id and the batch's "
            "as app_version",
        )


def _sorted(
    frame: DataFrame, partition_by: Sequence[str] | None, sort_by: Sequence[str] | str | None
) -> DataFrame:
    from ..catalog.commit.inputs import columns_to_sort
    from ..catalog.data.partitioned import check_columns

    order = columns_to_sort(sort_by)
    if not order:
        return frame
    for name in order:
        if name not in frame.columns:
            raise UsageError(
                f"The frame has no column {name!r} to be sorted by",
                key=name,
                hint=f"It has: {', '.join(frame.columns)}",
            )
    first = [] if partition_by is None else check_columns(partition_by)
    names = frame.columns
    places = [names.index(name) for name in dict.fromkeys([*first, *order]) if name in names]
    plain = numbered(frame)
    return plain.sortWithinPartitions(*[plain.columns[at] for at in places]).toDF(*names)
