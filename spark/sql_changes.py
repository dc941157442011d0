"""DELETE, UPDATE and MERGE of Spark's SQL on a lake: one guest's commit in each log that holds rows
which the statement changes.

A DELETE whose condition lakelog knows is a delete by that condition, in each log. For all else
Spark's own query says which rows go, by their files and numbers, and which come: tasks write the
new version of a row into the log that holds the old one, where the old one goes in the same commit.
Rows that are inserted come to one writer's log.

Source: docs/spark.md, "DELETE, UPDATE, MERGE".
"""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ..catalog.commit.change_all import tell_committed
from ..catalog.commit.deleting import Rows
from ..catalog.commit.distributed_write import Sharing
from ..catalog.commit.updating import columns_as_written
from ..catalog.commit.upserting import newer_than, newest_clock
from ..catalog.format.deletes import bitmap_rows
from ..catalog.format.names import base_folder
from ..catalog.format.schema import plain
from ..catalog.read.delete_plan import parts_by_path
from ..catalog.read.file_parts import key_column
from ..catalog.read.scan_request import kept_files
from ..errors import CapabilityMissing, InvalidSchema, LakelogError, OperationConflict
from .access import refuse_memory
from .arrow_types import any_part, is_nanoseconds
from .filters import exact_text
from .row_batches import collected, numbered
from .selection import owner_of
from .source_options import json_text
from .write_task import Changed, ChangeJob, Job, change_rows, parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from pyspark.sql import DataFrame

    from ..catalog.commit.distributed_write import Part
    from ..catalog.commit.writer import Writer
    from ..catalog.data.file_part import FilePart
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
        old: Which ones have the file of the row that goes, and its number there.
    """

    command: str
    database: str
    table: str
    token: str
    condition: str
    new: tuple[int, ...]
    old: tuple[int, int]

    @classmethod
    def of(cls, *words: str) -> Statement:
        """That of the words that the JVM tells."""
        command, database, table, token, condition, new, old = words
        places = tuple(int(place) for place in new.split(",") if place)
        file, number = map(int, old.split(","))
        return cls(command, database, table, token, condition, places, (file, number))


def change(access: Access, writer: str, statement: Statement, query: DataFrame) -> None:
    """Do what a statement says.

    Args:
        writer: To whose log rows come that are inserted.
        query: Of each row that goes or comes what is to be done, and where the one is and what the
            other has.
    Raises:
        OperationConflict: Others have changed the rows since the statement's cut. The hint names
            the logs that were committed to before, if there are any.
        InvalidSchema: A column holds what Spark would write otherwise.
        EpochChanged, CommitOutcomeUnknown: As for any guest's commit.
        As `Catalog.writer`, `Catalog.delete` and `Transaction.write`.
    Requests: Those of `Catalog.snapshot`, and for each log that holds such rows those of
        `Catalog.writer` and of a commit; in the executors 1 PUT a file.
    """
    doing = _Change(access, writer, statement)
    if statement.command == "DELETE" and doing.where is not None:
        doing.delete_where(doing.where)
    else:
        doing.change_rows(query)


class _Change:
    """One statement.

    Attributes:
        where: Its condition, if lakelog knows it to mean the same.
    """

    def __init__(self, access: Access, writer: str, statement: Statement) -> None:
        self._access = access
        self._writer = writer
        self._statement = statement
        self._table = statement.table
        self._then = access.catalog.snapshot(statement.database, statement.token)
        self._schema = self._then.schema(self._table)
        self.where: str | None = None
        if statement.command != "MERGE":
            self.where = exact_text(statement.condition, self._schema, self._table)

    def delete_where(self, where: str) -> None:
        """Delete by a condition, in all files that the table has now."""
        now = self._access.catalog.snapshot(self._statement.database)
        found = self._then.diff(now, self._table)
        changed = [row for row in found.schemas.to_pylist() if row["change"] != "added"]
        changed += [row for row in found.in_place.to_pylist() if row["what"] != "deletes"]
        if changed or found.tables.num_rows:
            raise _conflict(self._statement, "others have changed the table's columns since")
        self._access.catalog.delete(self._statement.database, self._table, where)

    def change_rows(self, query: DataFrame) -> None:
        """Put rows that come in the place of rows that go, as Spark's query tells both."""
        statement = self._statement
        refuse_memory(self._access.catalog.url)
        with ExitStack() as stack:
            logs: dict[str, _Log] = {}
            if statement.new:
                _refuse_lossy(self._schema, statement)
                for name in self._owners():
                    logs[name] = self._opened(stack, name)
                    logs[name].share(self._schema, self._clock(logs[name]))
            jobs = {name: self._job(log.sharing) for name, log in logs.items()}
            changed = _run(query, ChangeJob(jobs, self._writer, statement.new, statement.old))
            gone = _gone(changed)
            for name in sorted(gone.keys() - logs.keys()):
                logs[name] = self._opened(stack, name)
            for name, log in logs.items():
                written = parts(one.written[name] for one in changed if name in one.written)
                log.finish(written, gone.get(name, {}), new_keys=self._minds_new_files())
            self._commit({name: log for name, log in logs.items() if log.changes})

    def _owners(self) -> list[str]:
        """The writers in whose logs rows may be changed, or to whose rows come."""
        then, table = self._then, self._table
        wanted = then.row_filter(table, self.where or "TRUE")
        found = {
            state.writer
            for state in then._states
            if kept_files(then._tables.facts_of(state, table), wanted, proven=True).any()
        }
        if self._statement.command == "MERGE":
            found.add(self._writer)
        return sorted(found)

    def _opened(self, stack: ExitStack, name: str) -> _Log:
        catalog, database = self._access.catalog, self._statement.database
        is_there = name in self._then.cut.writers  # else there is nobody to be fenced
        try:
            writer = catalog.writer(name, database, shared=is_there)
        except CapabilityMissing:
            if name != self._writer:
                raise
            writer = catalog.writer(name, database)
        stack.enter_context(writer)
        log = _Log(writer, self._then, self._statement)
        stack.callback(log.tx.discard)
        return log

    def _clock(self, log: _Log) -> tuple[int, int] | None:
        """A clock above those of all rows of a table with a key, of all writers."""
        if not self._then.key(self._table):
            return None
        newest = newest_clock(self._then._states, self._table)
        return newer_than(newest, log.tx._session.clock())

    def _job(self, sharing: Sharing | None) -> Job:
        assert sharing is not None
        options = json_text(self._access.task_options())
        return Job(self._access.catalog.url, options, sharing.share)

    def _minds_new_files(self) -> bool:
        """Whether new rows change what the statement does: one may have the key of a row that was
        read, or be one that a MERGE would have found."""
        return self._statement.command == "MERGE" or bool(self._then.key(self._table))

    def _commit(self, logs: Mapping[str, _Log]) -> None:
        """Commit to each log, once nothing speaks against any of them."""
        if self._minds_new_files():
            self._refuse_new_files()
        for log in logs.values():
            log.check()
        done: dict[str, int | None] = {}
        for name, log in logs.items():
            try:
                info = log.tx.commit()
            except LakelogError as error:
                if len(logs) > 1:
                    tell_committed(error, name, done, list(logs))
                raise
            done[name] = None if info is None else info.revision

    def _refuse_new_files(self) -> None:
        """Refuse to commit if files came since the cut, in whichever log."""
        now = self._access.catalog.snapshot(self._statement.database)
        for row in self._then.diff(now, self._table).files.to_pylist():
            why = f"{row['writer']} has {row['change']} {row['path']} since"
            raise _conflict(self._statement, why, row["writer"])


