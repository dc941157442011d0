"""How the present incarnation will be ended: the names that its seal takes. Pure.

Source: docs/format.md, sections 4.5 and 10.6.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ..catalog.format.frame import LogIdentity
from ..catalog.format.names import first_slot_uuid, rebuilt_slot_uuid, successor_uuid
from ..catalog.log.told import AHEAD
from .values import SealPlan, SlotName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .old_log import OldLog
    from .scanned import Writing

_OPENINGS: Final = 32  # so many of the newest are taken to be alive
_AHEAD: Final = AHEAD  # commits of theirs that no footer tells of
_NOBODYS: Final = bytes(16)


def plan_seal(
    old: OldLog,
    own: Iterable[Writing],
    *,
    writer: str,
    database: str,
    log_id: bytes,
    top_epoch: int,
    is_whole: bool,
) -> SealPlan:
    """How the present incarnation will be ended.

    Args:
        own: All that tells of transactions below `data/`.
        log_id: Of the log.
        top_epoch: The highest that is seen anywhere.
        is_whole: Whether the head is the end that footers know.
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
        others=_promised(own, old, at, is_whole=is_whole and old.state is not None),
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


def _promised(
    own: Iterable[Writing], old: OldLog, at: SlotName, *, is_whole: bool
) -> tuple[SlotName, ...]:
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
    if is_whole and newest < at.revision:
        return ()  # the head is what footers say it is: it has promised one name
    first = at.revision if is_whole else at.revision - 1
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
