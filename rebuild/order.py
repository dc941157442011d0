"""One linear order of transactions that fits what their footers say. Pure.

By epoch (it never falls along a log), then by revision where a footer tells it; a transaction whose
revision nobody tells comes after the head that it was begun on, and after those with earlier
clocks that the store got earlier, too. One that a rebuilt log has lost comes where that has lost
it: the numbers of its own life are other ones. Over all that: a base comes before what was begun on
it, and a file before what replaces it.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ..catalog.format.segments import MAX_NUMBER
from .evidence import Gap, of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId
    from .values import FileName

Place = tuple[int, int, int, int, bytes]


@dataclass(slots=True)
class Ordered:
    """The order, and how far it can be relied on.

    Attributes:
        transactions: First to last.
        circular: Ids of transactions that had to be placed though something before them was not.
    """

    transactions: list[FoundTransaction]
    circular: list[TransactionId]


def order(transactions: Mapping[TransactionId, FoundTransaction], evidence: Evidence) -> Ordered:
    """Put the transactions that are not ruled out in order."""
    kept = {
        transaction_id: item
        for transaction_id, item in transactions.items()
        if not evidence.is_out(transaction_id)
    }
    places = _places(kept, evidence)
    before = _constraints(kept, evidence)
    after: dict[TransactionId, list[TransactionId]] = defaultdict(list)
    waiting = {
        transaction_id: len(transaction_ids) for transaction_id, transaction_ids in before.items()
    }
    for transaction_id, transaction_ids in before.items():
        for other in transaction_ids:
            after[other].append(transaction_id)
    ready = [places[transaction_id] for transaction_id in kept if not waiting.get(transaction_id)]
    heapq.heapify(ready)
    result = Ordered([], [])
    placed: set[TransactionId] = set()
    stuck: list[Place] | None = None
    while len(placed) < len(kept):
        if not ready:  # footers that contradict each other: go on with the first of the rest
            if stuck is None:
                stuck = sorted((places[transaction_id] for transaction_id in kept), reverse=True)
            while stuck[-1][-1] in placed:
                stuck.pop()
            ready = [stuck.pop()]
            result.circular.append(ready[0][-1])
        transaction_id = heapq.heappop(ready)[-1]
        if transaction_id in placed:
            continue
        placed.add(transaction_id)
        result.transactions.append(kept[transaction_id])
        for other in after[transaction_id]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, places[other])
    return result


def _places(
    kept: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> dict[TransactionId, Place]:
    """Epoch, revision or the best guess at it, place in the revision, clock, id."""
    known = _known_by_epoch(kept, evidence)
    # The highest clock and store's time so far, along the revisions of an epoch.
    latest = {
        epoch: (
            [*accumulate((item.clock for item in items), max)],
            [*accumulate((item.stored_us for item in items), max)],
        )
        for epoch, items in known.items()
    }
    places: dict[TransactionId, Place] = {}
    for transaction_id, item in kept.items():
        slot, member = _told_slot(transaction_id, evidence)
        if slot is None:
            within = evidence.gaps.get(transaction_id, Gap(item.head_revision + 1, MAX_NUMBER))
            slot = within.first
            clocks, times = latest.get(item.epoch, ((), ()))
            earlier = bisect_left(clocks, item.clock)
            if item.stored_us:  # users count clocks as they like, and a copy has new times
                earlier = min(earlier, bisect_right(times, item.stored_us))
            if earlier:
                before = evidence.revisions[known[item.epoch][earlier - 1].transaction_id]
                slot = min(max(slot, before), within.last)
        places[transaction_id] = (item.epoch, slot, member, item.clock, transaction_id)
    return places


def _told_slot(transaction_id: TransactionId, evidence: Evidence) -> tuple[int | None, int]:
    """The revision of a transaction, if anything tells it, and its place in that. What a rebuilt
    log has lost comes where that begins to lack it, in the order of the life that it was of."""
    gap = evidence.gaps.get(transaction_id)
    if gap is None:
        return evidence.revisions.get(transaction_id), evidence.members.get(transaction_id, 0)
    number = evidence.counted.get(transaction_id)
    return (None, 0) if number is None else (gap.first, number)


def _known_by_epoch(
    kept: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> dict[int, list[FoundTransaction]]:
    """Those whose revision in the old log is known, in order."""
    known: dict[int, list[FoundTransaction]] = defaultdict(list)
    for transaction_id, item in kept.items():
        if transaction_id in evidence.revisions and transaction_id not in evidence.gaps:
            known[item.epoch].append(item)
    for items in known.values():
        items.sort(
            key=lambda item: (
                evidence.revisions[item.transaction_id],
                evidence.members.get(item.transaction_id, 0),
                item.clock,
                item.transaction_id,
            )
        )
    return known


def _constraints(
    kept: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> dict[TransactionId, set[TransactionId]]:
    """For each transaction, those that must come before it."""
    owners = {
        (file.table, file.path): transaction_id
        for transaction_id, item in kept.items()
        for file in item.files
    }
    before: dict[TransactionId, set[TransactionId]] = defaultdict(set)
    for transaction_id, item in kept.items():
        bases = {item.base_transaction_id, *(one.head[1] for one in item.said)}
        before[transaction_id].update(bases & kept.keys())
        names = item.replaces | item.touches
        before[transaction_id].update(owners[name] for name in names if name in owners)
        before[transaction_id].discard(transaction_id)
    for first_id, second_id in _removed_again(kept, evidence):
        before[second_id].add(first_id)
    for items in _known_by_epoch(kept, evidence).values():
        for first, second in pairwise(items):
            before[second.transaction_id].add(first.transaction_id)
    return before


def _removed_again(
    kept: Mapping[TransactionId, FoundTransaction], evidence: Evidence
) -> Iterator[tuple[TransactionId, TransactionId]]:
    """Pairs of transactions of which the first makes a file live again that the second takes out:
    for another one, which stood below the second, had taken it out before."""
    adders: dict[FileName, list[FoundTransaction]] = defaultdict(list)
    for item in kept.values():
        for add in of_kind(item.actions, "add"):
            adders[add.table, add.path].append(item)
    removers: dict[FileName, list[FoundTransaction]] = defaultdict(list)
    for item in kept.values() if adders else ():
        for name in item.replaces & adders.keys():
            removers[name].append(item)
    revisions = evidence.revisions
    for name, items in removers.items():
        for item in items:
            below = [
                revisions[one.transaction_id]
                for one in items
                if revisions.get(one.transaction_id, item.head_revision + 1) <= item.head_revision
            ]
            after = max(below, default=-1)
            between = [
                one
                for one in adders[name]
                if one is not item and revisions.get(one.transaction_id, after + 1) > after
            ]
            if below and len(between) == 1:
                yield between[0].transaction_id, item.transaction_id
