"""The seal that ends an incarnation: its names, its bytes, and how it is read. Pure.

A seal is a transaction under the name that the head promised to the next commit: who still commits
there has either been first (then the plan is void), or finds the name taken and is refused.

Source: docs/format.md, sections 4.5, 5.1 and 10.6.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from ..catalog.format.frame import FrameKind, LogIdentity, decode_frame
from ..catalog.format.names import (
    MAX_INCARNATION,
    LogObject,
    first_slot_uuid,
    log_folder,
    rebuilt_slot_uuid,
    successor_uuid,
)
from ..catalog.format.objects import encode_transaction
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .plan import SealPlan, SlotName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .old_log import OldLog
    from .plan import RebuildPlan
    from .scanned import OwnFile

_OPENINGS: Final = 32  # so many of the newest are taken to be alive
_AHEAD: Final = 16  # commits of theirs that no footer tells of
_NOBODYS: Final = bytes(16)


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
    if len(seal.rebuild_id) != len(_NOBODYS) or not following:
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


def plan_seal(
    old: OldLog,
    own: Iterable[OwnFile],
    *,
    writer: str,
    database: str,
    log_id: bytes,
    top_epoch: int,
) -> SealPlan:
    """How the present incarnation will be ended.

    Args:
        own: All files with lakelog metadata.
        log_id: Of the log.
        top_epoch: The highest that is seen anywhere.
    """
    at = _agreed_name(old, writer, database)
    state = old.state if old.seal is None else None
    return SealPlan(
        log=LogIdentity(log_id, old.incarnation),
        at=at,
        previous_uuid=b"" if state is None else state.uuid,
        previous_digest=b"" if state is None else state.digest,
        epoch=max(old.epoch + 1, top_epoch) if old.seal is None else old.seal.epoch,
        after_us=0 if state is None else state.committed_at_us,
        others=_promised(own, old, at),
        stands=old.seal is not None,
    )


def _agreed_name(old: OldLog, writer: str, database: str) -> SlotName:
    """The name of the revision after the head. If nobody can know it, one that any two rebuilds
    agree on."""
    if old.seal is not None:
        return SlotName(old.seal.revision, old.seal.uuid)
    revision = old.head + 1
    if old.successor_uuid:
        return SlotName(revision, old.successor_uuid)
    if revision == 0 and old.incarnation == 1:
        return SlotName(0, first_slot_uuid(writer, database))
    return SlotName(revision, rebuilt_slot_uuid(_NOBODYS, revision))


def _promised(own: Iterable[OwnFile], old: OldLog, at: SlotName) -> tuple[SlotName, ...]:
    """Names that a living committer may still use, as far as footers tell: above the head, for what
    stands below must go on being read."""
    spans: dict[bytes, tuple[int, int]] = {}
    order: dict[bytes, tuple[int, int, int]] = defaultdict(lambda: (0, -1, 0))
    for file in own:
        if file.incarnation == old.incarnation:
            seed, base = file.slot_seed, file.base_revision
            low, high = spans.get(seed, (base, base))
            spans[seed] = (min(low, base), max(high, base))
            order[seed] = max(order[seed], (file.epoch, base, file.last_clock))
    newest = max((high for _, high in spans.values()), default=-1)
    if old.state is not None and newest < at.revision:
        return ()  # the head is what footers say it is: it has promised one name
    first = at.revision if old.state is not None else at.revision - 1
    alive = sorted(spans, key=lambda seed: (order[seed], seed))[-_OPENINGS:]
    bases = {spans[seed][1] for seed in alive}
    found: set[tuple[int, bytes]] = set()
    for seed in alive:
        low, high = spans[seed]
        start = max(high, first, 0)
        revisions = {base for base in bases if base >= max(low, first, 0)}
        for revision in revisions | set(range(start, start + _AHEAD + 1)):
            found.add((revision + 1, successor_uuid(seed, revision)))
    names = (SlotName(*name) for name in sorted(found))
    return tuple(
        name
        for name in names
        if name != at and (name.revision, name.uuid[:4].hex()) not in old.taken
    )
