"""Between which revisions of a rebuilt log a transaction of an earlier life stood that it doesn't
hold any more: a rebuild does again what it finds in the order of the lives before, and what it
holds of them tells where the others were. Pure.

Numbers are those that footers of a life count itself. Where it had two histories they compare only
below the revision at which footers show that.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ..catalog.format.segments import MAX_NUMBER
from .evidence import Gap
from .known_log import same_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from .evidence import Evidence, FoundTransaction, TransactionId
    from .known_log import KnownLog
    from .values import FileName

_Key = tuple[int, int]  # of a life: its incarnation, and a number in it
_At = tuple[_Key, int]  # the same, and a revision of the log in use


class _Held(NamedTuple):
    """What a log holds of the lives of one log id.

    Attributes:
        below: Keys, ascending, and with each the highest revision of all up to it.
        above: Lower bounds of keys, ascending, and with each the lowest revision of all from it on.
    """

    below: tuple[list[_Key], list[int]]
    above: tuple[list[_Key], list[int]]

    def highest(self, key: _Key) -> int:
        """The highest revision of what stood at a key or below; -1 for none."""
        place = bisect_right(self.below[0], key)
        return self.below[1][place - 1] if place else -1

    def lowest(self, key: _Key) -> int:
        """The lowest revision of what surely stood above a key."""
        place = bisect_right(self.above[0], key)
        return self.above[1][place] if place < len(self.above[1]) else MAX_NUMBER


class Bounds:
    """Tells them.

    Args:
        evidence: As `prove_by_log` left it.
        known: What is left of the log in use.
    """

    def __init__(
        self,
        transactions: Mapping[TransactionId, FoundTransaction],
        evidence: Evidence,
        known: KnownLog,
    ) -> None:
        self._evidence = evidence
        self._known = known
        # What only the log tells of has the life of the log, whichever it was of.
        told = {one: item for one, item in transactions.items() if item.written}
        self._owners: dict[FileName, TransactionId] = {
            (file.table, file.path): one for one, item in told.items() for file in item.files
        }
        self._held = self._all_held(told)
        self._high = self._replaced(told)
        self._said: dict[TransactionId, set[int]] = defaultdict(set)
        self._top = MAX_NUMBER
        for item in told.values():
            # Who began in the log in use began above all that the rebuild had put there.
            if same_log(item, known.state):
                self._top = min(self._top, item.base_revision)
                for revision, one in _bases(item):
                    self._said[one].add(revision)

    def of_all(self, items: Collection[FoundTransaction]) -> dict[TransactionId, Gap]:
        """Of transactions that the log doesn't hold, the first and the last revision that each can
        have been; the last is below the first if nothing fits."""
        found = {item.transaction_id: self._of(item) for item in items}
        places = []
        for item in items:
            number = self._evidence.number(item)
            if number is not None:
                places.append((item.log_id, item.incarnation, number, item.transaction_id))
        # Where a number is higher no bound is lower.
        places.sort()
        first: dict[bytes, int] = defaultdict(int)
        for log_id, _, _, one in places:
            first[log_id] = max(first[log_id], found[one].first)
            found[one] = found[one]._replace(first=first[log_id])
        last: dict[bytes, int] = defaultdict(lambda: MAX_NUMBER)
        for log_id, _, _, one in reversed(places):
            last[log_id] = min(last[log_id], found[one].last)
            found[one] = found[one]._replace(last=last[log_id])
        return found

    def _of(self, item: FoundTransaction) -> Gap:
        known = self._known.committed
        stood = {one for _, one in _bases(item)}
        stood |= {
            self._owners[name] for name in item.replaces | item.touches if name in self._owners
        }
        low = max((known[one][0] for one in stood if one in known), default=-1)
        high = min(self._top, self._high.get(item.transaction_id, MAX_NUMBER))
        held = self._held.get(item.log_id)
        if held is not None:
            own = self._evidence.number(item)
            head = item.head_revision if own is None else own - 1
            low = max(low, held.highest((item.incarnation, head)))
            own = MAX_NUMBER if own is None else own
            high = min(high, held.lowest((item.incarnation, own)) - 1)
        said = self._said.get(item.transaction_id)
        if said is not None:
            low, high = max(low, min(said) - 1), min(high, max(said))
        return Gap(low + 1, high)

    def _all_held(self, told: Mapping[TransactionId, FoundTransaction]) -> dict[bytes, _Held]:
        below: dict[bytes, list[_At]] = defaultdict(list)
        above: dict[bytes, list[_At]] = defaultdict(list)
        for one, (revision, _) in self._known.committed.items():
            item = told.get(one)
            if item is None:
                continue
            number = self._evidence.number(item)
            most = MAX_NUMBER if number is None else number
            least = item.head_revision + 1 if number is None else number
            below[item.log_id].append(((item.incarnation, most), revision))
            above[item.log_id].append(((item.incarnation, least), revision))
        return {one: _Held(_up(below[one]), _down(above[one])) for one in below}

    def _replaced(self, told: Mapping[TransactionId, FoundTransaction]) -> dict[TransactionId, int]:
        """By transaction the last revision that can be its: what the log holds took out its files,
        or deleted rows of them, above it."""
        found: dict[TransactionId, int] = {}
        for one, (revision, _) in self._known.committed.items():
            item = told.get(one)
            for name in () if item is None else item.replaces | item.touches:
                owner = self._owners.get(name)
                if owner is not None:
                    found[owner] = min(revision - 1, found.get(owner, MAX_NUMBER))
        return found


def _bases(item: FoundTransaction) -> Iterator[tuple[int, TransactionId]]:
    """What a transaction was begun on, and what stood when it was written."""
    yield item.base_revision, item.base_transaction_id
    yield from (one.head for one in item.said)


def _up(places: list[_At]) -> tuple[list[_Key], list[int]]:
    places.sort()
    return [key for key, _ in places], [*accumulate((at for _, at in places), max)]


def _down(places: list[_At]) -> tuple[list[_Key], list[int]]:
    places.sort()
    lowest = [*accumulate((at for _, at in reversed(places)), min)]
    return [key for key, _ in places], lowest[::-1]