class _Log:
    """One writer's log, as a statement changes it.

    Attributes:
        tx: The transaction.
        sharing: How tasks write rows that come; None: none do.
        changes: Whether there is anything to commit.
    """

    def __init__(self, writer: Writer, then: Snapshot, statement: Statement) -> None:
        self._tables = then._tables
        self._statement = statement
        self._table = statement.table
        found = (state for state in then._states if state.writer == writer.writer_id)
        self._state = next(found, None)
        self._refuse_changed(writer)
        self.tx = writer.transaction()
        self.tx._check_open("row_delta")
        self.sharing: Sharing | None = None
        self.changes = False

    def _refuse_changed(self, writer: Writer) -> None:
        """Refuse a log that calls the table's columns otherwise than at the cut."""
        if self._state is None:
            return

        def asked(state: State) -> tuple[object, bytes]:
            known = state.definitions.of(self._table)
            return state.log, b"" if known is None else known.name

        if writer._session.ask_anew(asked) != asked(self._state):
            why = f"{writer.writer_id} has changed its columns since"
            raise _conflict(self._statement, why, writer.writer_id)

    def share(self, schema: pa.Schema, clock: tuple[int, int] | None) -> None:
        """Let tasks write rows of the table's columns, as the log has these."""
        if self._state is not None:
            schema = columns_as_written(
                self._tables, self._state, self._table, schema, schema.names
            )
        fields = [field.with_type(plain(field.type)) for field in schema]
        self.sharing = Sharing(self.tx, self._table, pa.schema(fields), clock=clock)

    def finish(
        self, written: Sequence[Part], gone: Mapping[str, np.ndarray], *, new_keys: bool
    ) -> None:
        """Take into the transaction what tasks have written, and the rows that go.

        Args:
            gone: By key of a file the numbers of its rows.
            new_keys: Whether files that came since are in conflict with it.
        """
        if self.sharing is not None and any(part.rows for part in written):
            self.sharing.finish(written)
            self.changes = True
        if not gone and not self.changes:
            return
        self.changes = True
        paths = self._paths(gone)
        found: dict[str, FilePart] = {}
        if self._state is not None and paths:
            found = parts_by_path(self._tables, self._state, self._table, set(paths.values()))
        matching = {paths[key]: rows for key, rows in gone.items()}
        session = self.tx._session
        rows = Rows(
            session, self._table, found, [matching[path] for path in found],
            revision=-1 if self._state is None else self._state.revision,
            stay=partial(self.tx._files_stay, self._table),
        )  # fmt: skip
        self.tx._replace(self._table, rows, minds_new_files=new_keys)

    def _paths(self, gone: Mapping[str, object]) -> dict[str, str]:
        """By key the paths in the log of some live files."""
        if self._state is None or not gone:
            return {}
        state = self._state
        paths = self._tables.table_of(state, self._table)[0].table(self._table).column("path")
        keys = key_column(paths, base_folder(state.writer, state.database), state)
        pairs = zip(keys.to_pylist(), paths.to_pylist(), strict=True)
        return {key: path for key, path in pairs if key in gone}

    def check(self) -> None:
        """Refuse what would be in conflict, before any log is committed to."""
        self.tx._session.refuse_unfit(self.tx._intent)


