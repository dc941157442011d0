"""The safety margins of the whole system, in one place. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHECKPOINT_EVERY: Final = 16  # commits


@dataclass(frozen=True, slots=True)
class Margins:
    """How long things are left alone. All are judged by the store's clock or by a clock that never
    jumps.

    Attributes:
        prune_floor_s: Log objects younger than this are never pruned. It must be longer than any
            request can be under way, and than a reader needs from its listing to its last read.
        gc_grace_s: Files below `data/` younger than this are never deleted by gc.
        clock_ahead_s: A committer whose clock is further ahead of the store's is refused.
        lease_s: A job of maintenance that didn't renew its lease for so long is taken for dead.
    """

    prune_floor_s: float = 86_400.0
    gc_grace_s: float = 7 * 86_400.0
    clock_ahead_s: float = 300.0
    lease_s: float = 600.0

    @property
    def idle_limit_s(self) -> float:
        """A committer that has not seen the log for so long lists it again before and after it
        commits: a name that was pruned meanwhile could otherwise be created anew."""
        return self.prune_floor_s / 2

    @property
    def file_age_limit_s(self) -> float:
        """A file older than this is no longer committed: gc may be about to take it. No process
        may sleep for so long between two requests and then go on."""
        return self.gc_grace_s / 2

    @property
    def landing_limit_s(self) -> float:
        """A transaction that stands so long after it was begun is not acknowledged: gc may have
        decided before to take its files, and do so later. Short of the grace by what ages may err.
        """
        return self.gc_grace_s - self.prune_floor_s / 2


DEFAULT_MARGINS = Margins()
