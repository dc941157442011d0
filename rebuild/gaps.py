"""What a rebuilt log has lost of the lives before, by the footers of those: they count revisions as
they did, and the log that is in use counts anew. Pure.

A transaction of an earlier life that the log in use doesn't hold was one of the revisions that it
has lost, if it was in it at all: each that what is held leaves open (`bounds`). One for which there
is none left was not in it, though it be proven: an earlier rebuild left it out, and the log that is
in use says more than footers of a life that it doesn't go on. Where the log goes back to a
checkpoint all of the earlier lives is below that, and the state decides.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ..catalog.format.segments import MAX_NUMBER
from .bounds import Bounds
from .evidence import Gap
from .known_log import same_log
from .room import Room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId
    from .known_log import KnownLog

_NO_ROOM: Final = (
    "the old log holds other transactions at all revisions that it can have been, so the rebuild "
    "before left it out"
)
LEFT_OUT: Final = (
    "it is proven, but the log in use holds others wherever it can have stood: an earlier rebuild "
    "left it out"
)


def place_in_gaps(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence, known: KnownLog
) -> None:
    """Fill in `Evidence.gaps`, and leave out what there is no room for.

    Args:
        evidence: As `prove_by_log` left it.
    """
    log = known.state.log
    if known.is_whole or log is None or not known.committed:
        return
    items = [
        item
        for one, item in transactions.items()
        if item.written and item.incarnation < log.incarnation and one not in known.committed
    ]
    if not items:
        return
    spans = Bounds(transactions, evidence, known).of_all(items)
    room = Room(_lost(known))
    live = {item.transaction_id for item in items if _was_live(item, known)}
    proven = {one: span for one, span in spans.items() if one in evidence.proofs}
    left_out = {one for one, span in proven.items() if room.within(span) is None}
    left_out -= live | _told_since(transactions, known)
    gaps = _placed({one: span for one, span in proven.items() if one not in left_out}, room)
    free = room.without_full([*gaps.values()])
    for one, span in spans.items():
        found = free.within(span)
        if one in left_out:
            evidence.undecided.setdefault(one, LEFT_OUT)
        elif one not in proven and found is not None:
            gaps[one] = found
        elif one not in proven and one not in live:
            evidence.undecided.setdefault(one, _NO_ROOM)
    if known.state.base is None:
        evidence.gaps = gaps


def _lost(known: KnownLog) -> list[Gap]:
    """The revisions that the history doesn't hold, and that may be of earlier lives: a checkpoint
    stands above all of them, for a rebuild ends with one."""
    held = sorted({revision for revision, _ in known.committed.values()})
    if known.state.base is not None:  # of a rebuilt log lakelog forgets no history; others may
        held = [min(known.first, held[0])]
    lost = [Gap(one + 1, two - 1) for one, two in pairwise([-1, *held]) if two - one > 1]
    if known.state.base is None:
        lost.append(Gap(held[-1] + 1, MAX_NUMBER))
    return lost


def _placed(spans: Mapping[TransactionId, Gap], room: Room) -> dict[TransactionId, Gap]:
    """Of proven ones. Where one can be a single revision it is no other's. What doesn't fit at all
    may be any: evidence is in contradiction there, and nothing is told by it."""
    found = {one: room.within(span) for one, span in spans.items()}
    rest = room.without([span for span in found.values() if span is not None])
    anywhere = room.within(Gap(0, MAX_NUMBER))
    gaps: dict[TransactionId, Gap] = {}
    for one, span in found.items():
        gap = span or anywhere
        if gap is not None and gap.first < gap.last:
            gap = rest.within(gap) or gap
        if gap is not None:
            gaps[one] = gap
    return gaps


def _told_since(
    transactions: Mapping[TransactionId, FoundTransaction], known: KnownLog
) -> set[TransactionId]:
    """Transactions that footers of the log in use show to have been in it: they name them as base
    or head, or take out their files, or do something with rows of them."""
    owners = {
        (file.table, file.path): one for one, item in transactions.items() for file in item.files
    }
    found: set[TransactionId] = set()
    for item in transactions.values():
        if item.written and same_log(item, known.state):
            found |= {item.base_transaction_id, *(one.head[1] for one in item.said)}
            found |= {owners[name] for name in item.replaces | item.touches if name in owners}
    return found


def _was_live(item: FoundTransaction, known: KnownLog) -> bool:
    """Whether the log tells of a file that a transaction wrote: so it was committed."""
    names = {(file.table, file.path) for file in item.files}
    return not names.isdisjoint(known.live) or not names.isdisjoint(known.removed)


def head_below(item: FoundTransaction, evidence: Evidence, known: KnownLog) -> int | None:
    """A revision of the log in use that stood before a transaction; None if nothing tells."""
    if same_log(item, known.state):
        return item.head_revision
    gap = evidence.gaps.get(item.transaction_id)
    return None if gap is None else gap.first - 1


def own_revision(item: FoundTransaction, evidence: Evidence, known: KnownLog) -> int | None:
    """The revision of a transaction in the log in use, as far as is known; None if nothing tells.
    It may be a later one."""
    head = head_below(item, evidence, known)
    if head is None or not same_log(item, known.state):
        return None if head is None else head + 1
    return evidence.revisions.get(item.transaction_id, head + 1)


def last_revision(item: FoundTransaction, evidence: Evidence, known: KnownLog) -> int:
    """A revision of the log in use that a transaction was not above, as far as is known."""
    if same_log(item, known.state):
        return evidence.revisions.get(item.transaction_id, MAX_NUMBER)
    gap = evidence.gaps.get(item.transaction_id)
    return MAX_NUMBER if gap is None else gap.last
