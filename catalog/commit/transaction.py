"""A transaction as its user sees it: write, add, remove, then one commit for all, or nothing.

Source: docs/format.md, sections 4 and 8.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ...errors import FileNotLive, InvalidPath, TransactionExpired, UsageError
from ..data.parquet import FILE_BYTES, encode_files
from ..format.folding import fold
from ..format.names import base_folder, check_path, data_path, escape_name, parse_data_file
from ..format.schema import decode_schema, encode_schema
from ..log.build import schema_actions
from ..scalars import value_of
from ..wire import lakelog_transaction_pb2 as wire
from .arguments import check_clock
from .data_file import existing, put_data
from .dropped import warn_dropped
from .file_footer import footer_of
from .readable import OwnSchemas, check_on_conflict
from .room import Room
from .uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from ...store import ObjectInfo
    from ..format.footer import FooterMetadata
    from ..format.schema import EncodedSchema
    from ..log.build import Intent
    from ..log.outcome import CommitInfo
    from .session import Session


class Transaction:
    """A set of changes that becomes visible as a whole, or not at all.

    As a context manager it commits at the end of the block and discards on an exception. A
    transaction belongs to one thread; different transactions of one writer may run in different
    threads and may share a commit.

    Attributes:
        transaction_id: Hex; in the names and footers of its files, and in the log.
        commit_info: Set once committed; None before, and for a transaction without any change.
    """

    def __init__(self, session: Session, intent: Intent) -> None:
        self._session = session
        self._intent = intent
        self._base = session.base(intent.app_id)
        self._removed: dict[tuple[str, str], None] = {}  # in order
        self._named = 0  # how many of them stand in the footer of a file written before
        self._added: dict[str, str] = {}  # to which table, while it is there
        self._schemas: set[tuple[str, bytes]] = set()
        self._own = OwnSchemas(session.check_readable, self._removed.keys())
        self._room = Room(intent.member())
        self._files = 0
        self._uploads = Uploads(partial(put_data, session), in_background=session.in_background)
        self._closed = False
        self._sent = False
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

        Args:
            table: Any non-empty name.
            data: pyarrow Table, RecordBatch or RecordBatchReader; pandas or polars DataFrame.
            partition: Any name; empty for none. A `/` in it makes folders.
            partition_by: Columns by whose values the rows are split, in the place of `partition`:
                each combination has files of its own, in a partition like `year=2026/month=11`
                (docs/writing.md, "Partitions"). The columns stay in the files.
            clock: Logical clock of the first and the last row; the writer's own time in µs if not
                given.
            file_bytes: A file is closed once it is about so large.
            on_conflict: Whether data is refused whose types have no common type with those that the
                table has in this log (as far as this writer has seen it), or written all the same:
                then nobody can read the table as a whole.
            bloom: Columns that get bloom filters: see docs/reading.md.
        Returns:
            Paths of the new files, relative to `<writer>/<database>/`. Data without rows makes no
            file, but its schema becomes the table's.
        Raises:
            FencedError: Another owner has taken the writer over: nothing was written.
            InvalidSchema, InvalidName: Nothing was written.
            SchemaConflict: The table could not be read any more. Nothing was written.
            UsageError: See `bloom`; or no room is left for one more schema: nothing was written. Or
                what can't be partitioned so: nothing of this write becomes visible.
            StorageError: Files written so far are orphans; gc takes them. From the transaction's
                second file on files are put while the next ones are encoded, so that this call,
                a later one or the commit may tell of the failure; the transaction is lost then.
            ObjectExists: Another process draws the same random ids.
        Requests: 1 PUT a file. Of a large log the first write to a table reads its schemas, 1 GET;
            if one of them is in conflict with the data, 1 GET for each piece of a checkpoint that
            holds files of the table.
        """
        from ..data.dataframes import to_batches
        from ..data.partitioned import check_partition_by, partitions

        self._check_open()
        self._session.refuse_fenced()
        table, partition = value_of(table), value_of(partition)
        escape_name(table, "table")
        schema, batches = to_batches(data)
        by = check_partition_by(partition_by, schema, partition)
        encoded_schema = encode_schema(schema)
        if check_on_conflict(on_conflict):
            self._own.refuse_conflict(table, encoded_schema)
        first, last = check_clock(clock or self._session.clock())
        meta = footer_of(self._session, self._intent, self._base, table, schema, (first, last))
        meta = replace(meta, partition=partition, **self._removals())
        self._path(meta)  # a bad name is refused before the first byte is written
        schemas = self._unknown(table, encoded_schema)
        paths: list[str] = []
        adds: list[wire.Action] = []
        for name, rows in partitions(batches, by) if by else [(partition, batches)]:
            meta = replace(meta, partition=name, number=self._files, **self._removals())
            for encoded in encode_files(
                rows, schema, meta, encoded=encoded_schema, file_bytes=file_bytes, bloom=bloom
            ):
                path = self._path(replace(meta, number=self._files))
                self._files += 1
                self._named = len(self._removed)
                self._uploads.add(self._key(path), encoded.body.to_pybytes())
                add = encoded.facts
                add.path, add.table, add.partition = path, table, name
                add.first_clock, add.last_clock = first, last
                adds.append(wire.Action(add=add))
                paths.append(path)
        if not paths and on_conflict == "raise":
            self._own.refuse_conflict(table, encoded_schema, empty=True)
        # Only now: of a write that broke off nothing may become visible.
        self._learn(schemas)
        self._own.learn(table, encoded_schema)
        self._intent.actions.extend(adds)
        self._added.update(dict.fromkeys(paths, table))
        return paths

    def add(
        self,
        table: str,
        path: str,
        partition: str = "",
        *,
        partition_by: Mapping[str, pa.DataType] | Sequence[str] | None = None,
        clock: tuple[int, int] | None = None,
        on_conflict: Literal["raise", "allow"] = "raise",
    ) -> None:
        """Take in an existing Parquet file under this writer's `data/`.

        Its footer is read in a child process: a malformed one can't harm this one.

        Args:
            path: Relative to `<writer>/<database>/`, beginning with `data/`.
            partition_by: Columns that the file lacks and `partition`, as `year=2026/month=11`,
                tells of: types by name, or names alone (docs/writing.md, "Partitions").
            on_conflict: As for `write`.
        Raises:
            SchemaConflict: The table could not be read any more.
            InvalidName: A table or partition name that can't be.
            InvalidPartition: The name of the partition doesn't tell a column, or not as its type.
            InvalidPath: Outside the writer's prefix, or of another transaction, which left it over
                or may commit it yet; one that the log knows, and took out again, can be added.
            TransactionExpired: The file is so old that gc may be about to take it.
            ObjectNotFound: No such file.
            InvalidParquet: Not a Parquet file, or one with INT96 timestamps.
            DuplicateFile (at the commit): The store takes it for a live file of another spelling.
        Requests: 1 HEAD and 1 or 2 GET of the file's end; once a writer those of
            `store.probe_names`. Of a file of lakelog's making those of `Session.has_committed`.
            For the table's schemas those of `write`.
        """
        from ..data.footers.pool import footer_pool
        from ..data.footers.read import read_new_footer
        from ..data.partition_values import tell_values, with_partition

        self._check_open()
        self._session.refuse_fenced()
        table, path, partition = value_of(table), value_of(path), value_of(partition)
        escape_name(table, "table")
        if partition != "":
            escape_name(partition, "partition")
        check_path(path)
        refuses = check_on_conflict(on_conflict)
        first, last = check_clock(clock or self._session.clock())
        footer_pool().start()  # while the file is asked for
        info = existing(self._session, path)
        self._check_adoptable(path, info)
        if self._session.folds_names():
            self._intent.folds_names = True
        parsed = read_new_footer(self._session.store, info.key, info.size_bytes)
        schema, add = parsed.schema, parsed.facts
        encoded = with_partition(schema, partition, partition_by)
        add.schema_fingerprint = encoded.fingerprint
        if refuses:
            self._own.refuse_conflict(table, encoded)
        self._learn(self._unknown(table, encoded))
        self._own.learn(table, encoded)
        add.path, add.table, add.partition = path, table, partition
        tell_values(add, decode_schema(encoded.message))
        add.first_clock, add.last_clock = first, last
        self._intent.actions.append(wire.Action(add=add))
        self._added[path] = table

    def remove(self, path: str) -> None:
        """Take a file out of its table. The object stays until gc.

        Remove first and write afterwards, if the new files replace the old: their footers then say
        so, and a rebuild from footers knows.

        Raises:
            InvalidPath: Outside the writer's prefix.
            FileNotLive: No such file in the table now. (Checked again at the commit.)
            UsageError: The transaction has no room for it, and is as it was: about 130,000 removes
                of files that lakelog wrote fit.
        """
        self._check_open()
        path = check_path(value_of(path))
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
            raise FileNotLive(
                f"{path} is not live in {self._session.writer_id}/{self._session.database}",
                key=path,
                hint="List the live files with `lakelog files`",
            )
        removes = [wire.Action(remove=wire.Remove(path=path, table=table)) for table in tables]
        self._room.take(removes)
        self._added.pop(path, None)
        self._removed.update(dict.fromkeys((table, path) for table in tables))
        self._intent.actions.extend(removes)

    def commit(self) -> CommitInfo | None:
        """Make the changes visible. Calling it again after `CommitOutcomeUnknown` is safe: it never
        commits twice.

        Returns:
            Where it stands; None if there was nothing to commit.
        Raises:
            FencedError, ForkError, ConflictError, CommitOutcomeUnknown: See `lakelog.errors`.
            StorageError: A file of `write` could not be put. Nothing was committed.
        Requests: 1 PUT on an exclusive store; 2 LIST and 1 PUT on a plain one.
        """
        if self.commit_info is not None:
            return self.commit_info
        self._check_not_over()
        self._uploads.wait()
        self._sent = True
        if self._intent.actions or self._intent.app_id:
            self.commit_info = self._session.commit(self._intent)
        self._closed = True
        return self.commit_info

    def discard(self) -> None:
        """Give the transaction up. Files already written are orphans that nobody sees; gc takes
        them."""
        self._closed = True
        self._uploads.abandon()

    def __del__(self) -> None:
        if not (getattr(self, "_closed", True) or self._sent):
            where = f"{self._session.writer_id}/{self._session.database}"
            warn_dropped(where, len(self._added) + len(self._removed), self)

    def __enter__(self) -> Transaction:
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
        """The actions that name a schema, unless the log or this transaction does.

        Raises:
            UsageError: There is no room for it.
        """
        identity = (table, encoded.fingerprint)
        if identity in self._schemas or self._session.knows_schema(*identity):
            return []
        actions = schema_actions(table, encoded)
        self._room.check(actions)
        return actions

    def _removals(self) -> dict[str, Any]:
        """What the next file's footer says of removals: those that no footer names yet."""
        return {
            "replaces": tuple(islice(self._removed, self._named, None)),
            "replaced": len(self._removed),
            "operation": self._intent.operation or ("overwrite" if self._removed else "append"),
        }

    def _learn(self, schemas: Sequence[wire.Action]) -> None:
        """Name schemas in this transaction."""
        self._room.take(schemas)
        named = [each.schema for each in schemas if each.HasField("schema")]
        self._schemas.update((schema.table, schema.fingerprint) for schema in named)
        self._intent.actions.extend(schemas)

    def _path(self, meta: FooterMetadata) -> str:
        return data_path(meta.partition, meta.table, meta.epoch, meta.transaction_id, meta.number)

    def _key(self, path: str) -> str:
        return base_folder(self._session.writer_id, self._session.database) + path

    def _check_adoptable(self, path: str, info: ObjectInfo) -> None:
        """Refuse a file that gc may take while it is being added: it judges by epoch and age."""
        own = parse_data_file(path)
        if own is not None and own.epoch != self._intent.epoch:
            raise InvalidPath(
                f"{path} was written under epoch {own.epoch}, this transaction has "
                f"{self._intent.epoch}",
                key=path,
                hint="It is the leftover of another transaction, and gc may take it at any time: "
                "copy it under a name of your own, and add the copy",
            )
        id_in_name = self._id_in_name(path)
        if id_in_name is not None and not self._session.has_committed(id_in_name):
            raise InvalidPath(
                f"{path} was written by transaction {id_in_name.hex()}, which is in no revision "
                "that the log still tells of: it may commit the file yet",
                key=path,
                hint="If it failed, write the rows anew, or copy the file under a name of your own "
                "and add the copy",
            )
        if info.modified_at is None:
            return
        written = self._session.clocks.written(info.modified_at)
        if self._session.clocks.is_too_old(written):
            raise TransactionExpired(
                f"{path} is older than half the grace period of gc, which may be about to take it",
                key=path,
                hint="Copy it, and add the copy",
            )
        # The commit asks once more for the age of the oldest file.
        begun = self._intent.begun
        self._intent.begun = written if begun is None else written.or_before(begun)

    def _id_in_name(self, path: str) -> bytes | None:
        """Of another transaction, in a file name as any store may spell it."""
        name = parse_data_file(fold(path))
        if name is None or name.transaction_id == self._intent.transaction_id:
            return None
        return name.transaction_id

    def _check_open(self) -> None:
        """Changes are taken only until the first commit: it may stand, whatever came back."""
        self._check_not_over()
        if self._sent:
            raise UsageError(
                "This transaction was sent to be committed, and can't be changed any more",
                key=self.transaction_id,
                hint="Call commit again to learn what became of it; put further changes into "
                "another transaction",
            )

    def _check_not_over(self) -> None:
        self._session.check_process()
        if self._closed:
            raise UsageError(
                "This transaction is over", key=self.transaction_id, hint="Begin another one"
            )
