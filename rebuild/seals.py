"""The seals that end an incarnation: their names and bytes. Pure.

A seal is a transaction under a name that a committer may still use: who still commits there has
either been first (then the plan is void), or finds the name taken and is refused. One takes the
name that the head has promised. Where the end of the log is lost, others take the names that follow
from the slot seeds in footers.

Source: docs/format.md, section 4.5; docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ..catalog.format.names import (
    LogObject,
    first_slot_uuid,
    parse_data_file,
    parse_deletes_file,
    rebuilt_slot_uuid,
    successor_uuid,
)
from ..catalog.format.objects import encode_transaction
from ..catalog.log.outcomes import SEALED_AHEAD
from ..catalog.wire import lakelog_transaction_pb2 as wire
from .scan import MAX_FILE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalog.format.frame import LogIdentity
    from .old_log import OldLog
    from .plan import RebuildPlan
    from .scan import OwnFile, Scan

_OPENINGS: Final = 32  # so many of the newest may still commit
_NOBODYS: Final = bytes(16)


class SlotName(NamedTuple):
    """A name in the log: a revision and its slot uuid."""

    revision: int
    uuid: bytes


@dataclass(frozen=True, slots=True)
class Seal:
    """How the present incarnation is ended.

    Attributes:
        log: The present incarnation.
        at: The agreed name of the revision after the head, or as good a guess as can be made.
        previous_uuid, previous_digest: Of the head; zero if it can't be read.
        epoch: The seal's.
        after_us: Commit time of the head; 0 if it can't be read.
        others: Further names that a living committer may still use.
    """

    log: LogIdentity
    at: SlotName
    previous_uuid: bytes
    previous_digest: bytes
    epoch: int
    after_us: int
    others: tuple[SlotName, ...]


def plan_seal(old: OldLog, scan: Scan, log: LogIdentity) -> Seal:
    """Decides how the present incarnation, `log`, will be ended."""
    writer, database = old.state.writer, old.state.database
    at = _agreed_name(old, writer, database, log.incarnation)
    promised = old.successor if old.seal is None else None
    _, uuid, digest, at_us = promised or (b"", bytes(16), bytes(32), 0)
    # Names tell the epochs of files that can't be read, too.
    names = [parse_data_file(path) or parse_deletes_file(path) for path in scan.sizes]
    epochs = [one.epoch for one in names if one is not None and one.epoch < MAX_FILE_EPOCH]
    epoch = max([old.epoch + 1, *epochs]) if old.seal is None else old.seal.epoch
    others = _promised(scan.own, old, at, log.incarnation)
    return Seal(log, at, uuid, digest, epoch, at_us, others)


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
    tops: dict[bytes, int] = {}  # the highest base of each opening
    order: dict[bytes, tuple[int, int, int]] = {}
    for file in own:
        if file.incarnation == incarnation:
            seed, base = file.slot_seed, file.base_revision
            tops[seed] = max(base, tops.get(seed, base))
            order[seed] = max((file.epoch, base, file.last_clock), order.get(seed, (0, -1, 0)))
    is_whole = old.state.revision == old.head and old.state.revision >= 0 and not old.others
    if is_whole and max(tops.values(), default=-1) < at.revision:
        return ()  # the head is what footers say it is: it has promised one name
    first = max(0, at.revision if is_whole else at.revision - 1)
    newest = sorted(tops, key=lambda seed: (order[seed], seed))[-_OPENINGS:]
    bases = {tops[seed] for seed in newest if tops[seed] >= first}
    found: set[tuple[int, bytes]] = set()
    for seed in newest:
        start = max(tops[seed], first)
        for revision in bases.union(range(start, start + SEALED_AHEAD + 1)):
            found.add((revision + 1, successor_uuid(seed, revision)))
    taken = {(item.revision, item.uuid8) for item in old.names if item.incarnation == incarnation}
    names = (SlotName(*name) for name in sorted(found))
    return tuple(
        name for name in names if name != at and (name.revision, name.uuid[:4].hex()) not in taken
    )


def seal_name(seal: Seal, at: SlotName) -> str:
    """Returns the name of a seal, without its folder."""
    return LogObject(seal.log.incarnation, at.revision, at.uuid[:4].hex(), "transaction").name


def seal_body(seal: Seal, plan: RebuildPlan, at: SlotName) -> bytes:
    """Returns the bytes of a seal: the same for each execution of a plan."""
    rebuild_id, is_first = bytes.fromhex(plan.rebuild_id), at.revision == 0
    sealed = wire.Seal(next_incarnation=plan.incarnation, rebuild_id=rebuild_id)
    member = wire.Member(transaction_id=rebuild_id, operation="maintenance", action_count=1)
    message = wire.Transaction(
        revision=at.revision,
        uuid=at.uuid,
        previous_uuid=b"" if is_first else seal.previous_uuid,
        previous_digest=b"" if is_first else seal.previous_digest,
        epoch=seal.epoch,
        actions=[wire.Action(seal=sealed)],
        commit=wire.Commit(
            members=[member],
            committed_at_us=max(seal.after_us + 1, int(plan.made_at.timestamp() * 1_000_000)),
            successor_uuid=successor_uuid(rebuild_id, at.revision),
            slot_seed=rebuild_id,
        ),
    )
    return encode_transaction(seal.log, message)[0]
