"""Logs built without a store, transaction by transaction: for tests of replay and checkpoints."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa

from ..catalog.format.names import LogObject, log_folder
from ..catalog.format.objects import DecodedTransaction, decode_transaction, encode_transaction
from ..catalog.format.schema import encode_schema
from ..catalog.log.build import Intent, build_transaction
from ..catalog.log.state import State, apply, empty_state
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .doubles import START_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.string())])


def schema_action(table: str = "t", schema: pa.Schema = SCHEMA) -> wire.Action:
    """The action that makes a schema known."""
    mark, message = encode_schema(schema)
    item = wire.Schema(table=table, fingerprint=mark, arrow_schema=message)
    return wire.Action(schema=item)


def add_action(
    path: str,
    table: str = "t",
    *,
    schema: pa.Schema = SCHEMA,
    partition: str = "",
    row_count: int = 10,
    row_groups: Sequence[wire.RowGroup] = (),
    replaces: Sequence[str] = (),
) -> wire.Action:
    """The action that adds a file."""
    add = wire.Add(
        path=path,
        table=table,
        partition=partition,
        size_bytes=100 + row_count,
        row_count=row_count,
        schema_fingerprint=encode_schema(schema)[0],
        first_clock=1,
        last_clock=2,
        footer_bytes=42,
        row_groups=row_groups,
        replaces=replaces,
    )
    return wire.Action(add=add)


def remove_action(path: str) -> wire.Action:
    """The action that removes a file."""
    return wire.Action(remove=wire.Remove(path=path))


class LogBuilder:
    """A log in memory that grows by commits.

    Attributes:
        state: After the last commit.
        transactions: All, decoded, in order.
        objects: Name and bytes of each, in order.
    """

    def __init__(self, writer: str = "w", database: str = "db", *, seed: int = 0) -> None:
        self.state: State = empty_state(writer, database)
        self.transactions: list[DecodedTransaction] = []
        self.objects: list[tuple[str, bytes]] = []
        self._random = random.Random(seed)

    def new_id(self) -> bytes:
        """A fresh identity from the seed."""
        return self._random.randbytes(16)

    def encode(
        self,
        *actions: wire.Action,
        change: Callable[[wire.Transaction], None] | None = None,
        app: tuple[str, int] = ("", 0),
        epoch: int = 1,
        guest: bool = False,
        now_us: int = 0,
        operation: str = "",
    ) -> tuple[str, bytes]:
        """The name and bytes of the next transaction, without committing it.

        Args:
            change: Alters the message before it is framed: how a test breaks a rule.
        """
        intent = Intent(self.new_id(), epoch, list(actions), operation, app[0], app[1])
        body, _ = build_transaction(
            self.state,
            [intent],
            uuid=self.state.next_uuid,
            successor=self.new_id(),
            epoch=epoch,
            guest=guest,
            now_us=now_us or START_US + (self.state.revision + 1) * 1_000_000,
        )
        name = LogObject(self.state.revision + 1, self.state.next_uuid[:4].hex(), "transaction")
        if change is not None:
            message = decode_transaction(body, name.name).message
            change(message)
            body, _ = encode_transaction(message)
        return name.name, body

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


def live_paths(state: State) -> dict[str, list[str]]:
    """Live paths by table, sorted."""
    found = {}
    for name, files in state.tables.items():
        in_runs = (path for run in files.runs for path in run.core.column("path").to_pylist())
        live = [path for path in in_runs if path not in files.removed]
        found[name] = sorted(live + list(files.added))
    return found


def replay(state: State, transactions: Iterable[DecodedTransaction]) -> State:
    """Apply transactions in order, in place; returns the same state."""
    for transaction in transactions:
        apply(state, transaction)
    return state
