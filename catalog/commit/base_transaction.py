"""The parts of a transaction that all its operations are made of: write, add, remove, evolve, then
one commit for all, or nothing.

Source: docs/format.md, sections 4 and 8.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

import pyarrow as pa

from ...errors import (
    ClockError,
    ConflictError,
    InvalidName,
    LakelogError,
    SchemaConflict,
    UsageError,
)
from ..data.parquet import FILE_BYTES
from ..format.names import base_folder, escape_name
from ..log.build import schema_actions
from ..log.conflicts import refuse_conflict
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .adopt import (
    Added,
    NewFile,
    adopted,
    name_locations,
    new_spots,
    not_live,
    path_of,
    take,
    unlike,
)
from .arguments import check_clock
from .columns import Columns, fitted
from .data_files import KeyMarks, Uploads, footer_of, path_of_data, put_data, removals
from .operation_guard import MessageSize, OperationGuard, rows_lost
from .schema_compatibility import OwnSchemas, as_whole, check_on_conflict, hold_not_null

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from ..data.evolution import Change
    from ..format.schema import EncodedSchema
    from ..log.build import Intent
    from ..log.outcomes import CommitInfo
    from .inputs import Counted
    from .session import Session


_S = TypeVar("_S")


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete does once it is committed.

    Attributes:
        files_removed: Files in which every row matches the predicate.
        files_touched: Files that keep some rows while others are hidden; with a tombstone, files
            that may have such rows.
        tombstones: How many were written: 0 or 1.
        rows: How many rows are hidden that no other delete hid; None where they were not counted.
            Of a table with a key some of them may not have been read before: newer ones of their
            keys were.
    """

    files_removed: int
    files_touched: int
    tombstones: int
    rows: int | None


