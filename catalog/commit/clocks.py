"""What time it is, and how long ago something was, by all clocks that a committer can ask.

This process may stand still while the store and everybody else go on: paused, migrated, or set back
to a snapshot of its memory. Its own clocks need not show that; the store's answers do, since each
of them tells the time. So an age is asked for once more after an answer, before anything is
believed by it.

Source: docs/format.md, section 10; docs/protocol.md, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store import store_time
from ..log.build import Moment
from ..log.outcomes import clock_error

if TYPE_CHECKING:
    import datetime as dt

    from ...store import Store
    from ..ambient import Ambient
    from ..margins import Margins


class Clocks:
    """The clocks of one open writer. Safe to use from many threads.

    Attributes:
        margins: How old what may be.

    Args:
        prefix: Where the writer may write, with a `/` at the end.

    Requests: 1 PUT, 1 HEAD and 1 DELETE where the store's answers don't tell its time.
    """

    def __init__(self, store: Store, prefix: str, ambient: Ambient, margins: Margins) -> None:
        self._store = store
        self._prefix = prefix
        self._ambient = ambient
        self.margins = margins
        self._asked: tuple[float, float] | None = None  # the store's clock, the steady one
        if store.server_time() is None:
            self._ask()

    def now(self) -> Moment:
        """This moment. What it says of the store's clock is that of the newest answer, and what
        went by since on this machine: the store's clock shows that, or more."""
        steady_s = self._ambient.monotonic_s()
        told = self._store.server_time()
        store_s = None if told is None else told.timestamp()
        if store_s is None and self._asked is not None:
            store_s = self._asked[0] + steady_s - self._asked[1]
        return Moment(steady_s, self._ambient.now_us() / 1e6, store_s)

    def is_idle(self, since: Moment) -> bool:
        """Whether a view of the log is so old that names may have been pruned."""
        return since.age_s(self.now()) > self.margins.idle_limit_s

    def is_too_old(self, written: Moment) -> bool:
        """Whether a file of that age may no longer be committed; see `Margins.file_age_limit_s`."""
        return written.age_s(self.now()) > self.margins.file_age_limit_s

    def may_be_late(self, begun: Moment) -> bool:
        """Whether a transaction may have come so late that gc may be about to take its files; see
        `Margins.landing_limit_s`."""
        return begun.age_s(self.now()) > self.margins.landing_limit_s

    def was_late(self, begun: Moment, modified_at: dt.datetime | None) -> bool:
        """Whether a transaction that has that store time was so late."""
        if modified_at is None:
            return True
        return begun.age_s(self.written(modified_at)) > self.margins.landing_limit_s

    def written(self, modified_at: dt.datetime) -> Moment:
        """When a file of that store time was written; rather too early than too late."""
        now, modified_s = self.now(), modified_at.timestamp()
        known = [now.wall_s] if now.store_s is None else [now.wall_s, now.store_s]
        return now.before(max(0.0, max(known) - modified_s), store_s=modified_s)

    def refuse_ahead(self, writer: str) -> None:
        """Raises `ClockError` if the wall clock is far ahead of the store's.

        Requests: none; 1 PUT, 1 HEAD and 1 DELETE before it refuses, since this machine may have
            been suspended after the newest answer.
        """
        if self._ahead_s() > self.margins.clock_ahead_s:
            self._ask()
            now_s = self._ambient.now_us() / 1e6
            ahead_s = 0.0 if self._asked is None else now_s - self._asked[0]
            if ahead_s > self.margins.clock_ahead_s:
                raise clock_error(writer, ahead_s)

    def _ahead_s(self) -> float:
        now = self.now()
        return 0.0 if now.store_s is None else now.wall_s - now.store_s

    def _ask(self) -> None:
        """Ask the store for its time, by an object of our own."""
        steady_s = self._ambient.monotonic_s()
        told = store_time(self._store, self._prefix, lambda: self._ambient.new_id().hex())
        self._asked = None if told is None else (told.timestamp(), steady_s)
