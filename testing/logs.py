"""Logs built without a store, transaction by transaction: for tests of replay and checkpoints."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa

from ..catalog.format.definitions import encode_definition
from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import LogObject, log_folder, segments_folder
from ..catalog.format.objects import DecodedTransaction, decode_transaction, encode_transaction
from ..catalog.format.pieces import open_segment
from ..catalog.format.schema import column_id, encode_schema, with_column_id
from ..catalog.log.build import Intent, build_transaction
from ..catalog.log.checkpoint import EncodedCheckpoint, encode_state
from ..catalog.log.replay import apply
from ..catalog.log.state import State, empty_state, state_of_checkpoint
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .doubles import START_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..catalog.format.pieces import Piece
    from ..store import Store


def numbered(schema: pa.Schema) -> pa.Schema:
    """Columns with their ids; those that have none get their places."""
    fields = enumerate(schema, 1)
    return pa.schema([with_column_id(field, column_id(field) or at) for at, field in fields])


SCHEMA = numbered(pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.string())]))


def schema_action(table: str = "t", schema: pa.Schema = SCHEMA) -> wire.Action:
    """The action that makes a schema known."""
    encoded = encode_schema(numbered(schema))
    item = wire.Schema(table=table, fingerprint=encoded.fingerprint, arrow_schema=encoded.message)
    return wire.Action(schema=item)


def definition_action(table: str = "t", schema: pa.Schema = SCHEMA) -> wire.Action:
    """The action that defines the columns of a table as files of a schema have them."""
    found = numbered(schema)
    last = max(map(column_id, found))
    return wire.Action(definition=encode_definition(table, found, {}, last))


def add_action(
    path: str,
    table: str = "t",
    *,
    schema: pa.Schema = SCHEMA,
    partition: str = "",
    row_count: int = 10,
    row_groups: Sequence[wire.RowGroup] = (),
) -> wire.Action:
    """The action that adds a file."""
    add = wire.Add(
        path=path,
        table=table,
        partition=partition,
        size_bytes=100 + row_count,
        row_count=row_count,
        schema_fingerprint=encode_schema(numbered(schema)).fingerprint,
        first_clock=1,
        last_clock=2,
        footer_bytes=42,
        row_groups=row_groups,
    )
    return wire.Action(add=add)


def remove_action(path: str, table: str = "t") -> wire.Action:
    """The action that removes a file."""
    return wire.Action(remove=wire.Remove(path=path, table=table))


class LogBuilder:
    """A log in memory that grows by commits and checkpoints.

    Attributes:
        log: Its id and incarnation.
        state: After the last commit.
        transactions: All, decoded, in order.
        objects: Name and bytes of each, in order.
        checkpoints: Name and bytes of each, in order.
        segments: Segment objects by name.
        fetched: Names of the segments that states of this log have read, in order.
    """

    def __init__(
        self, writer: str = "w", database: str = "db", *, seed: int = 0, incarnation: int = 1
    ) -> None:
        self._random = random.Random(seed)
        self.log = LogIdentity(self.new_id(), incarnation)
        self.slot_seed = self.new_id()
        self.transactions: list[DecodedTransaction] = []
        self.objects: list[tuple[str, bytes]] = []
        self.checkpoints: list[tuple[str, bytes]] = []
        self.segments: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.state: State = self._readable(empty_state(writer, database))

    def new_id(self) -> bytes:
        """A fresh identity from the seed."""
        return self._random.randbytes(16)

    # --- Transactions -----------------------------------------------------------------------------

    def encode(
        self,
        *actions: wire.Action,
        change: Callable[[wire.Transaction], None] | None = None,
        app: tuple[str, int] = ("", 0),
        epoch: int = 1,
        guest: bool = False,
        now_us: int = 0,
        operation: str = "",
        transaction_id: bytes = b"",
    ) -> tuple[str, bytes]:
        """The name and bytes of the next transaction, without committing it.

        Args:
            change: Alters the message before it is framed: how a test breaks a rule.
        """
        own = transaction_id or self.new_id()
        intent = Intent(own, epoch, list(actions), operation, app[0], app[1])
        body, _ = build_transaction(
            self.state,
            [intent],
            log=self.log,
            uuid=self.state.next_uuid,
            slot_seed=self.slot_seed,
            epoch=epoch,
            guest=guest,
            now_us=now_us or START_US + (self.state.revision + 1) * 1_000_000,
        )
        revision, uuid8 = self.state.revision + 1, self.state.next_uuid[:4].hex()
        name = LogObject(self.log.incarnation, revision, uuid8, "transaction").name
        if change is not None:
            decoded = decode_transaction(body, name)
            change(decoded.message)
            attachments = body[len(body) - _attached(body) :]
            body, _ = encode_transaction(self.log, decoded.message, attachments)
        return name, body

    def decode(self, name: str, body: bytes) -> DecodedTransaction:
        """Decode under the key that it would have."""
        return decode_transaction(body, log_folder(self.state.writer, self.state.database) + name)

    def commit(self, *actions: wire.Action, **options: object) -> DecodedTransaction:
        """Append one transaction. Options as in `encode`."""
        name, body = self.encode(*actions, **options)  # type: ignore[arg-type]
        decoded = self.decode(name, body)
        apply(self.state, decoded)
        self.transactions.append(decoded)
        self.objects.append((name, body))
        return decoded

    def live(self) -> dict[str, list[str]]:
        """Live paths by table, sorted."""
        return live_paths(self.state)

    # --- Checkpoints ------------------------------------------------------------------------------

    def checkpoint(self, *, retained_from: int = 0) -> EncodedCheckpoint:
        """The checkpoint of the state, its segments kept; the state is based on it from here on."""
        encoded = encode_state(self.state, retained_from=retained_from)
        self.segments.update(encoded.segments)
        self.checkpoints.append((encoded.name, encoded.body))
        self.state.rebase(encoded.decoded, encoded.pieces, encoded.files)
        return encoded

    def put_into(self, store: Store) -> None:
        """Write everything to a store."""
        writer, database = self.state.writer, self.state.database
        for name, body in (*self.objects, *self.checkpoints):
            store.put(log_folder(writer, database) + name, body)
        for name, body in self.segments.items():
            store.put(segments_folder(writer, database) + name, body)

    def reload(self, encoded: EncodedCheckpoint) -> State:
        """The state that a reader has of a checkpoint: nothing of it is read yet."""
        state = state_of_checkpoint(encoded.decoded, self.state.writer, self.state.database)
        return self._readable(state)

    def copy(self) -> State:
        """A copy of the state."""
        return self._readable(self.state.copy())

    def replayed(self, upto: int | None = None) -> State:
        """The state after the transactions up to a revision (None: all), from the empty one."""
        state = self._readable(empty_state(self.state.writer, self.state.database))
        last = len(self.transactions) if upto is None else upto + 1
        return replay(state, self.transactions[:last])

    def _readable(self, state: State) -> State:
        def fetch(pieces: Sequence[Piece]) -> list[memoryview]:
            self.fetched += [piece.name for piece in pieces]
            assert state.log is not None
            return [open_segment(self.segments[piece.name], piece, state.log) for piece in pieces]

        state.fetch = fetch
        return state


def live_paths(state: State) -> dict[str, list[str]]:
    """Live paths by table, sorted; also of the known tables that have none."""
    files = state.files
    tables = sorted(state.schemas.tables() | set(files.tables()))
    return {table: sorted(files.table(table).column("path").to_pylist()) for table in tables}


def replay(state: State, transactions: Iterable[DecodedTransaction]) -> State:
    """Apply transactions in order, in place; returns the same state."""
    for transaction in transactions:
        apply(state, transaction)
    return state


def _attached(body: bytes) -> int:
    """The length of an object's attachments, by its header."""
    return int.from_bytes(body[16:24], "little")
