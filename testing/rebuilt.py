"""What a rebuild leaves in a store: a seal; the next incarnation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.names import (
    LogObject,
    log_folder,
)
from ..catalog.format.objects import decode_transaction
from ..catalog.log.build import Intent, build_transaction
from ..catalog.log.replay import apply
from ..catalog.read.log_reader import LogReader
from ..catalog.wire import lakelog_transaction_pb2 as wire
from ..rebuild import execute_rebuild, plan_rebuild
from .doubles import START_US, FakeAmbient

if TYPE_CHECKING:
    from ..catalog.format.frame import LogIdentity
    from ..catalog.log.state import State
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
    """Rebuilds a log, sealed or not; returns the state that its next incarnation opens with."""
    ambient = FakeAmbient(seed=7).ambient
    plan = plan_rebuild(store, writer, database, ambient=ambient)
    info = execute_rebuild(store, plan, ambient=ambient)
    return LogReader(store, writer, database).load(info.revision)


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
