"""One linear order of transactions that fits what their footers say. Pure.

By epoch (it never falls along a log), then by revision where a footer tells it; a transaction whose
revision nobody tells comes after the head that it was begun on, and after those with earlier
clocks. Over all that: a base comes before what was begun on it, and a file before what replaces it.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .evidence import Evidence, Mark, Transaction

Place = tuple[int, int, int, bytes]


@dataclass(slots=True)
class Ordered:
    """The order, and how far it can be relied on.

    Attributes:
        transactions: First to last.
        circular: Ids of transactions that had to be placed though something before them was not.
    """

    transactions: list[Transaction]
    circular: list[Mark]


def order(transactions: Mapping[Mark, Transaction], evidence: Evidence) -> Ordered:
    """Put the transactions that are not ruled out in order."""
    kept = {mark: item for mark, item in transactions.items() if not evidence.is_out(mark)}
    places = _places(kept, evidence)
    before = _constraints(kept, evidence)
    after: dict[Mark, list[Mark]] = defaultdict(list)
    waiting = {mark: len(marks) for mark, marks in before.items()}
    for mark, marks in before.items():
        for other in marks:
            after[other].append(mark)
    ready = [places[mark] for mark in kept if not waiting.get(mark)]
    heapq.heapify(ready)
    result = Ordered([], [])
    placed: set[Mark] = set()
    stuck: list[Place] | None = None
    while len(placed) < len(kept):
        if not ready:  # footers that contradict each other: go on with the first of the rest
            if stuck is None:
                stuck = sorted((places[mark] for mark in kept), reverse=True)
            while stuck[-1][-1] in placed:
                stuck.pop()
            ready = [stuck.pop()]
            result.circular.append(ready[0][-1])
        mark = heapq.heappop(ready)[-1]
        if mark in placed:
            continue
        placed.add(mark)
        result.transactions.append(kept[mark])
        for other in after[mark]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, places[other])
    return result


def _places(kept: Mapping[Mark, Transaction], evidence: Evidence) -> dict[Mark, Place]:
    """Epoch, revision or the best guess at it, clock, id."""
    known = _known_by_epoch(kept, evidence)
    latest: dict[int, list[int]] = {}  # the highest clock so far, along the revisions of an epoch
    for epoch, items in known.items():
        clocks: list[int] = []
        for item in items:
            clocks.append(max(item.clock, clocks[-1] if clocks else item.clock))
        latest[epoch] = clocks
    places: dict[Mark, Place] = {}
    for mark, item in kept.items():
        slot = evidence.revisions.get(mark)
        if slot is None:
            slot = item.base_revision + 1
            earlier = bisect_left(latest.get(item.epoch, []), item.clock)
            if earlier:
                slot = max(slot, evidence.revisions[known[item.epoch][earlier - 1].mark])
        places[mark] = (item.epoch, slot, item.clock, mark)
    return places


def _known_by_epoch(
    kept: Mapping[Mark, Transaction], evidence: Evidence
) -> dict[int, list[Transaction]]:
    known: dict[int, list[Transaction]] = defaultdict(list)
    for mark, item in kept.items():
        if mark in evidence.revisions:
            known[item.epoch].append(item)
    for items in known.values():
        items.sort(key=lambda item: (evidence.revisions[item.mark], item.clock, item.mark))
    return known


def _constraints(kept: Mapping[Mark, Transaction], evidence: Evidence) -> dict[Mark, set[Mark]]:
    """For each transaction, those that must come before it."""
    owners = {file.path: mark for mark, item in kept.items() for file in item.files}
    before: dict[Mark, set[Mark]] = defaultdict(set)
    for mark, item in kept.items():
        if item.base_mark in kept:
            before[mark].add(item.base_mark)
        before[mark].update(owners[path] for path in item.replaces if path in owners)
        before[mark].discard(mark)
    for items in _known_by_epoch(kept, evidence).values():
        for first, second in pairwise(items):
            before[second.mark].add(first.mark)
    return before
