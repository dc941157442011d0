"""The process that begins and commits a transaction whose files others write (`shares`).

Source: docs/format.md, sections 8 and 10; docs/spark.md, "Writing".
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import LakelogError, ObjectExists, OperationInvalid, UsageError
from ..data.parquet import FILE_BYTES
from ..format.names import base_folder, escape_name, parse_data_file
from ..format.schema import encode_schema
from ..log.outcomes import epoch_changed_error, fenced_error
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .base_transaction import Replaced
from .columns import fitted
from .data_files import KeyMarks, Uploads, footer_of, path_of_data, put_data, refuse_taken
from .inputs import Counted, within
from .operation_guard import rows_lost
from .schema_compatibility import hold_not_null, refuse_misfits, time_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...store import Capabilities, Store
    from ..data.unify import Shown
    from ..format.footer import BaseRevision, FooterMetadata
    from ..format.frame import LogIdentity
    from ..format.schema import EncodedSchema
    from ..log.build import Moment
    from ..log.state import State
    from .inputs import Inputs
    from .transaction import Transaction
    from .writer import Writer


# --- What a task does -----------------------------------------------------------------------------

# A file's number has nine digits: which attempt, and which file of it. The last block is for what
# the process writes that began the transaction.
FILES_OF_AN_ATTEMPT: Final = 10_000
ATTEMPTS: Final = 99_999
OWN_FILES: Final = ATTEMPTS * FILES_OF_AN_ATTEMPT


@dataclass(frozen=True, slots=True)
class Share:
    """What a process needs to write files of a transaction that another one has begun.

    Attributes:
        meta: The footer of its files, of no task and no number yet.
        partition_by: Columns by which rows are split.
        key: Of the table.
        file_bytes, bloom: As for `Transaction.write`.
        capabilities: Of the store, as the writer's probe found it.
        times: Columns of times, as the table's readers read them.
        where: What all rows have to meet; None: nothing.
        columns: That `where` is asked of.
        shows: What the rows show to readers.
    """

    meta: FooterMetadata
    capabilities: Capabilities
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    file_bytes: int = FILE_BYTES
    bloom: tuple[str, ...] = ()
    times: pa.Schema | None = None
    where: Any = None
    columns: pa.Schema | None = None
    shows: Shown | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one attempt at a task has written: its `Add`s in the order of writing, as the actions of
    a message, and the number of rows."""

    task: int
    files: bytes
    rows: int

    def adds(self) -> list[wire.Add]:
        """Its files, as the log will name them."""
        return [action.add for action in wire.Transaction.FromString(self.files).actions]


@dataclass(frozen=True, slots=True)
class _Place:
    store: Store
    capabilities: Capabilities


def write_part(
    store: Store, share: Share, batches: Iterator[pa.RecordBatch], *, task: int, attempt: int
) -> Part:
    """Write the rows of a task as files of the transaction. Nothing becomes visible.

    Args:
        store: That of the writer, opened here.
        batches: Of the share's schema.
        task: Its number, the same in all attempts at it.
        attempt: No two attempts at tasks of one transaction have the same.
    Raises:
        OperationInvalid: Rows don't meet what is replaced.
        InvalidSchema, InvalidName, UsageError: What can't be written, or partitioned so.
        SchemaConflict: Times that the table's readers could not read.
        StorageError, ObjectExists: A file could not be put. Another attempt may be made.
    Requests: 1 PUT a file; 1 HEAD more where the store can't put if absent.
    """
    meta, table = share.meta, share.meta.table
    rows = Counted(_checked(share, batches))
    put = partial(_put, _Place(store, share.capabilities), attempt)
    uploads = Uploads(put, in_background=True)
    found = wire.Transaction()
    try:
        for add, body in _encoded(share, rows, task, attempt):
            uploads.add(base_folder(meta.writer, meta.database) + add.path, body)
            found.actions.append(wire.Action(add=add))
        uploads.wait()
    except BaseException:
        uploads.abandon()
        raise
    written = sum(action.add.row_count for action in found.actions)
    if written != rows.rows:
        raise rows_lost("write", table, rows.rows, written)
    return Part(task, found.SerializeToString(), rows.rows)


