"""One transaction whose files many processes write: what each of them is told, and what it does.

The process that began the transaction cuts the data into tasks. A task may be tried several times,
even at once: every attempt writes files of names that no other one has, and only those of the
attempts that are told back are committed. The files of the others are nobody's, and gc takes them;
their footers say of which task they are, so that a rebuild takes one attempt of each.

Source: docs/format.md, sections 8 and 10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...errors import ObjectExists, UsageError
from ..data.parquet import FILE_BYTES
from ..format.names import base_folder
from ..format.schema import encode_schema
from ..wire import lakelog_transaction_pb2 as wire
from .data_file import put_data, refuse_taken
from .file_footer import path_of_data
from .key_marks import KeyMarks
from .meaning import rows_lost
from .row_streams import Counted, within
from .times import refuse_misfits
from .uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ...store import Capabilities, Store
    from ..data.shown import Shown
    from ..format.footer import FooterMetadata

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
    """What one attempt at a task has written.

    Attributes:
        task: Which of the tasks.
        files: Their `Add`s, in the order of writing, as the actions of a message.
        rows: How many.
    """

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
    table, times = share.meta.table, share.times
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
            yield add, encoded.body.to_pybytes()
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
