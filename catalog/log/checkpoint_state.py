"""The state that a checkpoint holds. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .state import State

if TYPE_CHECKING:
    from ..format.objects import DecodedCheckpoint


def state_of_checkpoint(decoded: DecodedCheckpoint, writer: str, database: str) -> State:
    """The state that a checkpoint holds; its pieces are read when they are asked for."""
    message = decoded.message
    return State(
        writer,
        database,
        named=(message.writer, message.database),
        log=decoded.log,
        revision=message.revision,
        uuid=message.uuid,
        successor_uuid=message.successor_uuid,
        digest=message.digest,
        epoch=message.epoch,
        committed_at_us=message.committed_at_us,
        transaction_id=message.transaction_id,
        first_epoch=message.first_epoch,
        begun_at_us=message.begun_at_us,
        reader_features=frozenset(message.required_reader_features),
        writer_features=frozenset(message.required_writer_features),
        locations=frozenset(message.locations),
        base=decoded,
    )
