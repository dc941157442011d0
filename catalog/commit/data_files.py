"""Data files of one transaction on their way to the store, several at a time, while the next one is
being encoded.

The first file is put before the call returns: a transaction of one file starts no thread and learns
of a failure at once. From the second one on files go to a few threads, and `wait`, which the commit
asks, comes back only when all are durable. A file that could not be put spoils the transaction: its
failure is raised by every call from there on.

Source: docs/format.md, section 10: data files are durable before the transaction that names them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from ...errors import ObjectExists, ObjectNotFound, UsageError
from ..data.parquet import encode_files
from ..format import compute as pc
from ..format.footer import FooterMetadata
from ..format.names import data_path
from ..format.schema import encode_schema, is_key_type, plain
from ..log.operations import as_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from ...store import Capabilities, Store
    from ..data.parquet import Body, EncodedFile
    from ..format.footer import BaseRevision
    from ..format.schema import EncodedSchema
    from ..log.build import Intent
    from .session import Session


# --- What their footers say -----------------------------------------------------------------------


def footer_of(  # noqa: PLR0917 - as they come
    session: Session,
    intent: Intent,
    base: BaseRevision,
    table: str,
    schema: pa.Schema,
    clock: tuple[int, int],
) -> FooterMetadata:
    """Returns the footer of a first file, of no partition and without removals, of a transaction
    that was begun on a head (`base`)."""
    return FooterMetadata(
        writer=session.writer_id,
        database=session.database,
        table=table,
        partition="",
        transaction_id=intent.transaction_id,
        number=0,
        base_revision=base.revision,
        base_transaction_id=base.transaction_id,
        epoch=intent.epoch,
        first_clock=clock[0],
        last_clock=clock[1],
        schema=schema,
        log_id=session.log.log_id,
        incarnation=session.log.incarnation,
        slot_seed=session.slot_seed,
        app_id=intent.app_id,
        app_version=intent.app_version,
    )


def removals(removed: Mapping[tuple[str, str], None], named: int, intent: Intent) -> dict[str, Any]:
    """Returns what the next file's footer says of removals: those that no footer names yet, after
    the first `named`, and the operation."""
    return {
        "replaces": tuple(islice(removed, named, None)),
        "operation": intent.operation or as_written(intent.asked, removes=bool(removed)),
    }


def path_of_data(meta: FooterMetadata) -> str:
    """Returns the path of a file by its footer. Raises `InvalidName` for its table or partition."""
    return data_path(meta.partition, meta.table, meta.epoch, meta.transaction_id, meta.number)


# --- Files of a table with a key ------------------------------------------------------------------


class KeyMarks:
    """Writes the files of one table.

    Args:
        key: Of the table; empty if it has none.
        schema: Of the files, with the ids of columns.
        encoded: The same as the log keeps it.

    Attributes:
        used: The schemas of the files written so far, each once.
    """

    def __init__(self, key: Sequence[str], schema: pa.Schema, encoded: EncodedSchema) -> None:
        kinds = [schema.field(name).type for name in key if name in schema.names]
        known = len(kinds) == len(key) and all(map(is_key_type, kinds))
        self._key = list(key) if known else []
        self._encoded = encoded
        self._marked = encode_schema(schema, once=key) if self._key else encoded
        self._schema = schema
        self._seen: list[pa.Table] = []
        self.used: dict[bytes, EncodedSchema] = {}

    def files(
        self, rows: Iterator[pa.RecordBatch], meta: FooterMetadata, **options: Any
    ) -> Iterator[EncodedFile]:
        """`encode_files`, and the facts of each file name its schema with the mark, or without."""
        see = self._see if self._key else None
        for file in encode_files(
            rows, self._schema, meta, encoded=self._encoded, see=see, **options
        ):
            schema = self._marked if self._key and self._is_once() else self._encoded
            file.facts.schema_fingerprint = schema.fingerprint
            self.used[schema.fingerprint] = schema
            self._seen.clear()
            yield file

    def _see(self, rows: pa.Table) -> None:
        self._seen.append(rows.select(self._key))

    def _is_once(self) -> bool:
        """Whether no two rows seen have one key."""
        return not has_twice(pa.concat_tables(self._seen))


def has_twice(keys: pa.Table) -> bool:
    """Whether two rows are the same, those with nulls aside."""
    held = keys
    for name in keys.schema.names:
        if held.column(name).null_count:
            held = held.filter(pc.is_valid(held.column(name)))
    forms = pa.schema([(field.name, plain(field.type)) for field in held.schema])
    held = held.cast(forms)  # dictionaries of several chunks may name one value twice
    distinct: pa.Table = held.group_by(forms.names).aggregate([])
    return bool(distinct.num_rows < held.num_rows)


# --- Putting one ----------------------------------------------------------------------------------

# Larger ones go in parts, which no store can be trusted to join only if the key is free. It is
# looked first then.
_ONE_PUT_BYTES: Final = 1 << 30


class Place(Protocol):
    """Where data files go: an open writer, or what a task of it has."""

    @property
    def store(self) -> Store:
        """The store."""

    @property
    def capabilities(self) -> Capabilities:
        """What the writer's probe found."""


