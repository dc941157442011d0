"""Operations with intent: what a transaction does to a table as a whole, and is held to.

Losing a row here is the worst that can happen. So rows are counted on the way: those of the files
that are read against the log, those that stay against what was written. An operation that breaks
off takes its whole transaction with it.

Source: docs/changing.md, "Operations".
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from ...errors import InputRemoved, OperationConflict, UsageError
from ..data.parquet import FILE_BYTES
from ..format.names import escape_name
from ..log.operations import say_rewritten
from ..scalars import value_of
from .adopt import path_of
from .base_transaction import Replaced, RowDelta
from .carrying import Carrying, Moved, NewFile
from .deleting import others_give_key
from .inputs import (
    Counted,
    columns_to_sort,
    digested,
    refuse_other_rows,
    staying,
    within,
)
from .operation_guard import rows_lost
from .schema_compatibility import check_on_conflict
from .sorting import MEMORY_BYTES, Sorting
from .updating import Updating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from ..data.unify import Shown
    from ..log.outcomes import CommitInfo
    from .deleting import Mode
    from .inputs import Group, Inputs


_CARRIED: Final = 20  # times a rewrite takes in what others have deleted meanwhile


class Transaction(Updating):
    """A set of changes that becomes visible as a whole, or not at all.

    As a context manager it commits at the end of the block and discards on an exception. A
    transaction belongs to one thread; different transactions of one writer may run in different
    threads and may share a commit.

    Attributes:
        transaction_id: Hex; in the names and footers of its files, and in the log.
        commit_info: Set once committed; None before, and for a transaction without any change.
    """

    _carrying: Carrying | None = None  # set by who wants deletes that come meanwhile carried over
    _memory_bytes = MEMORY_BYTES

    def _send(self) -> CommitInfo:
        for _ in range(_CARRIED):
            try:
                return super()._send()
            except OperationConflict as error:
                if self._carrying is None or isinstance(error, InputRemoved):
                    raise
                if self._session.may_stand(self._intent.transaction_id):
                    raise
                if not self._carrying.over(self):
                    raise
        return super()._send()

    def _refuse_keyed(self, table: str) -> None:
        """Raises `UsageError` if a table has a key: older rows would be read again if files went,
        and rows that are rewritten together would get one clock.

        Requests: none if this log gives it the key; else those of `others_give_key`.
        """
        _refuse_key(
            table, has_key=bool(self._key_of(table)) or others_give_key(self._session, table)
        )

    def _shows(self, table: str, schema: pa.Schema, *, checked: bool) -> Shown:
        """What data shows to readers, of a table whose rows this transaction may read yet.

        Args, Raises: As for `Columns.fit`, and `refuse_begun`.
        """
        from .inputs import refuse_begun

        refuse_begun(self._intent, table)
        return self._columns.seen(table, schema, checked=checked)

    def append(self, table: str, data: Any, partition: str = "", **options: Any) -> list[str]:
        """Add rows: `write`, by the name of its operation. Appends are never in conflict.

        Args, Returns, Raises, Requests: As for `write`.
        """
        return self.write(table, data, partition, **options)

    def row_delta(
        self,
        table: str,
        data: Any,
        deletes: str,
        partition: str = "",
        *,
        mode: Mode = "auto",
        **options: Any,
    ) -> RowDelta:
        """Delete rows and add others: `delete`, then `write`, by the name of their operation. What
        is deleted are rows of this writer's files that were committed before, never of the data.

        Args:
            deletes: As `where` of `delete`.
            mode: As for `delete`.
            data, partition, options: As for `write`; the clock that is not given is above those of
                all files of the table in this log: if it has a key, the rows that are deleted would
                hide the new ones else. Another log may give it one.
        Raises: As `delete`, after which the transaction is as it was, unless that says that it is
            lost; and `write`, after which it is lost.
        Requests: Those of `delete` and `write`; 1 GET for each piece of a checkpoint that holds
            files of the table, the first time.
        """
        with self._intent.asking():
            self._check_open("row_delta")
            deleted = self.delete(table, deletes, mode=mode)
        with self._operation_guard.doing("row_delta", table):
            if options.get("clock") is None:
                options["clock"] = self._newer(value_of(table))
            paths = self.write(table, data, partition, **options)
        return RowDelta(deleted, paths)

    def overwrite(
        self,
        table: str,
        data: Any,
        where: Any | None = None,
        partition: str | None = None,
        *,
        validate: bool = True,
        partition_by: Sequence[str] | None = None,
        clock: tuple[int, int] | None = None,
        file_bytes: int = FILE_BYTES,
        on_conflict: Literal["raise", "allow"] = "raise",
        bloom: Sequence[str] = (),
    ) -> Replaced:
        """Put data in the place of the rows that meet a predicate, in this writer's files of the
        table.

        Files of which all rows meet it, by the log's statistics, are taken out; those of which some
        may are read, and their other rows written anew; the rest is not touched. Rows of other
        writers stay. What this transaction has written before counts like any other rows.

        Args:
            data: As for `write`; without rows the others only go.
            where: SQL text (docs/reading.md, "Predicates"), or a pyarrow expression; None: all
                rows. Rows for which it is null stay.
            partition: Only rows of files of this partition are replaced, and the data gets it.
            validate: Whether the data must meet `where` as well.
            partition_by, clock, file_bytes, on_conflict, bloom: As for `write`, of the data; files
                that are written anew keep their partitions and clocks.
        Raises:
            OperationNotAllowed, OperationInvalid: The writer, or this transaction, is for something
                else. Nothing was changed.
            OperationInvalid: Rows of the data don't meet `where`. The transaction is lost, as after
                all errors that come later than those of `where`.
            InvalidPredicate, InvalidSchema, SchemaConflict, UsageError: As for `Snapshot.scan` and
                `write`; or the table has a key.
            OperationConflict (at the commit): A file came meanwhile that may hold rows which meet
                `where`, or one of those that were taken out is gone.
        Requests: those of `Snapshot.files` with `where`, 1 or more GET for each file that is read;
            1 PUT a file; 1 LIST for each other writer, which may give the table a key.
        """
        from .inputs import overwritten

        self._check_open("overwrite")
        self._session.refuse_fenced()
        table, partition = value_of(table), value_of(partition)
        escape_name(table, "table")
        refuses = check_on_conflict(on_conflict)
        schema, batches = self._rows(table, data, fits=refuses and where is not None)
        self._refuse_keyed(table)

        shows = self._shows(table, schema, checked=refuses)
        found = overwritten(
            self._session, self._intent, table,
            where=where, partition=partition, data=shows.schema, begun_at=self._base.revision,
        )  # fmt: skip
        checked = found.wanted if validate else None
        incoming = Counted(within(batches, shows, checked, table, where))
        with self._operation_guard.doing("overwrite", table):
            self._begin(table, found)
            paths = self._written(
                table, schema, incoming, partition or "",
                partition_by=() if partition == "" and partition_by is None else partition_by,
                clock=clock, file_bytes=file_bytes, on_conflict=on_conflict, bloom=bloom,
            )  # fmt: skip
            again, kept = self._keep_rest(table, found, file_bytes=file_bytes, bloom=bloom)
        return self._overwritten(found, where, Replaced(paths, again, [], incoming.rows, 0, kept))

    def _keep_rest(self, table: str, found: Inputs, **options: Any) -> tuple[list[str], int]:
        """Rewrites the rows that stay of files that were taken out; returns paths and rows."""
        paths: list[str] = []
        rows = 0
        for group in found.groups:
            kept = Counted(staying(group, self._session, found.wanted))
            paths += self._again(table, group, kept, **options)
            rows += kept.rows
        return paths, rows

    def _overwritten(self, found: Inputs, where: Any, done: Replaced) -> Replaced:
        """Returns what an overwrite did, with what went; the commit's summary says so, too."""
        kept = done.rows_rewritten
        say_rewritten(self._intent.summary, kept, None if where is None else str(where))
        gone = found.whole_rows + sum(group.rows for group in found.groups) - kept
        return replace(done, removed=found.paths, rows_removed=gone)

    def plan_overwrite(
        self, table: str, schema: pa.Schema, where: Any | None = None, partition: str | None = None
    ) -> Replaced:
        """What `overwrite` would take out now; nothing is changed.

        Args:
            schema: Of the data.
            where, partition: As for `overwrite`.
        Returns:
            `rewritten` are the files that would be read, for they may hold other rows too.
        Raises: As for `overwrite`.
        Requests: those of `Snapshot.files` with `where`, 1 or more GET for each file that is read.
        """
        from .inputs import overwritten

        if not hasattr(schema, "names"):
            raise UsageError(
                f"schema= is the pyarrow schema of the data, not {schema!r:.60}",
                hint="Give data.schema; where= is a name of its own",
            )
        self._operation_guard.check_whole()
        table, partition = value_of(table), value_of(partition)
        self._refuse_keyed(table)
        shows = self._shows(table, schema, checked=False)
        found = overwritten(
            self._session, self._intent, table,
            where=where, partition=partition, data=shows.schema, begun_at=self._base.revision,
        )  # fmt: skip
        read, rows, kept = 0, sum(group.rows for group in found.groups), 0
        for group in found.groups:
            kept += sum(batch.num_rows for batch in staying(group, self._session, found.wanted))
            read += len(group.parts)
        whole = len(found.paths) - read
        return Replaced(
            [], found.paths[whole:], found.paths, 0, found.whole_rows + rows - kept, kept
        )

    def rewrite(
        self,
        table: str,
        remove: Iterable[str],
        data: Any | None = None,
        *,
        sort_by: str | Sequence[str] | None = None,
        partition: str | None = None,
        partition_by: Sequence[str] | None = None,
        file_bytes: int = FILE_BYTES,
        bloom: Sequence[str] = (),
    ) -> Replaced:
        """Put the rows of some files into others. Every row stays, each as often as it was there:
        that is held to by a digest of all rows, read and written.

        Args:
            remove: Paths of live files of the table, as `Snapshot.files` tells them.
            data: The same rows, in any order and in any types that hold them. None: they are read
                from the files, those of one partition and one schema together, and keep both.
            sort_by: Columns by which what was read is sorted, ascending, of files of one partition
                and schema together: in 1 GiB of memory; more rows are read several times.
            partition, partition_by: As for `write`, of `data`.
            file_bytes, bloom: As for `write`.
        Raises:
            OperationNotAllowed, OperationInvalid: The writer, or this transaction, is for something
                else. Nothing was changed.
            OperationInvalid: `data` has other rows. The transaction is lost.
            FileNotLive: No such file in the table.
            UsageError: Arguments that don't go together; or the table has a key.
            OperationConflict (at the commit): A file was taken out by others meanwhile.
        Requests: 1 or more GET for each file, 1 PUT for each that is written.
        """
        from ..data.dataframes import to_batches
        from .inputs import named

        self._check_open("rewrite")
        self._session.refuse_fenced()
        table = value_of(table)
        escape_name(table, "table")
        self._refuse_keyed(table)
        if isinstance(remove, str | bytes):
            raise UsageError(
                f"remove= is a list of paths, not {remove!r:.80}", hint=f"Give [{remove!r:.80}]"
            )
        paths = list(dict.fromkeys(path_of(self._session, path) for path in remove))
        order = columns_to_sort(sort_by)
        if data is None and not (partition is None and partition_by is None):
            raise UsageError(
                "partition= and partition_by= are for data=: files keep their partitions",
                hint="Read the rows, and give them as data=",
            )
        if data is not None and order:
            raise UsageError("sort_by= is for rows that are read", hint="Sort the data before")

        given = None if data is None else to_batches(data)
        found = named(self._session, self._intent, table, paths, self._base.revision)
        if given is not None:
            self._united(table, found, given[0])
        with self._operation_guard.doing("rewrite", table):
            self._begin(table, found)
            if given is None:
                done = self._regrouped(table, found, order, file_bytes=file_bytes, bloom=bloom)
            else:
                done = self._exchanged(
                    table, found, *given, partition or "", partition_by=partition_by,
                    file_bytes=file_bytes, bloom=bloom,
                )  # fmt: skip
        say_rewritten(self._intent.summary, done.rows_rewritten)
        return done

    def _begin(self, table: str, found: Inputs) -> None:
        """Take the files out first: the footers of those that come then say what they replace."""
        self._intent.rewritten.add(table)
        if any(part.hidden is not None for group in found.groups for part in group.parts):
            self._intent.hidden.add(table)
        if found.claim is not None:
            self._intent.claims.append(found.claim)
        self._uploads.wait()  # a file of this transaction may be read
        self._take_out([(table, path) for path in found.paths])

    def _again(self, table: str, group: Group, rows: Counted, **options: Any) -> list[str]:
        """Write rows of a group anew; no file, and no schema, if there are none."""
        if not rows.any():
            return []
        if not group.partition:
            options["partition_by"] = ()
        return self._written(
            table, group.schema, rows, group.partition, clock=group.clock, on_conflict="allow",
            **options,
        )  # fmt: skip

    def _regrouped(self, table: str, found: Inputs, order: list[str], **options: Any) -> Replaced:
        from ..data.row_digest import RowDigest

        paths: list[str] = []
        total = 0
        for group in found.groups:
            taken, given = RowDigest(group.schema), RowDigest(group.schema)
            sorting = Sorting(order, table, self._memory_bytes) if order else None
            if sorting is None:  # the batches that are read are those that are written
                rows = Counted(group.read(self._session))
            else:
                read = sorting.rows(partial(group.read, self._session), group.schema, taken)
                rows = Counted(digested(read, given))
            before = len(self._intent.actions)
            paths += self._again(table, group, rows, **options)
            if rows.rows != group.rows or taken.value != given.value:
                raise rows_lost("rewrite", table, group.rows, rows.rows)
            if self._carrying is not None:
                adds = (action.add for action in self._intent.actions[before:])
                files = [NewFile(add.path, add.row_count) for add in adds if add.path]
                places = None if sorting is None else sorting.places
                self._carrying.moved.append(Moved(table, group.parts, places, files))
            total += group.rows
        return Replaced([], paths, found.paths, 0, 0, total)

    def _exchanged(
        self,
        table: str,
        found: Inputs,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        partition: str,
        **options: Any,
    ) -> Replaced:
        from ..data.row_digest import RowDigest

        shows, target = self._united(table, found, schema)
        taken, given = RowDigest(target), RowDigest(target)
        for group in found.groups:
            for batch in group.read(self._session):
                taken.add(batch)
        clocks = [group.clock for group in found.groups]
        if clocks:
            options["clock"] = (min(low for low, _ in clocks), max(high for _, high in clocks))
        rows = Counted(digested(batches, given, shows))
        paths = self._written(table, schema, rows, partition, **options)
        refuse_other_rows(taken, given, table)
        return Replaced([], paths, found.paths, 0, 0, taken.rows)

    def _united(self, table: str, found: Inputs, schema: pa.Schema) -> tuple[Shown, pa.Schema]:
        """What data shows, and the columns that hold both its rows and those of some files."""
        from ..data.unify import FileSchema, unify

        writer = self._session.writer_id
        schemas = [FileSchema(group.schema, writer) for group in found.groups]
        shows = self._shows(table, schema, checked=True)
        return shows, unify([*schemas, FileSchema(shows.schema, writer, words="the data")], table)


def _refuse_key(table: str, *, has_key: bool) -> None:
    if has_key:
        raise UsageError(
            f"Table {table!r} has a key, so files of it can't be replaced",
            key=table,
            hint="Nothing was changed. Write newer rows (`tx.upsert`), or put data in the place of "
            "rows that meet a predicate (`tx.row_delta`)",
        )