def _gone(changed: Sequence[Changed]) -> dict[str, dict[str, np.ndarray]]:
    """By writer and key of a file the rows that go, as all tasks have reported them."""
    import numpy as np

    found: dict[str, list[np.ndarray]] = {}
    for one in changed:
        for file, bitmap in one.gone.items():
            found.setdefault(file, []).append(bitmap_rows(bitmap).astype(np.int64))
    by_writer: dict[str, dict[str, np.ndarray]] = {}
    for file, rows in found.items():
        owner = owner_of(file)
        key = file.removeprefix(f"{owner}/")
        by_writer.setdefault(owner, {})[key] = np.unique(np.concatenate(rows))
    return by_writer


def _run(query: DataFrame, job: ChangeJob) -> list[Changed]:
    from pyspark.sql import functions as F

    if job.jobs:  # rows of one log come one after the other
        query = numbered(query)
        owner = F.substring_index(F.col(f"c{job.old[0]}"), "/", 1)
        query = query.sortWithinPartitions(F.coalesce(owner, F.lit(job.inserts)))
    changed = collected(query, partial(change_rows, job), weighed=True)  # a row may be any struct
    return [pickle.loads(row["message"]) for row in changed]


def _refuse_lossy(schema: pa.Schema, statement: Statement) -> None:
    """Refuse to rewrite rows that Spark doesn't hold as they are."""
    for field in schema:
        if any_part(field.type, is_nanoseconds):
            raise InvalidSchema(
                f"Column {field.name!r} is {field.type}, and Spark has no nanoseconds: "
                f"{statement.command} would cut those of rows that it rewrites",
                key=field.name,
                hint="Nothing was committed. Use catalog.update, or tx.upsert",
            )


def _conflict(statement: Statement, why: str, writer: str = "") -> OperationConflict:
    return OperationConflict(
        f"The {statement.command} of table {statement.table!r} read it at one cut, and {why}",
        key=writer or statement.table,
        table=statement.table,
        operation=statement.command.lower(),
        hint="Nothing was committed. Run the statement again: it then sees what the others did",
    )
