"""What a rebuild leaves in a store, in its least form: a seal; an incarnation of one revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import (
    LogObject,
    base_folder,
    log_folder,
    rebuilt_slot_uuid,
    segments_folder,
)
from ..catalog.format.objects import decode_transaction
from ..catalog.log.build import Intent, build_transaction, identity_action
from ..catalog.log.checkpoint import encode_state
from ..catalog.log.replay import apply
from ..catalog.log.state import State, empty_state
from ..catalog.read.log_reader import LogReader
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .doubles import START_US

if TYPE_CHECKING:
    from ..store.base import Store

REBUILD_ID = b"rebuild of tests"


def seal(store: Store, writer: str = "w", database: str = "db") -> str:
    """Seal the log under the agreed name of its next revision; returns the key."""
    state = LogReader(store, writer, database).load()
    assert state.log is not None
    action = wire.Action(
        seal=wire.Seal(next_incarnation=state.log.incarnation + 1, rebuild_id=REBUILD_ID)
    )
    return _put(store, state, state.log, state.next_uuid, state.epoch + 1, [action])


def rebuild(store: Store, writer: str = "w", database: str = "db") -> State:
    """Begin the next incarnation of a log, sealed or not: its live files in one transaction, and
    the checkpoint of it."""
    old = LogReader(store, writer, database).load()
    assert old.log is not None
    log = LogIdentity(old.log.log_id, old.log.incarnation + 1)
    state = empty_state(writer, database)
    uuid = rebuilt_slot_uuid(REBUILD_ID, 0)
    found = store.list(f"{base_folder(writer, database)}data/")
    times_us = [int(info.modified_at.timestamp() * 1e6) for info in found if info.modified_at]
    identity = identity_action(writer, database, max(times_us, default=0))
    _put(store, state, log, uuid, old.epoch + 1, [identity, *_content(old)])
    encoded = encode_state(state)
    for name, body in encoded.segments:
        store.put(segments_folder(writer, database) + name, body)
    store.put(log_folder(writer, database) + encoded.name, encoded.body, if_absent=True)
    return state


def _content(old: State) -> list[wire.Action]:
    """The schemas and files of a state, as actions."""
    actions = [
        wire.Action(
            schema=wire.Schema(
                table=entry.table,
                fingerprint=entry.fingerprint,
                arrow_schema=entry.message,
            )
        )
        for entry in old.schemas.entries.values()
    ]
    for table in old.files.tables():
        for row in old.files.table(table).to_pylist():
            names = ("path", "partition", "size_bytes", "row_count", "schema_fingerprint")
            add = wire.Add(table=table, **{name: row[name] for name in names})
            actions.append(wire.Action(add=add))
    return actions


def _put(  # noqa: PLR0917 - the parts of one object
    store: Store, state: State, log: LogIdentity, uuid: bytes, epoch: int,
    actions: list[wire.Action],
) -> str:  # fmt: skip
    """Put the next transaction of a state, and apply it; returns the key."""
    revision = state.revision + 1
    intent = Intent(bytes([revision % 256]) * 16, epoch, actions, "maintenance")
    body, _ = build_transaction(
        state, [intent], log=log, uuid=uuid, slot_seed=REBUILD_ID, epoch=epoch, guest=False,
        now_us=START_US,
    )  # fmt: skip
    item = LogObject(log.incarnation, revision, uuid[:4].hex(), "transaction")
    key = log_folder(state.writer, state.database) + item.name
    store.put(key, body, if_absent=True)
    apply(state, decode_transaction(body, key))
    return key