class RowDelta(NamedTuple):
    """What a row delta does once it is committed: its delete, and the paths of its new files."""

    deleted: Deleted
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Replaced:
    """What an overwrite or a rewrite did.

    Attributes:
        paths: Of the files that hold the new data.
        rewritten: Of those that hold rows of files which were taken out, as they were.
        removed: Of the files that were taken out.
        rows_added: How many rows came.
        rows_removed: How many went; of a rewrite none.
        rows_rewritten: How many were written again.
    """

    paths: list[str]
    rewritten: list[str]
    removed: list[str]
    rows_added: int
    rows_removed: int
    rows_rewritten: int


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update does once it is committed.

    Attributes:
        rows: How many rows get other values.
        files_removed: Files in which all rows do.
        files_touched: Files that keep some rows while others are replaced.
        paths: Of the new files.
    """

    rows: int
    files_removed: int
    files_touched: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upserted:
    """What an upsert does once it is committed.

    Attributes:
        rows: How many rows were written: those of the data whose key doesn't come again in it.
        replaced: How many rows they take the place of, in this writer's files; None where the table
            has the key: readers see to it, and nothing was counted.
        files_removed: Files that have no row left.
        files_touched: Files that keep some rows while others are hidden.
        paths: Of the new files.
    """

    rows: int
    replaced: int | None
    files_removed: int
    files_touched: int
    paths: tuple[str, ...]


class BaseTransaction:
    """What every transaction can do: add and remove files, change columns, commit or discard."""

    def __init__(self, session: Session, intent: Intent) -> None:
        self._session = session
        self._intent = intent
        self._operation_guard = OperationGuard(intent, session.operations)
        self._base = session.base(intent.app_id)
        self._folder = base_folder(session.writer_id, session.database)
        self._removed: dict[tuple[str, str], None] = {}  # in order
        self._named = 0  # how many of them stand in the footer of a file written before
        self._added: dict[str, str] = {}  # to which table, while it is there
        self._schemas: set[tuple[str, bytes]] = set()
        self._columns = Columns(session, intent)
        self._own = OwnSchemas(session.ask_united, self._removed.keys(), self._columns.of)
        self._message_size = MessageSize(intent.member())
        self._locations: set[str] = set()  # that it names, or the log does
        self._files = 0
        self._partitionings: dict[str, tuple[str, ...]] = {}  # of tables that it has split itself
        self._uploads = Uploads(partial(put_data, session), in_background=session.in_background)
        self._closed = False
        self._sent = False
        self._refusal: ConflictError | None = None  # it is over: what it has put is gone
        self.commit_info: CommitInfo | None = None

    @property
    def transaction_id(self) -> str:
        return self._intent.transaction_id.hex()

    def write(
        self,
        table: str,
        data: Any,
        partition: str = "",
        *,
        partition_by: Sequence[str] | None = None,
        clock: tuple[int, int] | None = None,
        file_bytes: int = FILE_BYTES,
        on_conflict: Literal["raise", "allow"] = "raise",
        bloom: Sequence[str] = (),
    ) -> list[str]:
        """Write data as Parquet files of a table. They become visible with the commit.

        What breaks off, whatever it is by, once a file was written takes the whole transaction with
        it: nothing of that becomes visible. Files written so far are orphans; gc takes them.

        Args:
            table: Any non-empty name.
            data: pyarrow Table, RecordBatch or RecordBatchReader; pandas or polars DataFrame.
            partition: Any name; empty for none. A `/` in it makes folders.
            partition_by: Columns by whose values the rows are split, in the place of `partition`:
                each combination has files of its own, in a partition like `year=2026/month=11`
                (docs/writing.md, "Partitions"). The columns stay in the files. With neither, rows
                are split as those are that the table has in this log; `[]` splits nothing.
            clock: Logical clock of the first and the last row; the writer's own time in µs if not
                given.
            file_bytes: A file is closed once it is about so large.
            on_conflict: Whether data is refused whose types have no common type with those that the
                table has in this log (as far as this writer has seen it), or written all the same:
                then nobody can read the table as a whole. Likewise nulls in a column that the table
                declares not null: it takes them from then on.
            bloom: Columns that get bloom filters: see docs/reading.md.
        Returns:
            Paths of the new files, relative to `<writer>/<database>/`. Data without rows makes no
            file, but its schema becomes the table's.
        Raises:
            FencedError: Another owner has taken the writer over: nothing was written.
            OperationNotAllowed, OperationInvalid: Data may not come here: nothing was written.
            InvalidSchema, InvalidName: Nothing was written.
            SchemaConflict: It doesn't fit the table's columns.
            UsageError: See `bloom`; or no room is left for one more schema: nothing was written. Or
                what can't be partitioned so.
            StorageError: From the transaction's second file on files are put while the next ones
                are encoded, so that this call, a later one or the commit may tell of it.
            ObjectExists: Another process draws the same random ids.
        Requests: 1 PUT a file. Of a large log the first write to a table reads its schemas, 1 GET;
            if one of them is in conflict with the data, 1 GET for each piece of a checkpoint that
            holds files of the table; before it is refused 1 LIST and 1 GET for each new commit.
        """
        from ..data.partitioned import partitions

        self._check_open("append")
        self._session.refuse_fenced()
        table, partition = value_of(table), value_of(partition)
        escape_name(table, "table")
        refuses = check_on_conflict(on_conflict)
        schema, batches = self._rows(table, data, fits=refuses)
        by = self._split_by(table, schema, partition, partition_by)
        schema, encoded_schema = fitted(self._columns, self._own, table, schema, refuses=refuses)
        if refuses:
            batches = self._own.refuse_misfits(table, schema, data, batches)
        batches = hold_not_null(schema, data, batches, table)
        first, last = check_clock(clock or self._session.clock())
        meta = footer_of(self._session, self._intent, self._base, table, schema, (first, last))
        meta = replace(meta, partition=partition, **self._removals())
        path_of_data(meta)  # a bad name is refused before the first byte is written
        self._unknown(table, encoded_schema)  # there is room for it
        files = KeyMarks(self._key_of(table), schema, encoded_schema)
        adds, before = list[wire.Action](), self._files
        # Files of a write that broke off say that they are the transaction's: were it committed
        # all the same, a rebuild would count them.
        with self._operation_guard.doing("write", table, lambda: self._files > before):
            split = partitions(batches, by) if by else [(partition, batches)]
            for name, rows in split if partition_by is not None else _of_table(split, by):
                meta = replace(meta, partition=name, number=self._files, **self._removals())
                for encoded in files.files(
                    rows, meta, file_bytes=file_bytes, bloom=bloom, spool=self._session.store.spool
                ):
                    path = path_of_data(replace(meta, number=self._files))
                    self._files += 1
                    self._named = len(self._removed)
                    self._uploads.add(self._folder + path, encoded.body)
                    add = encoded.facts
                    add.path, add.table, add.partition = path, table, name
                    add.first_clock, add.last_clock = first, last
                    adds.append(wire.Action(add=add))
            if not adds and refuses:
                self._own.refuse_conflict(table, encoded_schema, empty=True)
            for used in files.used.values() or [encoded_schema]:
                self._learn(self._unknown(table, used))
        self._own.learn(table, encoded_schema)
        self._intent.actions.extend(adds)
        paths = [action.add.path for action in adds]
        self._added.update(dict.fromkeys(paths, table))
        return paths

    def _rows(
        self, table: str, data: Any, *, fits: bool
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """`to_batches`; if it is to fit the table, floats become integers where types conflict
        else. Raises as `as_whole`."""
        from ..data.dataframes import to_batches

        schema, batches = to_batches(data)
        wanted = self._own.with_integers(table, schema) if fits else schema
        if wanted is schema:
            return schema, batches
        try:
            fitted(self._columns, self._own, table, schema, refuses=True)
        except SchemaConflict as error:
            return wanted, as_whole(wanted, data, batches, error)
        return schema, batches

    def _split_by(
        self, table: str, schema: pa.Schema, partition: str, partition_by: Sequence[str] | None
    ) -> list[str]:
        """The columns by which data is split: those given, else those of the table, if the data has
        them all. Raises as `check_partition_by`."""
        from ..data.partitioned import can_partition, check_partition_by

        if partition_by is not None or partition != "":
            by = check_partition_by(partition_by, schema, partition)
        else:
            names = self._partitionings.get(table) or self._session.partitioning(table)
            by = list(self._columns.now_called(table, names)) if names else []
            if not all(can_partition(name, schema) for name in by):
                by = []
        if by:
            self._partitionings[table] = tuple(by)
        return by

    def _written(
        self, table: str, schema: pa.Schema, rows: Counted, partition: str, **options: Any
    ) -> list[str]:
        """Write rows, and see that all have arrived in files."""
        before = len(self._intent.actions)
        reader = pa.RecordBatchReader.from_batches(schema, iter(rows))
        paths = self.write(table, reader, partition, **options)
        added = (action.add.row_count for action in self._intent.actions[before:])
        if (count := sum(added)) != rows.rows:
            raise rows_lost(self._intent.said_operation, table, rows.rows, count)
        return paths

    def add(
        self,
        table: str,
        path: str | os.PathLike[str],
        partition: str = "",
        *,
        partition_by: Mapping[str, pa.DataType] | Sequence[str] | None = None,
        clock: tuple[int, int] | None = None,
        on_conflict: Literal["raise", "allow"] = "raise",
        statistics: bool = True,
    ) -> None:
        """Adds an existing Parquet file of somebody else's as it is, where it is stored. Nothing is
        copied.

        Its footer is read in a child process: a malformed one can't harm this one. lakelog never
        deletes or changes an external file; if somebody does, reading it is an error.

        Args:
            path: Its URL or absolute path; not below the writer's own `data/`, which holds
                lakelog's own files only.
            partition_by: Columns that the file lacks and `partition`, as `year=2026/month=11`,
                tells of: types by name, or names alone (docs/writing.md, "Partitions").
            on_conflict: As for `write`.
            statistics: Whether readers skip the file by the statistics in its footer. False for a
                file whose writer got them wrong.
        Raises:
            SchemaConflict: As for `write`.
            InvalidName: A table or partition name that can't be.
            InvalidPartition: The name of the partition doesn't tell a column, or not as its type.
            InvalidUrl, InvalidPath: No such place, or not one that a log may name; or the file is
                below the folder of a log of this catalog.
            ObjectNotFound: No such file.
            InvalidParquet: Not a Parquet file, or one with INT96 timestamps.
            DuplicateFile (at the commit): It is live already, perhaps by another spelling.
        Requests: 1 HEAD and 1 or 2 GET of the file's end; on the catalog's own disk, once a writer
            those of `store.probe_names`; for the table's schemas those of `write`.
        """
        name = os.fspath(path) if isinstance(path, os.PathLike) else value_of(path)
        file = NewFile(name, value_of(partition), partition_by=partition_by)
        self.add_all(
            table, [file],
            clock=clock, on_conflict=on_conflict, statistics=statistics, skip_live=False,
        )  # fmt: skip

    def add_all(
        self,
        table: str,
        files: Iterable[NewFile],
        *,
        clock: tuple[int, int] | None = None,
        on_conflict: Literal["raise", "allow"] = "raise",
        skip_live: bool = True,
        skip_bad: bool = False,
        statistics: bool = True,
        own: bool = False,
        step: Callable[[], None] = lambda: None,
    ) -> Added:
        """Take in many existing Parquet files; their footers are read in parallel. After an error
        none of them is taken in.

        Args:
            files: Each as for `add`.
            skip_live: Leave out those that are live in the table, or named twice.
            skip_bad: Leave out those that can't be used as Parquet files, or not be named.
            statistics: As for `add`.
            own: They are files that lakelog itself has made below the writer's own `data/`.
            step: Called for each footer.
        Raises, Requests: As for `add`; no HEAD for files elsewhere whose size is given.
        """
        from ..data.partitioned import columns_by_partition

        self._check_open("append")
        self._session.refuse_fenced()
        table = value_of(table)
        escape_name(table, "table")
        refuses = check_on_conflict(on_conflict)
        found, removed = Added(), {name for _, name in self._removed}
        spots = new_spots(
            self._session, self._intent, table, files, found,
            added=self._added, removed=removed, skip_live=skip_live, skip_bad=skip_bad, own=own,
        )  # fmt: skip
        taken = take(
            self._session, table, spots, skip_bad=skip_bad, statistics=statistics, step=step
        )
        found.unlike = unlike(taken, self._columns.names(table))
        schemas, written = adopted(self._columns, self._own, table, taken, refuses=refuses)
        named = name_locations(self._session, taken.locations, self._locations)
        new = [one for schema in schemas.values() for one in self._unknown(table, schema)]
        self._message_size.check([*named, *new])
        self._learn(new)
        self._own = written
        self._message_size.take(named)
        self._intent.actions.extend(named)
        self._locations |= taken.locations
        for spot, add in taken.files:
            first, last = check_clock(clock or self._session.clock())
            add.table = table
            add.first_clock, add.last_clock = first, last
            self._intent.actions.append(wire.Action(add=add))
            self._added[spot.path] = table
            found.paths.append(spot.path)
        found.bad += taken.bad
        found.by_partition = columns_by_partition(schemas.values())
        found.rows, found.size_bytes = taken.rows, taken.size_bytes
        return found

    def remove(self, path: str) -> None:
        """Take a file out of its table. The object stays until gc; one that lies elsewhere, for
        good.

        Args:
            path: As `Snapshot.files` tells it; of a file elsewhere its URL will do.

        Remove first and write afterwards, if the new files replace the old: their footers say so.

        Raises:
            InvalidPath: No name that a file of a log can have.
            FileNotLive: No such file in the table now. (Checked again at the commit.)
            UsageError: The transaction has no room for it, and is as it was: about 130,000 removes
                of files that lakelog wrote fit.
        """
        self._check_open("delete")
        given, path = path, path_of(self._session, path)
        added_to = self._added.get(path)
        tables = (
            [added_to]
            if added_to is not None
            else [
                table
                for table in self._session.tables_of(path)
                if (table, path) not in self._removed
            ]
        )
        if not tables:
            raise not_live(self._session, f"{given}")
        self._take_out([(table, path) for table in tables])

    def _take_out(self, files: Sequence[tuple[str, str]]) -> None:
        """Take live files, by table and path, out of their tables."""
        removes = [wire.Action(remove=wire.Remove(path=path, table=table)) for table, path in files]
        self._message_size.take(removes)
        for _, path in files:
            self._added.pop(path, None)
        self._removed.update(dict.fromkeys(files))
        self._intent.rely_on({table for table, _ in files}, self._base[0])
        self._intent.actions.extend(removes)

    def evolve(
        self,
        table: str,
        *,
        add: Mapping[str, pa.DataType | pa.Field] | None = None,
        drop: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        widen: Mapping[str, pa.DataType] | None = None,
        default: Mapping[str, Any] | None = None,
        order: Sequence[str] | None = None,
        key: Sequence[str] | None = None,
    ) -> None:
        """Change the columns of a table, in this writer's files. No file is rewritten: from this
        commit on all are read with the new columns, those of earlier commits too.

        `drop` and `rename` name columns as they are, all else as they will be.

        Args:
            add: Types of new columns by name. One that was there once comes back without its old
                values.
            drop: Columns that go; data that has them is refused from here on.
            rename: New names by old ones; they may be swapped.
            widen: Types that hold every value of the present ones.
            default: Of added columns the value in files that lack them; else it is null there.
            order: Columns that come first, in this order; the others follow.
            key: Key columns: readers return only the newest row of each key (docs/changing.md,
                "Keys"); `[]` removes the key.
        Raises:
            UsageError: No such column, or nothing to be changed.
            SchemaConflict: A name is taken; a type doesn't hold what the column has; or files
                disagree about the type of a column that stays.
            InvalidSchema: A type that Parquet doesn't have, or a default that isn't of its type; a
                key of columns whose types don't allow it.
            TableNotFound: This writer's log doesn't know the table.
            ColumnsChanged (at the commit): Another commit has changed them meanwhile.
        Requests: Of a large log 1 GET for each piece of a checkpoint that holds files of the table,
            or schemas.
        """
        from ..data.evolution import make_change

        change = make_change(
            add=add, drop=drop, rename=rename, widen=widen, default=default, order=order, key=key
        )
        self._evolve(value_of(table), change)

    def _key_of(self, table: str) -> tuple[str, ...]:
        definition = self._columns.of(table)
        return () if definition is None else definition.key

    def _evolve(self, table: str, change: Change, *, rest: bool = False) -> None:
        self._check_open("maintenance")
        self._session.refuse_fenced()
        removed: Collection[tuple[str, str]] = self._removed.keys()
        actions = self._columns.evolve(table, change, removed, rest=rest)
        self._message_size.take(actions)
        self._columns.keep(actions)
        self._intent.actions.extend(actions)

    def commit(self) -> CommitInfo | None:
        """Make the changes visible. Calling it again after `CommitOutcomeUnknown` is safe: it never
        commits twice.

        Returns:
            Where it stands; None if there was nothing to commit.
        Raises:
            FencedError, ForkError, ConflictError, CommitOutcomeUnknown: See `lakelog.errors`.
            StorageError: A file of `write` could not be put. Nothing was committed.
        Requests: 1 PUT, on a plain store 2 LIST too. See `overwrite`.
        """
        if self.commit_info is not None:
            return self.commit_info
        if self._refusal is not None:
            raise copy(self._refusal)
        self._check_not_over()
        self._operation_guard.check_whole()
        self._uploads.wait()
        self._sent = True
        if self._intent.actions or self._intent.app_id:
            try:
                self.commit_info = self._send()
            except ConflictError as error:
                if isinstance(error, ClockError):
                    raise  # once the clock is set, the same commit goes
                if self._session.may_stand(self._intent.transaction_id):
                    raise
                self._refusal = error
                self._take_back()
                raise
            if self.commit_info.skipped:
                self._take_back()
        elif self._intent.claims:  # that there is nothing to do has to be true still
            self._session.ask_anew(lambda state: refuse_conflict(state, self._intent))
        self._closed = True
        return self.commit_info

    def _send(self) -> CommitInfo:
        return self._session.commit(self._intent)

    def discard(self) -> None:
        """Give the transaction up. Files already written are deleted if it was never sent to be
        committed; should that fail, nobody sees them, and gc takes them.

        Requests: 1 LIST and 1 GET for each new transaction if files were written; 1 DELETE a file.
        """
        if not self._closed:
            self._closed = True
            self._take_back()

    def _take_back(self) -> None:
        """Delete what was put for a transaction that was not sent, unless a log names it, or the
        process that this one was forked from may still send it."""
        if self._session.is_forked:
            return
        self._uploads.abandon()
        keys, own = self._uploads.keys, self._intent.transaction_id
        if not keys or self._session.may_stand(own):
            return
        with contextlib.suppress(LakelogError):
            if self._session.is_nobodys(self._intent):
                self._session.store.delete(keys, ordered=False)

    def __del__(self) -> None:
        if not (getattr(self, "_closed", True) or self._sent):
            changes = len(self._added) + len(self._removed)
            if changes:
                where = f"{self._session.writer_id}/{self._session.database}"
                warnings.warn(
                    f"A transaction of {where} was dropped with {changes} "
                    f"change{'s' if changes > 1 else ''} that nobody committed: call commit() or "
                    "discard(), or use it as a context manager",
                    ResourceWarning,
                    stacklevel=2,
                    source=self,
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            if not self._sent:  # else it may stand: `commit` can be called again
                self.discard()
        elif not self._closed:
            self.commit()

    def _unknown(self, table: str, encoded: EncodedSchema) -> list[wire.Action]:
        """Returns the actions that name a schema, unless the log or this transaction does. Raises
        `UsageError` if there is no room for them."""
        identity = (table, encoded.fingerprint)
        if identity in self._schemas or self._session.knows_schema(*identity):
            return []
        actions = schema_actions(table, encoded)
        self._message_size.check(actions)
        return actions

    def _removals(self) -> dict[str, Any]:
        return removals(self._removed, self._named, self._intent)

    def _learn(self, schemas: Sequence[wire.Action]) -> None:
        """Name schemas in this transaction."""
        self._message_size.take(schemas)
        named = [each.schema for each in schemas if each.HasField("schema")]
        self._schemas.update((schema.table, schema.fingerprint) for schema in named)
        self._intent.actions.extend(schemas)

    def _check_open(self, operation: str) -> None:
        """Changes are taken only until the first commit: it may stand, whatever came back."""
        self._check_not_over()
        if self._sent:
            raise UsageError(
                "This transaction was sent to be committed, and can't be changed any more",
                key=self.transaction_id,
                hint="Call commit again to learn what became of it; put further changes into "
                "another transaction",
            )
        self._operation_guard.ask(operation)

    def _check_not_over(self) -> None:
        self._session.check_process()
        if self._closed:
            own = self.transaction_id
            raise UsageError("This transaction is over", key=own, hint="Begin another one")


def _of_table(split: Iterable[_S], by: Sequence[str]) -> Iterator[_S]:
    """Rows that are split as the table is. An error says how to write them otherwise."""
    try:
        yield from split
    except (InvalidName, UsageError) as error:
        if by:
            error.hint = (
                f"{error.hint or 'Split them otherwise'}. They are split as the table is, by "
                f"{', '.join(by)}: partition_by=[] writes them without partitions"
            )
        raise
