"""The seal that ends an incarnation: its names and its bytes. Pure.

A seal is a transaction under the name that the head promised to the next commit: who still commits
there has either been first (then the plan is void), or finds the name taken and is refused.

Source: docs/format.md, sections 4.5, 5.1 and 10.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog.format.names import (
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