def put_data(session: Place, key: str, body: bytes | Body) -> bool:
    """Put a data file, if absent where the store can.

    Returns:
        Whether it was put now. Else these bytes were there: its own, whose answer was lost, or
        those of another process that draws the same ids, which may commit them.
    Raises:
        ObjectExists: Another object has its name.
    Requests: 1 PUT, and 1 GET if the name is taken; 1 HEAD before a file of more than 1 GiB.
    """
    is_large = _size(body) > _ONE_PUT_BYTES
    file = None if isinstance(body, bytes) else body.file
    try:
        if is_large:
            refuse_taken(session.store, key)
        if_absent = session.capabilities.put_if_absent and not is_large
        if file is not None:
            session.store.put_file(key, file, if_absent=if_absent)
        else:
            session.store.put(key, _bytes(body), if_absent=if_absent)
    except ObjectExists as error:
        with contextlib.suppress(ObjectNotFound):  # by a folder of a while ago
            if session.store.get(key) == _bytes(body):
                return False
        raise ObjectExists(
            f"{key}, a name that was drawn at random, is taken by another file",
            key=key,
            hint="Nothing was overwritten. Two processes draw the same random ids: was a machine "
            "cloned, or set back to a snapshot? Open the writer again",
        ) from error
    return True


def _bytes(body: bytes | Body) -> bytes:
    return body if isinstance(body, bytes) else body.read()


def _size(body: bytes | Body) -> int:
    return len(body) if isinstance(body, bytes) else body.size


def refuse_taken(store: Store, key: str) -> None:
    """Raises `ObjectExists` if an object has this name: for what can't be put if absent.

    Requests: 1 HEAD.
    """
    try:
        store.head(key)
    except ObjectNotFound:
        return
    raise ObjectExists(f"{key} is there already", key=key, hint="Nothing was overwritten")


# --- Putting several at a time --------------------------------------------------------------------

AT_ONCE: Final = 16
MOST_FILES: Final = 64  # that wait or are under way
MOST_BYTES: Final = 128 << 20  # of these; a larger file goes alone


class Uploads:
    """Not safe for threads: one transaction's, which one thread uses.

    Args:
        put: Brings one file into the store: key and bytes. Returns whether it was not there before.
        in_background: Whether threads may; else each file is put before the call returns.
    """

    def __init__(self, put: Callable[[str, bytes | Body], bool], *, in_background: bool) -> None:
        self._put = put
        self._in_background = in_background
        self._process = os.getpid()
        self._pool: ThreadPoolExecutor | None = None
        self._any = False
        self._under_way: list[Future[None]] = []  # in the order of the files
        self._room = threading.Condition()
        self._files = self._bytes = 0  # not yet put
        self._failure: BaseException | None = None
        self.keys: set[str] = set()  # of all that it has put, or begun to put, and that is its own

    def add(self, key: str, body: bytes | Body) -> None:
        """Puts a file, now or soon; waits while too many are under way. Raises the error of this
        file, or of one before it."""
        self._check()
        self.keys.add(key)
        if not (self._in_background and self._any):
            self._bring(key, body)
            self._any = True
            return
        size = _size(body)
        with self._room:
            while self._files and (self._files >= MOST_FILES or self._bytes + size > MOST_BYTES):
                self._room.wait()
            self._check()
            self._files, self._bytes = self._files + 1, self._bytes + size
        if len(self._under_way) > 2 * MOST_FILES:
            self._under_way = [upload for upload in self._under_way if not upload.done()]
        try:
            self._under_way.append(self._threads().submit(self._one, key, body))
        except BaseException:
            self._leave(size)
            raise

    def wait(self) -> None:
        """Waits until every file is in the store; can be called again after an interrupt. Raises
        the error of a file that could not be put."""
        self._check()
        for upload in self._under_way:
            upload.result()
        self._end()
        self._check()

    def abandon(self) -> None:
        """Put nothing more; what is under way is waited for."""
        if self._process == os.getpid():
            for upload in self._under_way:
                upload.cancel()
            self._end()

    def _end(self) -> None:
        self._under_way = []
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _bring(self, key: str, body: bytes | Body) -> None:
        try:
            if self._put(key, body):
                return
        except ObjectExists:
            self.keys.discard(key)
            raise
        self.keys.discard(key)  # perhaps another process has put it, and will commit it

    def _one(self, key: str, body: bytes | Body) -> None:
        try:
            if self._failure is None:  # else the transaction is lost anyway
                self._bring(key, body)
        except BaseException as error:
            with self._room:
                self._failure = self._failure or error
        finally:
            self._leave(_size(body))

    def _leave(self, size: int) -> None:
        with self._room:
            self._files, self._bytes = self._files - 1, self._bytes - size
            self._room.notify()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                "This transaction was begun by another process, which this one was forked from",
                hint="Open the writer, and begin the transaction, in the process that uses it",
            )
        if self._failure is not None:
            raise copy(self._failure)  # a new one each time: tracebacks would pile up in it

    def _threads(self) -> Any:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="lakelog-upload")
        return self._pool
