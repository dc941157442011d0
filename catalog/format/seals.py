"""Seals as they are found: the end of an incarnation, or what took a name that a committer might
still have used. Pure.

Source: docs/format.md, sections 4.5 and 10.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from ..wire import lakelog_transaction_pb2 as wire
from .frame import FrameKind, decode_frame
from .names import MAX_INCARNATION

if TYPE_CHECKING:
    from .frame import LogIdentity

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
