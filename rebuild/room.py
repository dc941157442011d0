"""Which revisions a log has lost, and which of them may still be somebody's. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from .evidence import Gap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


class Room:
    """Lost revisions that may still be somebody's.

    Args:
        lost: Ranges of them, ascending.
    """

    def __init__(self, lost: list[Gap]) -> None:
        self.lost = lost
        self._first = [gap.first for gap in lost]
        self._last = [gap.last for gap in lost]

    def places(self, span: Gap) -> tuple[int, int]:
        """The first and the last of the ranges that meet a span; the last is less if none does."""
        return bisect_left(self._last, span.first), bisect_right(self._first, span.last) - 1

    def within(self, span: Gap) -> Gap | None:
        """From the first of them in a span to the last; None if there is none."""
        first, last = self.places(span)
        if first > last:
            return None
        return Gap(max(self.lost[first].first, span.first), min(self.lost[last].last, span.last))

    def without(self, spans: Collection[Gap]) -> Room:
        """Less those that are somebody's for certain, each a span."""
        taken = sorted({span.first for span in spans if span.first == span.last})
        return Room([left for gap in self.lost for left in _parts(gap, taken)])

    def without_full(self, spans: Collection[Gap]) -> Room:
        """Less the ranges too that are full of such as can be nowhere else."""
        left = self.without(spans)
        filled: Counter[int] = Counter()
        for span in spans:
            first, last = left.places(span) if span.first < span.last else (0, -1)
            if first == last:
                filled[first] += 1
        sizes = (gap.last - gap.first + 1 for gap in left.lost)
        free = (place for place, size in enumerate(sizes) if filled[place] < size)
        return Room([left.lost[place] for place in free])


def _parts(gap: Gap, taken: Sequence[int]) -> Iterator[Gap]:
    """What is left of a range."""
    first = gap.first
    for one in taken[bisect_left(taken, gap.first) : bisect_right(taken, gap.last)]:
        if first < one:
            yield Gap(first, one - 1)
        first = one + 1
    if first <= gap.last:
        yield Gap(first, gap.last)
