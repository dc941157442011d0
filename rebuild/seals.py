"""The seals that end an incarnation: their names and bytes. Pure.

A seal is a transaction under a name that a committer may still use: who still commits there has
either been first (then the plan is void), or finds the name taken and is refused. One takes the
name that the head has promised. Where the end of the log is lost, others take the names that follow
from the slot seeds in footers.

Source: docs/format.md, section 4.5; docs/protocol.md.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import (
    LogObject,
    first_slot_uuid,
    rebuilt_slot_uuid,
    successor_uuid,
)
from ..catalog.format.objects import encode_transaction
from ..catalog.log.outcomes import SEALED_AHEAD
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .plan import SealPlan, SlotName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .old_log import OldLog
    from .plan import RebuildPlan
    from .scan import OwnFile

_OPENINGS: Final = 32  # so many of the newest may still commit
_NOBODYS: Final = bytes(16)


def plan_seal(
    old: OldLog,
    own: Iterable[OwnFile],
    *,
    writer: str,
    database: str,
    log_id: bytes,
    incarnation: int,
    top_epoch: int,
) -> SealPlan:
    """Decides how the present incarnation will be ended.

    Args:
        own: The files that the base has not live.
        log_id: Of the log.
        incarnation: The present one.
        top_epoch: The highest that is seen anywhere.
    """
    sealed = old.seal
    at = _agreed_name(old, writer, database, incarnation)
    promised = old.successor if sealed is None else None
    _, uuid, digest, at_us = promised or (b"", b"", b"", 0)
    return SealPlan(
        log=LogIdentity(log_id, incarnation),
        at=at,
        previous_uuid=uuid,
        previous_digest=digest,
        epoch=max(old.epoch + 1, top_epoch) if sealed is None else sealed.epoch,
        after_us=at_us,
        others=_promised(own, old, at, incarnation),
        exists=sealed is not None,
    )


def _agreed_name(old: OldLog, writer: str, database: str, incarnation: int) -> SlotName:
    """Returns the name of the revision after the head. If nobody can know it, one that any two
    rebuilds agree on."""
    if old.seal is not None:
        return SlotName(old.seal.revision, old.seal.uuid)
    here = incarnation == old.incarnation
    revision = old.head + 1 if here else 0
    readable = max([old.state.revision, *old.readable])
    if here and old.successor is not None and readable == old.head:
        return SlotName(revision, old.successor[0])
    if revision == 0 and incarnation == 1:
        return SlotName(0, first_slot_uuid(writer, database))
    return SlotName(revision, rebuilt_slot_uuid(_NOBODYS, revision))


def _promised(
    own: Iterable[OwnFile], old: OldLog, at: SlotName, incarnation: int
) -> tuple[SlotName, ...]:
    """Returns the names above the head that a committer may still use, as far as footers say."""
    spans: dict[bytes, tuple[int, int]] = {}
    order: dict[bytes, tuple[int, int, int]] = defaultdict(lambda: (0, -1, 0))
    for file in own:
        if file.incarnation == incarnation:
            seed, base = file.slot_seed, file.base_revision
            low, high = spans.get(seed, (base, base))
            spans[seed] = (min(low, base), max(high, base))
            order[seed] = max(order[seed], (file.epoch, base, file.last_clock))
    newest = max((high for _, high in spans.values()), default=-1)
    is_whole = old.state.revision == old.head and old.state.revision >= 0 and not old.others
    if is_whole and newest < at.revision:
        return ()  # the head is what footers say it is: it has promised one name
    first = at.revision if is_whole else at.revision - 1
    newest_seeds = sorted(spans, key=lambda seed: (order[seed], seed))[-_OPENINGS:]
    bases = {spans[seed][1] for seed in newest_seeds}
    found: set[tuple[int, bytes]] = set()
    for seed in newest_seeds:
        low, high = spans[seed]
        start = max(high, first, 0)
        revisions = {base for base in bases if base >= max(low, first, 0)}
        for revision in revisions | set(range(start, start + SEALED_AHEAD + 1)):
            found.add((revision + 1, successor_uuid(seed, revision)))
    taken = {(item.revision, item.uuid8) for item in old.names if item.incarnation == incarnation}
    names = (SlotName(*name) for name in sorted(found))
    return tuple(
        name for name in names if name != at and (name.revision, name.uuid[:4].hex()) not in taken
    )


def seal_name(plan: RebuildPlan, at: SlotName) -> str:
    """Returns the name of a seal, without its folder."""
    return LogObject(plan.seal.log.incarnation, at.revision, at.uuid[:4].hex(), "transaction").name


def seal_body(plan: RebuildPlan, at: SlotName) -> bytes:
    """Returns the bytes of a seal: the same for each execution of a plan."""
    seal, rebuild_id = plan.seal, bytes.fromhex(plan.rebuild_id)
    first = at.revision == 0
    made_at_us = int(plan.made_at.timestamp() * 1_000_000)
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
            committed_at_us=max(seal.after_us + 1, made_at_us),
            successor_uuid=successor_uuid(rebuild_id, at.revision),
            slot_seed=rebuild_id,
        ),
    )
    return encode_transaction(seal.log, message)[0]
