"""The state of one log at one revision, and how one more transaction changes it. Pure: no store, no
clock.

`apply` is the whole of replay: state(n+1) = apply(state(n), transaction n+1). It checks that the
transaction is the next link of the chain, then its actions one by one. `validate` asks the same of
actions before they are written.

Source: docs/format.md, sections 4.2 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import BrokenChain, CorruptObject, DuplicateFile, FileNotLive, UnsupportedFeature
from .files import Batch, TableFiles
from .history import History, history_row
from .names import first_slot_uuid
from .schema import decode_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .codec import DecodedTransaction
    from .wire import lakelog_transaction_pb2 as wire

READER_FEATURES: Final[frozenset[str]] = frozenset()
WRITER_FEATURES: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """One schema known to the log.

    Attributes:
        table: Whose it is.
        schema: Arrow schema, with generations in the fields' metadata.
        message: Its Arrow IPC message, as in the log.
        revision: Where it was first named.
    """

    table: str
    schema: pa.Schema
    message: bytes
    key: tuple[str, ...]
    sort_order: tuple[str, ...]
    revision: int


@dataclass(slots=True)
class State:
    """All that a log says at one revision. -1 is the state before the first commit."""

    writer: str
    database: str
    revision: int = -1
    uuid: bytes = b""
    successor_uuid: bytes = b""
    digest: bytes = b""
    epoch: int = 0
    committed_at_us: int = 0
    transaction_ids: tuple[bytes, ...] = ()
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()
    app_versions: dict[str, int] = field(default_factory=dict)
    schemas: dict[tuple[str, bytes], SchemaEntry] = field(default_factory=dict)
    tables: dict[str, TableFiles] = field(default_factory=dict)
    history: History = field(default_factory=History)

    def copy(self) -> State:
        """An independent copy. Costs what lies over the runs, not the runs."""
        return replace(
            self,
            app_versions=dict(self.app_versions),
            schemas=dict(self.schemas),
            tables={name: files.copy() for name, files in self.tables.items()},
            history=self.history.copy(),
        )

    @property
    def next_uuid(self) -> bytes:
        """The slot uuid that the next transaction has, agreed in advance."""
        return self.successor_uuid or first_slot_uuid(self.writer, self.database)

    def arrow_schemas(self, table: str) -> dict[bytes, pa.Schema]:
        """Schemas of a table by fingerprint."""
        return {mark: entry.schema for (name, mark), entry in self.schemas.items() if name == table}

    def table_of(self, path: str) -> str | None:
        """The table that a live path belongs to, or None."""
        return next((name for name, files in self.tables.items() if path in files), None)


def start(writer: str, database: str) -> State:
    """The state before the first commit."""
    return State(writer, database)


def replay(state: State, transactions: Iterable[DecodedTransaction]) -> State:
    """Apply transactions in order, in place; returns the same state."""
    for transaction in transactions:
        apply(state, transaction)
    return state


def apply(state: State, transaction: DecodedTransaction) -> None:
    """Move a state one revision on, in place. On an error the state is unusable and must be
    dropped.

    Raises:
        BrokenChain: Not the next link: revision, uuid, digest, epoch or commit time don't follow.
        UnsupportedFeature: It requires a reader feature that this lakelog doesn't know.
        CorruptObject: An action doesn't fit the state.
    Source: docs/format.md, section 4.2.
    """
    message, key = transaction.message, transaction.key
    _check_link(state, message, key)
    added = removed = rows = size = 0
    for position, action in enumerate(message.actions):
        kind = action.WhichOneof("kind")
        if kind == "add":
            _add(state, action.add, message.revision, key)
            added, rows, size = added + 1, rows + action.add.row_count, size + action.add.size_bytes
        elif kind == "remove":
            _remove(state, action.remove.path, key)
            removed += 1
        elif kind == "schema":
            _learn_schema(state, action.schema, message.revision, key)
        elif kind == "add_batch":
            batch = transaction.batches[position]
            _add_batch(state, action.add_batch.table, batch, key)
            added += batch.run.core.num_rows
            rows += _sum(batch, "row_count")
            size += _sum(batch, "size_bytes")
        elif kind == "upgrade":
            _upgrade(state, action.upgrade, key)
    for member in message.commit.members:
        if member.app_id:
            state.app_versions[member.app_id] = max(
                member.app_version, state.app_versions.get(member.app_id, 0)
            )
    state.revision = message.revision
    state.uuid = message.uuid
    state.successor_uuid = message.commit.successor_uuid
    state.digest = transaction.digest
    state.epoch = message.epoch
    state.committed_at_us = message.commit.committed_at_us
    state.transaction_ids = tuple(member.transaction_id for member in message.commit.members)
    row = history_row(
        message,
        transaction.digest,
        added=added,
        removed=removed,
        rows_added=rows,
        bytes_added=size,
    )
    state.history.append(row)


def _check_link(state: State, message: wire.Transaction, key: str) -> None:
    problem = ""
    if message.revision != state.revision + 1:
        problem = f"is revision {message.revision}, after {state.revision}"
    elif message.previous_uuid != state.uuid:
        problem = (
            f"follows {message.previous_uuid.hex()}, but revision {state.revision} is "
            f"{state.uuid.hex()}"
        )
    elif message.previous_digest != state.digest:
        problem = f"follows another object than the one at revision {state.revision}"
    elif message.epoch < state.epoch:
        problem = f"has epoch {message.epoch}, below {state.epoch}"
    elif message.commit.committed_at_us <= state.committed_at_us:
        problem = "was not committed after the one before it"
    if problem:
        raise BrokenChain(
            f"{key} {problem}",
            key=key,
            hint=f"Revisions up to {state.revision} can still be read: give one as the point in "
            "time",
        )


def check_features(state: State, *, writing: bool = False) -> None:
    """Refuse a log that requires what this lakelog doesn't know.

    Raises:
        UnsupportedFeature: Names the features.
    """
    unknown = state.reader_features - READER_FEATURES
    if writing:
        unknown |= state.writer_features - WRITER_FEATURES
    if unknown:
        raise UnsupportedFeature(
            f"The log of {state.writer}/{state.database} requires {', '.join(sorted(unknown))}",
            key=f"{state.writer}/{state.database}",
            hint="Upgrade lakelog, or read a point in time before the feature came in",
        )


def _upgrade(state: State, upgrade: wire.Upgrade, key: str) -> None:
    state.reader_features |= frozenset(upgrade.required_reader_features)
    state.writer_features |= frozenset(upgrade.required_writer_features)
    unknown = state.reader_features - READER_FEATURES
    if unknown:
        raise UnsupportedFeature(
            f"{key} requires {', '.join(sorted(unknown))} from here on",
            key=key,
            hint=f"Upgrade lakelog, or read revision {state.revision} or earlier",
        )


def _learn_schema(state: State, schema: wire.Schema, revision: int, key: str) -> None:
    mark = (schema.table, schema.fingerprint)
    if mark in state.schemas:
        return
    try:
        decoded = decode_schema(schema.arrow_schema)
    except ValueError as error:
        raise CorruptObject(
            f"{key} holds a schema of table {schema.table!r} that is none", key=key
        ) from error
    state.schemas[mark] = SchemaEntry(
        schema.table,
        decoded,
        schema.arrow_schema,
        tuple(schema.key),
        tuple(schema.sort_order),
        revision,
    )


def _add(state: State, add: wire.Add, revision: int, key: str) -> None:
    if (add.table, add.schema_fingerprint) not in state.schemas:
        raise CorruptObject(
            f"{key} adds {add.path} with a schema that the log doesn't know", key=key
        )
    if state.table_of(add.path) is not None:
        raise CorruptObject(f"{key} adds {add.path} a second time", key=key)
    state.tables.setdefault(add.table, TableFiles()).added[add.path] = (add, revision)


def _remove(state: State, path: str, key: str) -> None:
    table = state.table_of(path)
    if table is None:
        raise CorruptObject(f"{key} removes {path}, which is not live", key=key)
    state.tables[table].remove(path)


def _add_batch(state: State, table: str, batch: Batch, key: str) -> None:
    known = {mark for name, mark in state.schemas if name == table}
    if not set(batch.run.core.column("schema_fingerprint").unique().to_pylist()) <= known:
        raise CorruptObject(f"{key} adds files with a schema that the log doesn't know", key=key)
    if any(files.overlaps(batch.run) for files in state.tables.values()):
        raise CorruptObject(f"{key} adds a file a second time", key=key)
    state.tables.setdefault(table, TableFiles()).append(batch)


def _sum(batch: Batch, column: str) -> int:
    return pc.sum(batch.run.core.column(column)).as_py() or 0


def validate(state: State, actions: Sequence[wire.Action]) -> None:
    """Check actions against a state without changing it, before they are written.

    Args:
        actions: Adds, removes and schemas of one transaction, in order.
    Raises:
        DuplicateFile: A path that is live already, or is added twice.
        FileNotLive: A path that is not live at that point.
    """
    fate: dict[str, bool] = {}
    for action in actions:
        kind = action.WhichOneof("kind")
        if kind == "add":
            path = action.add.path
            if fate.get(path, False) or (path not in fate and state.table_of(path) is not None):
                raise DuplicateFile(
                    f"{path} is in the log already", key=path, hint="Give the file another name"
                )
            fate[path] = True
        elif kind == "remove":
            path = action.remove.path
            if not fate.get(path, True) or (path not in fate and state.table_of(path) is None):
                raise FileNotLive(
                    f"{path} is not live in {state.writer}/{state.database} at revision "
                    f"{state.revision}",
                    key=path,
                    hint="List the live files with `files`; it may have been removed meanwhile",
                )
            fate[path] = False
