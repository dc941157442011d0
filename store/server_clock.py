"""The store's own clock, read off the answers that come anyway."""

from __future__ import annotations

import datetime as dt
import time

# BOOTTIME goes on while a laptop or a virtual machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ServerClock:
    """What the newest answer said, and when it came; safe to use from many threads."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        # One tuple, so that no thread sees half of it.
        self._seen: tuple[str | float, float] | None = None

    def saw(self, time_told: str | float | None) -> None:
        """Keep a time that the store told just now.

        Args:
            time_told: The `Date` header of an answer; or seconds since 1970; None: it told none.
        """
        if time_told is not None:
            self._seen = (time_told, time.clock_gettime(_STEADY))

    def now(self) -> dt.datetime | None:
        """What the store's clock shows now; None if nothing readable was told."""
        seen = self._seen
        if seen is None:
            return None
        told, seen_s = seen
        try:
            # Parsed here: thousands of answers come for one question.
            at = _parsed(told) if isinstance(told, str) else dt.datetime.fromtimestamp(told, dt.UTC)
        except ValueError:
            return None
        return at.astimezone(dt.UTC) + dt.timedelta(seconds=time.clock_gettime(_STEADY) - seen_s)


def _parsed(date: str) -> dt.datetime:
    from email.utils import parsedate_to_datetime  # it imports sockets and more: 30 ms

    return parsedate_to_datetime(date)


def in_utc(time: dt.datetime | None) -> dt.datetime | None:
    """A time that a listing told, in UTC; None: it told none."""
    return None if time is None else time.astimezone(dt.UTC)
