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

from ...errors import (
    BrokenChain,
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    UnknownSchema,
    UnsupportedFeature,
)
from ..format.names import first_slot_uuid
from ..format.schema import decode_schema
from .history import History, transaction_row
from .table_files import TableFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ..format.objects import DecodedTransaction
    from ..format.run import Batch
    from ..wire import lakelog_transaction_pb2 as wire

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
        return {
            fingerprint: entry.schema
            for (name, fingerprint), entry in self.schemas.items()
            if name == table
        }

    def table_of(self, path: str) -> str | None:
        """The table that a live path belongs to, or None."""
        return next((name for name, files in self.tables.items() if path in files), None)


def empty_state(writer: str, database: str) -> State:
    """The state before the first commit."""
    return State(writer, database)


def apply(state: State, transaction: DecodedTransaction) -> None:
    """Move a state one revision on, in place. An error leaves the state as it was.

    Raises:
        BrokenChain: Not the next link: revision, uuid, digest, epoch or commit time don't follow.
        UnsupportedFeature: It requires a reader feature that this lakelog doesn't know.
        CorruptObject: An action doesn't fit the state.
    Source: docs/format.md, section 4.2.
    """
    message = transaction.message
    check_next(state, transaction)
    for position, action in enumerate(message.actions):
        _change(state, action, transaction, position)
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
    state.history.append(transaction_row(transaction))


def _change(
    state: State,
    action: wire.Action,
    transaction: DecodedTransaction,
    position: int,
) -> None:
    """One action that was checked before."""
    kind = action.WhichOneof("kind")
    if kind == "add":
        add = action.add
        files = state.tables.setdefault(add.table, TableFiles())
        files.added[add.path] = (add, transaction.message.revision)
    elif kind == "remove":
        table = state.table_of(action.remove.path)
        assert table is not None, f"{transaction.key} was checked"
        state.tables[table].remove(action.remove.path)
    elif kind == "schema":
        _learn_schema(state, action.schema, transaction.message.revision, transaction.key)
    elif kind == "add_batch":
        batch = transaction.batches[position]
        state.tables.setdefault(action.add_batch.table, TableFiles()).append(batch)
    elif kind == "upgrade":
        state.reader_features |= frozenset(action.upgrade.required_reader_features)
        state.writer_features |= frozenset(action.upgrade.required_writer_features)


def check_next(state: State, transaction: DecodedTransaction) -> None:
    """Everything that `apply` asks of a transaction, without changing anything.

    A committer calls it on its own object before the put: what a reader would refuse is never
    written.

    Raises:
        As `apply`.
    """
    _check_link(state, transaction.message, transaction.key)
    try:
        validate(state, transaction.message.actions, transaction.batches)
    except (DuplicateFile, FileNotLive, UnknownSchema) as error:
        raise CorruptObject(
            f"{transaction.key} doesn't fit the log: {error.message}", key=transaction.key
        ) from error
    for action in transaction.message.actions:
        kind = action.WhichOneof("kind")
        if kind == "upgrade":
            _check_upgrade(state, action.upgrade, transaction.key)
        elif kind == "schema":
            _decode_schema(action.schema, transaction.key)


OPEN_AGAIN: Final = (
    "If the log was rebuilt or restored since it was opened here, only open it again"
)


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
            f"time. {OPEN_AGAIN}",
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


def _check_upgrade(state: State, upgrade: wire.Upgrade, key: str) -> None:
    unknown = frozenset(upgrade.required_reader_features) - READER_FEATURES
    if unknown:
        raise UnsupportedFeature(
            f"{key} requires {', '.join(sorted(unknown))} from here on",
            key=key,
            hint=f"Upgrade lakelog, or read revision {state.revision} or earlier",
        )


def _learn_schema(state: State, schema: wire.Schema, revision: int, key: str) -> None:
    name = (schema.table, schema.fingerprint)
    known = state.schemas.get(name)
    if known is not None:  # named again: only its key and sort order can be new
        state.schemas[name] = replace(
            known, key=tuple(schema.key), sort_order=tuple(schema.sort_order)
        )
        return
    decoded = _decode_schema(schema, key)
    state.schemas[name] = SchemaEntry(
        schema.table,
        decoded,
        schema.arrow_schema,
        tuple(schema.key),
        tuple(schema.sort_order),
        revision,
    )


def _decode_schema(schema: wire.Schema, key: str) -> pa.Schema:
    try:
        return decode_schema(schema.arrow_schema)
    except ValueError as error:
        raise CorruptObject(
            f"{key} holds an invalid schema of table {schema.table!r}", key=key
        ) from error


def validate(
    state: State, actions: Sequence[wire.Action], batches: Mapping[int, Batch] | None = None
) -> None:
    """Check actions against a state without changing it.

    Args:
        actions: Of one transaction, in order.
        batches: The decoded `AddBatch` actions, by position.
    Raises:
        DuplicateFile: A path that is live already, or is added twice.
        FileNotLive: A path that is not live at that point.
        UnknownSchema: A file without a schema.
    """
    live = _live_among(state, actions)
    known = set(state.schemas)
    fate: dict[str, bool] = {}
    fresh = TableFiles()  # the batches of this very transaction
    for position, action in enumerate(actions):
        kind = action.WhichOneof("kind")
        if kind == "schema":
            known.add((action.schema.table, action.schema.fingerprint))
        elif kind == "add":
            add = action.add
            _check_schema(known, add.table, {add.schema_fingerprint}, add.path)
            if fate.get(add.path, add.path in live or add.path in fresh):
                raise _duplicate(add.path)
            fate[add.path] = True
        elif kind == "remove":
            path = action.remove.path
            if not fate.get(path, path in live or path in fresh):
                raise FileNotLive(
                    f"{path} is not live in {state.writer}/{state.database} "
                    f"at revision {state.revision}",
                    key=path,
                    hint="List the live files with `files`; it may have been removed meanwhile",
                )
            fate[path] = False
        elif kind == "add_batch":
            batch = (batches or {})[position]
            fingerprints = set(batch.run.core.column("schema_fingerprint").unique().to_pylist())
            _check_schema(known, action.add_batch.table, fingerprints, batch.run.key)
            tables = [*state.tables.values(), fresh]
            if any(files.overlaps(batch.run) for files in tables) or any(
                batch.run.find(path) >= 0 for path in fate
            ):
                raise _duplicate(f"A file of the batch in {batch.run.key}")
            fresh.append(batch)


def _check_schema(
    known: set[tuple[str, bytes]], table: str, fingerprints: set[bytes], what: str
) -> None:
    if any((table, fingerprint) not in known for fingerprint in fingerprints):
        raise UnknownSchema(f"{what} has a schema that the log doesn't know", key=what)


def _live_among(state: State, actions: Sequence[wire.Action]) -> set[str]:
    """Which of the paths that actions name are live now; one array operation if there are many."""
    paths = [
        action.add.path if action.WhichOneof("kind") == "add" else action.remove.path
        for action in actions
        if action.WhichOneof("kind") in ("add", "remove")
    ]
    return {path for files in state.tables.values() for path in files.live_among(paths)}


def _duplicate(path: str) -> DuplicateFile:
    return DuplicateFile(
        f"{path} is in the log already", key=path, hint="Give the file another name"
    )
