"""Which checkpoint the log shall begin with. Decides on names and times.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import UsageError
from .context import MaintenanceContext, is_old, span_text
from .log_names import LogNames, check_no_gap

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.margins import Margins

_MAX_DAYS: Final = 365_000.0


@dataclass(frozen=True, slots=True)
class Retention:
    """What the user wants to keep.

    Attributes:
        revisions: So many of the newest ones, or None.
        days: What was readable at any time within so many days, or None.
    """

    revisions: int | None
    days: float | None

    @classmethod
    def checked(cls, revisions: int | None, days: float | None) -> Retention:
        """A retention of these two rules, once they are checked.

        Raises:
            UsageError: Neither is given, or one is out of range.
        """
        if revisions is None and days is None:
            raise UsageError(
                "What shall be kept is not given",
                hint="Give keep_revisions, keep_days, or both (then what either asks for stays)",
            )
        if revisions is not None and (type(revisions) is not int or revisions < 1):
            raise UsageError(f"keep_revisions is {revisions!r}", hint="Keep at least 1 revision")
        if days is not None and not (math.isfinite(days) and 0 <= days <= _MAX_DAYS):
            raise UsageError(f"keep_days is {days!r}", hint="Give a number of days, 0 or more")
        return cls(revisions, days)


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer.

    Attributes:
        first: The checkpoint that the log will begin with; None if none helps.
        keep_from: The oldest revision that must stay readable.
        note: Why nothing, or no more, can go.
    """

    first: LogObject | None
    keep_from: int
    note: str


def choose(
    context: MaintenanceContext, names: LogNames, retention: Retention, now: dt.datetime
) -> Choice:
    """The newest old checkpoint that is not above the oldest revision to keep.

    Raises:
        MissingTransaction: The log has a hole that no such checkpoint lies above.
        LakelogError: With `days`, the newest state can't be read.
    """
    listing = names.listing
    wanted = listing.head
    if retention.revisions is not None:
        wanted = min(wanted, max(0, listing.head - retention.revisions + 1))
    if retention.days is not None:
        wanted = min(
            wanted, _revision_at(context, listing, now - dt.timedelta(days=retention.days))
        )
    floor = floor_revision(names, now, context.margins)
    keep_from = min(wanted, floor)
    lowest = listing.run_start(listing.head)
    found = [listing.checkpoints[c][0] for c in listing.checkpoints if lowest <= c <= keep_from]
    usable = [c for c in found if is_old(names.infos[c.name], now, context.margins.prune_floor_s)]
    if not usable:
        check_no_gap(listing)
    first = max(usable) if usable else None
    note = _note(listing, first, wanted, floor, context.margins)
    if len(usable) < len(found):
        note += (
            f"{'. ' if note else ''}The checkpoint of revision {max(found).revision} is too young"
        )
        note += f" to be the first: it must be {span_text(context.margins.prune_floor_s)} old"
    return Choice(first, keep_from, note)


def _note(
    listing: Listing, first: LogObject | None, wanted: int, floor: int, margins: Margins
) -> str:
    oldest = listing.oldest_readable()
    keep_from = min(wanted, floor)
    why = f"Revision {keep_from} and later ones are to be kept"
    if floor < wanted:
        why = (
            f"What was the newest revision within the last {span_text(margins.prune_floor_s)} by "
            f"the store's clock stays whatever is asked for: {max(0, keep_from)} and later ones"
        )
    if keep_from <= oldest:
        return f"{why}, and the log begins with revision {oldest}"
    begins = oldest if first is None else first.revision
    if begins == keep_from:
        return why if floor < wanted else ""
    return (
        f"{why}, but there is no checkpoint between revisions {begins + 1} and {keep_from}, so all"
        f" after {begins} is needed to read {keep_from}. `lakelog checkpoint` writes one at the "
        "newest revision; what lies before it can go once that revision is the oldest to keep"
    )


def _revision_at(context: MaintenanceContext, listing: Listing, at: dt.datetime) -> int:
    """The newest revision at a time; 0 if the history doesn't go back so far."""
    state = context.log.load(listing=listing)
    at_us = (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    return state.history.revision_at(at_us) or 0


def floor_revision(names: LogNames, now: dt.datetime, margins: Margins) -> int:
    """The revision that was the head when the floor began; no higher one may go, nor this one.

    That is the one before the first revision whose transaction is young (or of unknown age).
    """
    listing = names.listing
    for revision in range(listing.run_start(listing.head), listing.head + 1):
        for item in listing.transactions.get(revision, ()):
            if not is_old(names.infos[item.name], now, margins.prune_floor_s):
                return revision - 1
    return listing.head
