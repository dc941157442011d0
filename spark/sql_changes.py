"""DELETE, UPDATE and MERGE of Spark's SQL on a lake: one commit to one writer's log, or none.

A DELETE whose condition lakelog knows is a delete by that condition. For all else Spark's own query
says which rows go and which come: tasks write those that come, and those that go are deleted by a
predicate that is true in the cut of exactly them (`gone_rows`), in the same commit.

Source: docs/spark.md, "DELETE, UPDATE, MERGE".
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.commit.sharing import Sharing
from ..catalog.format.columns import numbers
from ..catalog.format.widening import plain
from ..errors import InvalidSchema, OperationConflict, PlanOutdated
from .arrow_types import any_part
from .change_task import Changed, ChangeJob, change_rows
from .exact_filters import exact_text
from .gone_rows import MOST_ROWS, all_gone, predicate_of, watched_columns
from .row_batches import collected
from .source_options import json_text
from .write import refuse_memory
from .write_task import Job, parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..catalog.commit.transaction import Transaction
    from ..catalog.log.state import State
    from ..catalog.snapshot import Snapshot
    from .access import Access


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
    with access.catalog.writer(writer, statement.database) as opened:
        tx = opened.transaction()
        doing = _Change(access, statement, tx)
        try:
            if statement.command == "DELETE" and doing.where is not None:
                doing.delete_where(doing.where, writer)
            else:
                doing.change_rows(query)
            tx.commit()
        except BaseException as error:
            tx.discard()
            if isinstance(error, PlanOutdated):
                why = "others have committed to the log since"
                raise _conflict(statement, why, writer) from error
            raise


class _Change:
    """One statement, as a transaction.

    Attributes:
        where: Its condition, if lakelog knows it to mean the same.
    """

    def __init__(self, access: Access, statement: Statement, tx: Transaction) -> None:
        self._access = access
        self._statement = statement
        self._table = statement.table
        self._tx = tx
        self._then = access.catalog.snapshot(statement.database, statement.token)
        self._schema = self._then.schema(self._table)
        self.where: str | None = None
        if statement.command != "MERGE":
            self.where = exact_text(statement.condition, self._schema, self._table)

    def _now(self) -> Snapshot:
        return self._access.catalog.snapshot(self._statement.database)

    def delete_where(self, where: str, writer: str) -> None:
        """Delete by a condition, in all files that the table has now."""
        table, now = self._table, self._now()
        found = self._then.diff(now, table)
        changed = [row for row in found.schemas.to_pylist() if row["change"] != "added"]
        changed += [row for row in found.in_place.to_pylist() if row["what"] != "deletes"]
        if changed or found.tables.num_rows:
            raise _conflict(self._statement, "others have changed the table's columns since")
        if [state.writer for state in now._states if _clocks(state, table)] == [writer]:
            self._follow(now)
            self._tx.delete(table, where)  # which may let whole files go, and ends with them
        else:
            self._tx.delete(table, where, cut=now)

    def change_rows(self, query: DataFrame) -> None:
        """Put rows that come in the place of rows that go, as Spark's query tells both."""
        table, statement, tx = self._table, self._statement, self._tx
        refuse_memory(self._access.catalog.url)
        key = self._then.key(table)
        sharing = self._sharing(key) if statement.new else None
        watched = watched_columns(self._schema)
        held = MOST_ROWS if self.where is None else 0
        job = ChangeJob(self._job(sharing), statement.new, statement.old, watched, held, key)
        told = _run(query, job)
        written = parts(one.written for one in told)
        gone = all_gone(watched, (one.gone for one in told))
        if gone.count:
            where = predicate_of(self._then, table, gone, self.where, key)
            tx.delete(table, where, cut=self._then)
        comes = any(part.rows for part in written)
        if sharing is not None and comes:
            sharing.finish(written)
        if gone.count or comes:
            added = bool(key) or statement.command == "MERGE"
            tx._intent.last_looks.append(partial(self._look_again, added=added))

    def _sharing(self, key: tuple[str, ...]) -> Sharing:
        _refuse_lossy(self._schema, self._statement)
        fields = [field.with_type(plain(field.type)) for field in self._schema]
        clock = self._newer() if key else None
        return Sharing(self._tx, self._table, pa.schema(fields), clock=clock)

    def _job(self, sharing: Sharing | None) -> Job | None:
        if sharing is None:
            return None
        options = json_text(self._access.task_options())
        return Job(self._access.catalog.url, options, sharing.share)

    def _newer(self) -> tuple[int, int]:
        """A clock above those of all rows of the table, whoever wrote them."""
        states = self._then._states
        newest = max((clock for each in states for clock in _clocks(each, self._table)), default=0)
        first, last = self._tx._session.clock()
        return (first, last) if first > newest else (newest + 1, newest + 1)

    def _look_again(self, *, added: bool) -> None:
        """Refuse to commit if the rows that were read aren't those of the table any more.

        Args:
            added: Whether new rows are such a change: one may have the key of a row that was read.
        Raises:
            OperationConflict: They aren't.
        Requests: Those of `Catalog.snapshot`.
        """
        now = self._now()
        found = self._then.diff(now, self._table)
        for row in found.files.to_pylist():
            if row["change"] == "removed" or added:
                why = f"{row['writer']} has {row['change']} {row['path']} since"
                raise _conflict(self._statement, why, row["writer"])
        for row in found.in_place.to_pylist():
            why = f"{row['writer']} has changed its {row['what']} since"
            raise _conflict(self._statement, why, row["writer"])
        if found.tables.num_rows:
            raise _conflict(self._statement, "the table came or went since")
        self._follow(now)

    def _follow(self, now: Snapshot) -> None:
        """Commit onto the revision that a snapshot has of this log, or not at all."""
        own = self._tx._session.writer_id
        self._tx._intent.onto = next((s.digest for s in now._states if s.writer == own), b"")


def _run(query: DataFrame, job: ChangeJob) -> list[Changed]:
    told = collected(query, partial(change_rows, job), weighed=True)  # a row may be any struct
    return [pickle.loads(row["told"]) for row in told]


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


def _clocks(state: State, table: str) -> list[int]:
    """The clock of the newest file that a log has of a table; none if it has no file."""
    files, _ = state.table_of(table)
    found = numbers(files.table(table, whole=True).column("last_clock"))
    return [int(found.max())] if len(found) else []


def _conflict(statement: Statement, why: str, writer: str = "") -> OperationConflict:
    return OperationConflict(
        f"The {statement.command} of table {statement.table!r} read it at one cut, and {why}",
        key=writer or statement.table,
        table=statement.table,
        operation=statement.command.lower(),
        hint="Nothing was committed. Run the statement again: it then sees what the others did",
    )
