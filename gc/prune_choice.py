"""Which checkpoint the log shall begin with, and what may then go. Decides on names and times.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import parse_log_object, parse_segment_name
from ..errors import UsageError
from .context import MaintenanceContext, is_old, span_text
from .log_names import LogNames, check_no_gap
from .plan import Deletion, Kept

if TYPE_CHECKING:
    from ..catalog.format.names import LogObject
    from ..catalog.log.listing import Listing
    from ..catalog.margins import Margins
    from ..store import ObjectInfo

_ORDER: Final = {"transaction": 0, "checkpoint": 1}
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


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes, in the order of deletion, and what stays."""

    actions: tuple[Deletion, ...]
    kept: tuple[Kept, ...]


def select(
    names: LogNames,
    first: LogObject | None,
    needed: set[str] | None,
    now: dt.datetime,
    margins: Margins,
    keep_days: float | None = None,
) -> Selection:
    """Sort the objects of a log into those that go and those that stay.

    Args:
        first: The checkpoint that the log will begin with; None: everything stays.
        needed: Names of the segments that checkpoints that stay refer to; None: nobody knows.
        keep_days: Lower incarnations stay so long after they were written.
    """
    going: list[LogObject] = []
    groups: dict[str, list[ObjectInfo]] = {}
    for name, info in names.infos.items():
        item = parse_log_object(name)
        why = _UNKNOWN if item is None else _why_kept(item, info, first, now, margins, keep_days)
        if item is None or why:
            groups.setdefault(why, []).append(info)
        else:
            going.append(item)
    going.sort(key=lambda i: (i.incarnation, i.revision, _ORDER[i.kind], i.uuid8))
    begin = 0 if first is None else first.revision
    actions = [_deletion(item, names.infos[item.name], first) for item in going]
    for name, info in names.segments.items():
        why = _why_segment_kept(name, info, first, needed, now, margins)
        if why:
            groups.setdefault(why, []).append(info)
        else:
            reason = f"no checkpoint from revision {begin} on refers to it"
            actions.append(Deletion(info.key, info.size_bytes, reason))
    kept = [Kept.of(why, groups[why], named=why != _RETAINED) for why in sorted(groups)]
    return Selection(tuple(actions), tuple(kept))


_RETAINED: Final = "retained: of a revision that is to be read, or of a later one"
_UNKNOWN: Final = "unknown name: not made by lakelog"
_NEEDED: Final = "segment that a retained checkpoint refers to"
_UNTOLD: Final = "segment that a checkpoint may refer to that can't be read"
_YOUNG: Final = "younger than the prune floor: a checkpoint may be under way"
_OLD_INCARNATION: Final = "of an earlier incarnation that is to be kept"
_UNFINISHED: Final = "of an incarnation without its checkpoint: a rebuild may be under way"


def _why_kept(
    item: LogObject,
    info: ObjectInfo,
    first: LogObject | None,
    now: dt.datetime,
    margins: Margins,
    keep_days: float | None,
) -> str:
    """Why a log object stays; empty if it goes."""
    if first is None:
        return _RETAINED
    if item.incarnation > first.incarnation:
        return _UNFINISHED
    if item.incarnation == first.incarnation and item.revision >= first.revision:
        return _RETAINED
    if not is_old(info, now, margins.prune_floor_s):
        return _YOUNG
    kept_s = (keep_days or 0.0) * 86_400
    if item.incarnation < first.incarnation and not is_old(info, now, kept_s):
        return _OLD_INCARNATION
    return ""


def _why_segment_kept(
    name: str,
    info: ObjectInfo,
    first: LogObject | None,
    needed: set[str] | None,
    now: dt.datetime,
    margins: Margins,
) -> str:
    """Why a segment stays; empty if it goes."""
    if parse_segment_name(name) is None:
        return _UNKNOWN
    if first is None:
        return _RETAINED
    if needed is None:
        return _UNTOLD
    if name in needed:
        return _NEEDED
    return "" if is_old(info, now, margins.prune_floor_s) else _YOUNG


def _deletion(item: LogObject, info: ObjectInfo, first: LogObject | None) -> Deletion:
    assert first is not None
    if item.incarnation < first.incarnation:
        reason = f"is of incarnation {item.incarnation}, which a rebuild has replaced"
    else:
        reason = f"lies before revision {first.revision}, with whose checkpoint the log will begin"
    return Deletion(info.key, info.size_bytes, reason)
