"""A moment, as all clocks showed it that there are: no single one can be relied on. Pure.

The steady clock never jumps, but stands still while a virtual machine is paused; the wall clock is
set now and then; what is known of the store's clock is as old as its newest answer.

Source: docs/protocol.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was.

    Attributes:
        steady_s: Seconds on this process's clock that never jumps.
        wall_s: Seconds since 1970 on this machine's wall clock.
        store_s: Seconds since 1970 on the store's clock, or less; None if it has told no time.
    """

    steady_s: float
    wall_s: float
    store_s: float | None = None

    def age_s(self, now: Moment) -> float:
        """How long ago this was: as long as any of the clocks says."""
        age_s = max(now.steady_s - self.steady_s, now.wall_s - self.wall_s)
        if self.store_s is None or now.store_s is None:
            return age_s
        return max(age_s, now.store_s - self.store_s)

    def before(self, seconds: float, store_s: float | None = None) -> Moment:
        """The moment so many seconds before this one.

        Args:
            store_s: What the store's clock showed then, if that is known better.
        """
        if store_s is None and self.store_s is not None:
            store_s = self.store_s - seconds
        return Moment(self.steady_s - seconds, self.wall_s - seconds, store_s)

    def or_before(self, other: Moment) -> Moment:
        """The earlier of two moments, by each clock."""
        told = [one for one in (self.store_s, other.store_s) if one is not None]
        return Moment(
            min(self.steady_s, other.steady_s),
            min(self.wall_s, other.wall_s),
            min(told, default=None),
        )
