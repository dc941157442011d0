"""What goes once a log begins with a checkpoint, what stays, and why. Decides on names and times.

Source: docs/maintenance.md; docs/format.md, section 10.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import parse_log_object, parse_segment_name
from .context import is_old
from .plan import Deletion, Kept

if TYPE_CHECKING:
    import datetime as dt

    from ..catalog.format.names import LogObject
    from ..catalog.margins import Margins
    from ..store import ObjectInfo
    from .log_names import LogNames

_ORDER: Final = {"transaction": 0, "checkpoint": 1}
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes, in the order of deletion, and what stays."""

    actions: tuple[Deletion, ...]
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What decides whether an object may go.

    Attributes:
        first: The checkpoint that the log will begin with; None: everything stays.
        needed: Names of the segments that checkpoints that stay refer to; None: nobody knows.
        now: The time to judge ages by.
        margins: With the prune floor.
        keep_days: A lower incarnation stays so long after it was last written to.
    """

    first: LogObject | None
    needed: set[str] | None
    now: dt.datetime
    margins: Margins
    keep_days: float | None = None

    def is_past_floor(self, info: ObjectInfo) -> bool:
        """Whether an object is older than the prune floor."""
        return is_old(info, self.now, self.margins.prune_floor_s)

    def is_over(self, info: ObjectInfo) -> bool:
        """Whether an object of a lower incarnation need not be kept for its age."""
        kept_s = (self.keep_days or 0.0) * _DAY_S
        return self.is_past_floor(info) and is_old(info, self.now, kept_s)


def select(names: LogNames, limits: Limits) -> Selection:
    """Sort the objects of a log into those that go and those that stay."""
    young = _young_incarnations(names, limits)
    wall = _wall(names, limits)
    going: list[LogObject] = []
    groups: dict[str, list[ObjectInfo]] = {}
    for name, info in names.infos.items():
        item = parse_log_object(name)
        why = _UNKNOWN if item is None else _why_kept(item, info, limits, young)
        if item is not None and not why and _is_behind(item, wall, limits):
            why = _BEHIND
        if item is None or why:
            groups.setdefault(why, []).append(info)
        else:
            going.append(item)
    going.sort(key=lambda i: (i.incarnation, i.revision, _ORDER[i.kind], i.uuid8))
    actions = [_deletion(item, names.infos[item.name], limits) for item in going]
    for name, info in names.segments.items():
        why = _why_segment_kept(name, info, limits) or ("" if wall is None else _BEHIND)
        if why:
            groups.setdefault(why, []).append(info)
        else:
            actions.append(Deletion(info.key, info.size_bytes, "no checkpoint that stays needs it"))
    kept = [Kept.of(why, groups[why], named=why != _RETAINED) for why in sorted(groups)]
    return Selection(tuple(actions), tuple(kept))


_RETAINED: Final = "retained: of a revision that is to be read, or of a later one"
_UNKNOWN: Final = "unknown name: not made by lakelog"
_NEEDED: Final = "segment that a retained checkpoint refers to"
_UNTOLD: Final = "segment that a checkpoint may refer to that can't be read"
_YOUNG: Final = "younger than the prune floor: a checkpoint may be under way"
_BEHIND: Final = "not before an object that is younger than the prune floor, and stays"
_OLD_INCARNATION: Final = "of an earlier incarnation, which was in use until a short time ago"
_UNFINISHED: Final = "of an incarnation without its checkpoint: a rebuild may be under way"


def _young_incarnations(names: LogNames, limits: Limits) -> set[int]:
    """Incarnations with an object that is to be kept for its age: they stay whole, for with a part
    of one hardly any of its revisions can be read."""
    items = ((parse_log_object(name), info) for name, info in names.infos.items())
    return {item.incarnation for item, info in items if item and not limits.is_over(info)}


def _wall(names: LogNames, limits: Limits) -> int | None:
    """The lowest revision below the first one that an object is too young to go of, as a checkpoint
    that came late: what is not before it stays, for the log must have no hole."""
    first = limits.first
    if first is None:
        return None
    items = ((parse_log_object(name), info) for name, info in names.infos.items())
    return min(
        (
            item.revision
            for item, info in items
            if item is not None
            and item.incarnation == first.incarnation
            and item.revision < first.revision
            and not limits.is_past_floor(info)
        ),
        default=None,
    )


def _is_behind(item: LogObject, wall: int | None, limits: Limits) -> bool:
    assert limits.first is not None
    return (
        wall is not None and item.incarnation == limits.first.incarnation and item.revision >= wall
    )


def _why_kept(item: LogObject, info: ObjectInfo, limits: Limits, young: set[int]) -> str:
    """Why a log object stays; empty if it goes."""
    first = limits.first
    if first is None:
        return _RETAINED
    if item.incarnation > first.incarnation:
        return _UNFINISHED
    if item.incarnation < first.incarnation:
        return _OLD_INCARNATION if item.incarnation in young else ""
    if item.revision >= first.revision:
        return _RETAINED
    return "" if limits.is_past_floor(info) else _YOUNG


def _why_segment_kept(name: str, info: ObjectInfo, limits: Limits) -> str:
    """Why a segment stays; empty if it goes."""
    if parse_segment_name(name) is None:
        return _UNKNOWN
    if limits.first is None:
        return _RETAINED
    if limits.needed is None:
        return _UNTOLD
    if name in limits.needed:
        return _NEEDED
    return "" if limits.is_past_floor(info) else _YOUNG


def _deletion(item: LogObject, info: ObjectInfo, limits: Limits) -> Deletion:
    first = limits.first
    assert first is not None
    if item.incarnation < first.incarnation:
        reason = f"is of incarnation {item.incarnation}, which a rebuild has replaced"
    else:
        reason = f"lies before revision {first.revision}, with whose checkpoint the log will begin"
    return Deletion(info.key, info.size_bytes, reason)
