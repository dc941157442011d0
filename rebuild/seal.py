"""The seal that ends an incarnation: its names, its bytes, and how it is read. Pure.

A seal is a transaction under the name that the head promised to the next commit: who still commits
there has either been first (then the plan is void), or finds the name taken and is refused.

Source: docs/format.md, sections 4.5, 5.1 and 10.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from ..catalog.format.frame import FrameKind, LogIdentity, decode_frame
from ..catalog.format.names import (
    MAX_INCARNATION,
    LogObject,
    log_folder,
    successor_uuid,
)
from ..catalog.format.objects import encode_transaction
from ..catalog.wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from .plan import RebuildPlan
    from .values import SlotName

_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class StandingSeal:
    """A seal that is there.

    Attributes:
        log: What it ends.
        revision, uuid: Its name.
        rebuild_id, next_incarnation: Of the rebuild that it was made for.
        epoch: Its own.
    """

    log: LogIdentity
    revision: int
    uuid: bytes
    rebuild_id: bytes
    next_incarnation: int
    epoch: int


def read_seal(body: bytes, key: str) -> StandingSeal | None:
    """The seal that an object holds, whether or not it can stand in a chain; None if it is no seal.

    Raises:
        CorruptObject, UnsupportedFeature: It can't be told.
    """
    frame = decode_frame(body, FrameKind.TRANSACTION, key)
    message = wire.Transaction()
    try:
        message.ParseFromString(frame.message)
    except DecodeError:
        return None
    if [action.WhichOneof("kind") for action in message.actions] != ["seal"]:
        return None
    seal = message.actions[0].seal
    following = frame.log.incarnation < seal.next_incarnation <= MAX_INCARNATION
    if len(seal.rebuild_id) != _ID_BYTES or not following:
        return None
    return StandingSeal(
        frame.log,
        message.revision,
        message.uuid,
        seal.rebuild_id,
        seal.next_incarnation,
        message.epoch,
    )


def seal_key(plan: RebuildPlan, at: SlotName) -> str:
    """The key of a seal."""
    item = LogObject(plan.seal.log.incarnation, at.revision, at.uuid[:4].hex(), "transaction")
    return log_folder(plan.writer, plan.database) + item.name


def seal_body(plan: RebuildPlan, at: SlotName, now_us: int) -> bytes:
    """The bytes of a seal."""
    seal, rebuild_id = plan.seal, bytes.fromhex(plan.rebuild_id)
    first = at.revision == 0
    message = wire.Transaction(
        revision=at.revision,
        uuid=at.uuid,
        previous_uuid=b"" if first else seal.previous_uuid or bytes(16),
        previous_digest=b"" if first else seal.previous_digest or bytes(32),
        epoch=seal.epoch,
        actions=[
            wire.Action(
                seal=wire.Seal(next_incarnation=plan.log.incarnation, rebuild_id=rebuild_id)
            )
        ],
        commit=wire.Commit(
            members=[
                wire.Member(transaction_id=rebuild_id, operation="maintenance", action_count=1)
            ],
            committed_at_us=max(seal.after_us + 1, now_us),
            successor_uuid=successor_uuid(rebuild_id, at.revision),
            slot_seed=rebuild_id,
        ),
    )
    body, _ = encode_transaction(seal.log, message)
    return body
