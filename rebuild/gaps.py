"""What a rebuilt log has lost of the life before, by the footers of that life: they count revisions
as that did, and the log that is in use counts anew. Pure.

A transaction that footers prove, and that the log in use doesn't hold, stood where that has lost a
revision: the first one above the base that the footer names, if the log has that one.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from ..catalog.format.segments import MAX_NUMBER
from .evidence import Gap
from .known_log import same_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId
    from .known_log import KnownLog


def place_in_gaps(
    transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence, known: KnownLog
) -> None:
    """Fill in `Evidence.gaps`.

    Args:
        evidence: As `prove` gave it.
    """
    held = sorted({revision for revision, _ in known.committed.values()})
    lost = [Gap(one + 1, two - 1) for one, two in pairwise(held) if two - one > 1]
    if held and not known.is_whole:  # its end may be lost, too
        lost.append(Gap(held[-1] + 1, MAX_NUMBER))
    for transaction_id, item in transactions.items():
        if (
            transaction_id in known.committed
            or transaction_id not in evidence.proofs
            or same_log(item, known.state)
        ):
            continue
        bases = (item.base_transaction_id, *(one.head[1] for one in item.said))
        stood = (known.committed[one][0] for one in bases if one in known.committed)
        below = max(stood, default=-1)
        place = bisect_right(lost, below, key=lambda gap: gap.first)
        if below >= 0 and place < len(lost):
            evidence.gaps[transaction_id] = lost[place]


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