def _checked(share: Share, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from ..data.dataframes import with_texts

    table, times = share.meta.table, share.times
    batches = hold_not_null(share.meta.schema, None, with_texts(batches), table)
    if times is not None:
        batches = refuse_misfits(batches, lambda _: times, table)
    if share.where is None or share.columns is None or share.shows is None:
        return batches
    from ..data.unify import FileSchema
    from ..read.row_filter import row_filter

    wanted = row_filter(share.where, [FileSchema(share.columns, share.meta.writer)], table)
    return within(batches, share.shows, wanted, table, share.where)


def _encoded(
    share: Share, rows: Counted, task: int, attempt: int
) -> Iterator[tuple[wire.Add, bytes]]:
    """Each file of a task with its `Add`."""
    from ..data.partitioned import partitions

    meta = replace(share.meta, task=task, attempt=attempt)
    first = attempt % ATTEMPTS * FILES_OF_AN_ATTEMPT
    marks = KeyMarks(share.key, meta.schema, encode_schema(meta.schema))
    by = list(share.partition_by)
    number = first
    for name, some in partitions(iter(rows), by) if by else [(meta.partition, iter(rows))]:
        meta = replace(meta, partition=name, number=number)
        for encoded in marks.files(some, meta, file_bytes=share.file_bytes, bloom=share.bloom):
            if number >= first + FILES_OF_AN_ATTEMPT:
                raise UsageError(
                    f"Task {task} would write more than {FILES_OF_AN_ATTEMPT:,} files",
                    key=meta.table,
                    hint="Nothing becomes visible. Make larger files, or more tasks",
                )
            add = encoded.facts
            add.path = path_of_data(replace(meta, number=number))
            add.table, add.partition = meta.table, name
            add.first_clock, add.last_clock = meta.first_clock, meta.last_clock
            yield add, encoded.body.read()
            number += 1


def _put(place: _Place, attempt: int, key: str, body: bytes) -> bool:
    try:
        if not place.capabilities.put_if_absent:
            refuse_taken(place.store, key)
        return put_data(place, key, body)
    except ObjectExists as error:
        if attempt < ATTEMPTS:
            raise
        raise ObjectExists(
            f"{key}, of attempt {attempt:,} at tasks, is taken: names repeat after {ATTEMPTS:,}",
            key=key,
            hint="Nothing was overwritten. Another attempt has another name; if none gets through, "
            "write in fewer tasks, or in several transactions",
        ) from error


# --- What the process does that begins and commits the transaction --------------------------------

_MOST_NAMED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that was begun, to go on with in another process of this machine.

    Attributes:
        transaction_id: Its own.
        epoch, base, log, slot_seed: As the footers of its files say.
        begun: When.
    """

    transaction_id: bytes
    epoch: int
    base: BaseRevision
    log: LogIdentity
    slot_seed: bytes
    begun: Moment | None


class Sharing:
    """The write of one table by many processes: `share` is for them, `finish` takes what they have
    written into the transaction. If it fails on the way, the transaction has to be discarded.

    Args:
        schema: Of the data.
        partition_by, clock, file_bytes, bloom: As for `Transaction.write`.
        overwrite: Whether rows that are there are replaced; else rows are added.
        where: Which rows, as for `Transaction.overwrite`. The data must meet it as well.
    Raises:
        What `Transaction.write` and `overwrite` raise before they write.
    Requests: Those of `Snapshot.files` with `where`, of an overwrite.
    """

    def __init__(
        self,
        tx: Transaction,
        table: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] | None = None,
        overwrite: bool = False,
        where: Any = None,
        clock: tuple[int, int] | None = None,
        file_bytes: int = FILE_BYTES,
        bloom: Sequence[str] = (),
    ) -> None:
        from ..data.dataframes import to_batches
        from ..data.parquet import check_bloom

        self._tx, self._table, self._where = tx, value_of(table), where
        escape_name(self._table, "table")
        self._operation = "overwrite" if overwrite else "append"
        tx._check_open(self._operation)
        tx._session.refuse_fenced()
        schema, _ = to_batches(schema.empty_table())
        schema = pa.schema([field.with_nullable(True) for field in schema])  # Spark infers "not"
        by = tx._split_by(self._table, schema, "", partition_by)
        check_bloom(bloom, schema)
        shows = tx._shows(self._table, schema, checked=True)
        self._inputs = self._take_out(shows.schema) if overwrite else None
        schema, self._encoded = fitted(tx._columns, tx._own, self._table, schema, refuses=True)
        tx._unknown(self._table, self._encoded)  # there is room for it
        clock = clock or tx._session.clock()
        meta = footer_of(tx._session, tx._intent, tx._base, self._table, schema, clock)
        path_of_data(meta)
        wanted = None if self._inputs is None else self._inputs.wanted
        has_times = bool(time_columns(schema))
        self.share = Share(
            replace(meta, operation=self._operation, replaces=self._replaces()),
            tx._session.capabilities,
            partition_by=tuple(by),
            key=tx._key_of(self._table),
            file_bytes=file_bytes,
            bloom=tuple(bloom),
            times=tx._own.times_read_as(self._table, schema, live=True) if has_times else None,
            where=None if wanted is None else where,
            columns=None if wanted is None else wanted.target,
            shows=None if wanted is None else shows,
        )

    def _replaces(self) -> tuple[tuple[str, str], ...]:
        """What the footers of tasks' files name: all that is taken out, if it is not too much to be
        in each of them."""
        removed = tuple(self._tx._removed)
        return removed if len(removed) <= _MOST_NAMED else ()

    def _take_out(self, schema: pa.Schema) -> Inputs:
        """Take out what is replaced, as it is now."""
        from .inputs import overwritten

        tx, table = self._tx, self._table
        tx._refuse_keyed(table)
        found = overwritten(
            tx._session, tx._intent, table,
            where=self._where, partition=None, data=schema, begun_at=tx._base.revision,
        )  # fmt: skip
        with tx._operation_guard.doing("overwrite", table):
            tx._begin(table, found)
        return found

    def finish(self, parts: Iterable[Part]) -> Replaced:
        """Take the files that others have written into the transaction, and write what stays of
        files that were taken out.

        Args:
            parts: One of each task: that of the attempt that counts.
        Raises:
            OperationInvalid: Two parts of one task, or files that aren't this transaction's.
            What `Transaction.overwrite` raises while it writes.
        Requests: Of an overwrite 1 or more GET for each file that holds rows which stay, 1 PUT for
            each that they are written to.
        """
        tx, parts = self._tx, sorted(parts, key=lambda part: part.task)
        adds = [add for part in parts for add in part.adds()]
        doing = (
            nullcontext()
            if self._inputs is None
            else tx._operation_guard.doing("overwrite", self._table)
        )
        with doing:
            self._check(parts, adds)
            tx._files = OWN_FILES
            tx._uploads.keys.update(f"{tx._folder}{add.path}" for add in adds)
            again: list[str] = []
            kept = 0
            if self._inputs is not None:
                options = {"file_bytes": self.share.file_bytes}
                again, kept = tx._keep_rest(self._table, self._inputs, **options)
            self._add(adds)
        rows = sum(part.rows for part in parts)
        paths = [add.path for add in adds]
        done = Replaced(paths, again, [], rows, 0, kept)
        return done if self._inputs is None else tx._overwritten(self._inputs, self._where, done)

    def _check(self, parts: Sequence[Part], adds: Sequence[wire.Add]) -> None:
        meta = self.share.meta
        own = [parse_data_file(add.path) for add in adds]
        sound = all(
            name is not None
            and (name.epoch, name.transaction_id) == (meta.epoch, meta.transaction_id)
            for name in own
        )
        once = len({add.path for add in adds}) == len(adds)
        if not sound or not once or len({part.task for part in parts}) != len(parts):
            raise OperationInvalid(
                f"What tasks have written for table {self._table!r} isn't one part of each task of "
                "this transaction",
                key=meta.transaction_id.hex(),
                hint="Nothing becomes visible. Give what each task told, once",
            )

    def _add(self, adds: Sequence[wire.Add]) -> None:
        tx, table = self._tx, self._table
        used = {add.schema_fingerprint for add in adds}
        forms = {form.fingerprint: form for form in (self._encoded, self._marked())}
        if not used <= forms.keys():
            raise OperationInvalid(
                f"Tasks have written table {table!r} in a schema that they weren't given",
                key=table,
                hint="Nothing becomes visible. Do all processes run one version of lakelog?",
            )
        for name in sorted(used) or [self._encoded.fingerprint]:
            tx._learn(tx._unknown(table, forms[name]))
        tx._own.learn(table, self._encoded)
        tx._intent.actions.extend(wire.Action(add=add) for add in adds)
        tx._added.update((add.path, table) for add in adds)

    def _marked(self) -> EncodedSchema:
        return encode_schema(self.share.meta.schema, once=self.share.key)


def begun(writer: Writer, tx: Transaction) -> Begun:
    """What it takes to go on with a transaction in another process."""
    session, intent = writer._session, tx._intent
    return Begun(
        intent.transaction_id, intent.epoch, tx._base, session.log, session.slot_seed, intent.begun
    )


def known_versions(writer: Writer, app_id: str | None, *, most: int) -> dict[str, int]:
    """Returns the versions of applications in a log, by id.

    Args:
        app_id: Only of this one; None: of all.
        most: The limit; with more it raises `UsageError`.
    """

    def asked(state: State) -> dict[str, int]:
        if app_id is not None:
            return {app_id: state.applications.version(app_id)}
        return state.applications.versions()

    found = writer._session.ask(asked)
    if len(found) > most:
        raise UsageError(
            f"{writer.writer_id}/{writer.database} knows {len(found):,} applications, more than "
            "can be told to each task",
            key=writer.writer_id,
            hint="Name yours (appId), give it a writer of its own, or forget old ones: "
            "`Writer.forget`",
        )
    return found


def go_on(writer: Writer, begun: Begun, app_id: str | None, app_version: int | None) -> Transaction:
    """A transaction that another process has begun, which does nothing more with it.

    Args:
        writer: The same, opened here, an owner or a guest as there.
    Raises:
        FencedError, EpochChanged: Another owner has committed meanwhile. Nothing was committed;
            files that were written are void, and gc takes them.
        As `Writer.transaction`.
    """
    session = writer._session
    committer = session._committer
    if session.epoch != begun.epoch:
        raise _superseded(writer, begun, guest=committer.guest)
    if committer.state.log is None:
        committer.identity = begun.log
    committer.slot_seed = begun.slot_seed
    tx = writer.transaction(app_id, app_version)
    tx._intent.transaction_id, tx._intent.begun = begun.transaction_id, begun.begun
    tx._base = begun.base
    return tx


def _superseded(writer: Writer, begun: Begun, *, guest: bool) -> LakelogError:
    name, folder = writer.writer_id, base_folder(writer.writer_id, writer.database)
    if guest:
        return epoch_changed_error(name, writer.database, folder)
    why = f"its epoch would be {writer.epoch}, and files were written in epoch {begun.epoch}"
    return fenced_error(name, why, folder)
