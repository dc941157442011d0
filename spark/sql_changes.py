"""DELETE, UPDATE and MERGE of Spark's SQL on a lake: one commit to one writer's log, or none.

A DELETE whose condition lakelog knows is a delete by that condition. For all else Spark's own query
says which rows go and which come: tasks write those that come, and those that go are deleted by a
predicate that is true in the cut of exactly them (`gone_rows`), in the same commit.

Source: docs/spark.md, "DELETE, UPDATE, MERGE".
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.commit.sharing import Sharing
from ..catalog.format.columns import numbers
from ..catalog.format.widening import plain
from ..errors import InvalidSchema, OperationConflict, PlanOutdated
from .arrow_types import any_part
from .change_task import Changed, ChangeJob, change_rows
from .exact_filters import exact_text
from .gone_rows import all_gone, predicate_of, watched_columns
from .write import large_batches, refuse_memory
from .write_task import Job, parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from ..catalog.commit.transaction import Transaction
    from ..catalog.commit.writer import Writer
    from ..catalog.snapshot import Snapshot
    from .read import Access


@dataclass(frozen=True)
class Statement:
    """What is to be changed, and how Spark says it.

    Attributes:
        command: DELETE, UPDATE or MERGE.
        database, table: Of what.
        token: Of the cut that the statement was made for.
        condition: Of a DELETE or UPDATE, as `FilterText` writes it.
        new: Which columns of the query have the row that comes.
        old: Which one has the row that goes.
    """

    command: str
    database: str
    table: str
    token: str
    condition: str
    new: tuple[int, ...]
    old: int

    @classmethod
    def of(cls, *words: str) -> Statement:
        """That of the words that the JVM tells."""
        command, database, table, token, condition, new, old = words
        places = tuple(int(place) for place in new.split(",") if place)
        return cls(command, database, table, token, condition, places, int(old))


def change(access: Access, writer: str, statement: Statement, query: DataFrame) -> None:
    """Do what a statement says.

    Args:
        writer: Whose log it is committed to.
        query: Of each row that goes or comes what is to be done, and both.
    Raises:
        OperationConflict: Others have changed the table since the statement's cut. Nothing was
            committed.
        SparkUnsupported: No predicate is known that is true of the rows that go alone.
        InvalidSchema: A column holds what Spark would write otherwise.
        FencedError, CommitOutcomeUnknown: As for `lakelog.spark.write`.
        As `Catalog.writer`, `Transaction.delete` and `Transaction.write`.
    Requests: Those of `Catalog.writer`, of `Catalog.snapshot` twice, and 1 PUT; of `Snapshot.scan`
        for rows that no condition tells; in the executors 1 PUT a file.
    """
    catalog = access.catalog
    snapshot = catalog.snapshot(statement.database, statement.token)
    own = None
    if statement.command != "MERGE":
        schema = snapshot.schema(statement.table)
        own = exact_text(statement.condition, schema, statement.table)
    with catalog.writer(writer, statement.database) as opened:
        newest = partial(catalog.snapshot, statement.database)
        tx = opened.transaction()
        try:
            if statement.command == "DELETE" and own is not None:
                _delete_where(tx, opened, newest(), snapshot, statement, own)
            else:
                _change_rows(tx, access, newest, snapshot, statement, query, own)
            tx.commit()
        except BaseException as error:
            tx.discard()
            if isinstance(error, PlanOutdated):
                raise _conflict(statement, "others have committed to the log since") from error
            raise


def _delete_where(
    tx: Transaction, opened: Writer, now: Snapshot, then: Snapshot, statement: Statement, where: str
) -> None:
    """Delete by a condition, in all files that the table has now."""
    table = statement.table
    found = then.diff(now, table)
    changed = [row for row in found.schemas.to_pylist() if row["change"] != "added"]
    changed += [row for row in found.in_place.to_pylist() if row["what"] != "deletes"]
    if changed or found.tables.num_rows:
        raise _conflict(statement, "others have changed the table's columns since")
    if [state.writer for state in now._states if _clocks(state, table)] == [opened.writer_id]:
        _follow(tx, now, opened.writer_id)
        tx.delete(table, where)  # which may let whole files go, and ends with them
    else:
        tx.delete(table, where, cut=now)


def _change_rows(  # noqa: PLR0917 - each is what another step needs
    tx: Transaction,
    access: Access,
    newest: Callable[[], Snapshot],
    then: Snapshot,
    statement: Statement,
    query: DataFrame,
    own: str | None,
) -> None:
    """Put rows that come in the place of rows that go."""
    table, catalog = statement.table, access.catalog
    refuse_memory(catalog.url)
    schema, key = then.schema(table), then.key(table)
    sharing = job = None
    if statement.new:
        _refuse_lossy(schema, statement)
        fields = [field.with_type(plain(field.type)) for field in schema]
        clock = _newer(tx, then, table) if key else None
        sharing = Sharing(tx, table, pa.schema(fields), clock=clock)
        job = Job(catalog.url, json.dumps(dict(access.storage_options or {})), sharing.share)
    watched = watched_columns(schema)
    told = _run(query, ChangeJob(job, statement.new, statement.old, watched, key))
    written = parts(one.written for one in told)
    gone = all_gone(watched, (one.gone for one in told))
    if gone.count:
        tx.delete(table, predicate_of(then, table, gone, own, key), cut=then)
    comes = any(part.rows for part in written)
    if sharing is not None and comes:
        sharing.finish(written)
    if gone.count or comes:
        added = bool(key) or statement.command == "MERGE"
        tx._intent.last_looks.append(
            lambda: _look_again(tx, newest(), then, statement, added=added)
        )


def _run(query: DataFrame, job: ChangeJob) -> list[Changed]:
    with large_batches(query.sparkSession):
        rows = query.mapInArrow(partial(change_rows, job), "told binary").collect()
    return [pickle.loads(row["told"]) for row in rows]


def _refuse_lossy(schema: pa.Schema, statement: Statement) -> None:
    """Refuse to write rows anew that Spark doesn't hold as they are."""

    def is_finer(kind: pa.DataType) -> bool:
        has_unit = kinds.is_timestamp(kind) or kinds.is_duration(kind) or kinds.is_time64(kind)
        return bool(has_unit and kind.unit == "ns")

    for field in schema:
        if any_part(field.type, is_finer):
            raise InvalidSchema(
                f"Column {field.name!r} is {field.type}, and Spark has no nanoseconds: "
                f"{statement.command} would cut those of rows that it writes anew",
                key=field.name,
                hint="Nothing was committed. Use tx.upsert, or tx.delete and tx.write",
            )


def _newer(tx: Transaction, then: Snapshot, table: str) -> tuple[int, int]:
    """A clock above those of all rows of a table with a key, whoever wrote them."""
    newest = max([clock for state in then._states for clock in _clocks(state, table)], default=0)
    first, last = tx._session.clock()
    return (first, last) if first > newest else (newest + 1, newest + 1)


def _clocks(state: Any, table: str) -> list[int]:
    """The clock of the newest file that a log has of a table; none if it has no file."""
    files, _ = state.table_of(table)
    found = numbers(files.table(table, whole=True).column("last_clock"))
    return [int(found.max())] if len(found) else []


def _follow(tx: Transaction, now: Snapshot, writer: str) -> None:
    """Commit onto the revision that a snapshot has, or not at all."""
    tx._intent.onto = next((s.digest for s in now._states if s.writer == writer), b"")


def _look_again(
    tx: Transaction, now: Snapshot, then: Snapshot, statement: Statement, *, added: bool
) -> None:
    """Refuse to commit if the rows that were read aren't those of the table any more.

    Args:
        added: Whether new rows are such a change: one may have the key of a row that was read.
    Raises:
        OperationConflict: They aren't.
    """
    found = then.diff(now, statement.table)
    for row in found.files.to_pylist():
        if row["change"] == "removed" or added:
            raise _conflict(
                statement, f"{row['writer']} has {row['change']} {row['path']} since", row["writer"]
            )
    for row in found.in_place.to_pylist():
        raise _conflict(
            statement, f"{row['writer']} has changed {row['what']} since", row["writer"]
        )
    if found.tables.num_rows:
        raise _conflict(statement, "the table came or went since")
    _follow(tx, now, tx._session.writer_id)


def _conflict(statement: Statement, why: str, writer: str = "") -> OperationConflict:
    return OperationConflict(
        f"The {statement.command} of table {statement.table!r} read it at one cut, and {why}",
        key=writer or statement.table,
        table=statement.table,
        operation=statement.command.lower(),
        hint="Nothing was committed. Run the statement again: it then sees what the others did",
    )
