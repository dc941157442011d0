"""Prune: removes the beginning of a log, up to a checkpoint that was read back whole.

What may go: with C the checkpoint that the log will begin with, every transaction and checkpoint of
a revision below C, all of lower incarnations, and segments that no checkpoint that stays refers to;
in the log and in its mirror. Transaction C itself stays: it proves what checkpoint C is.

Which C: the newest checkpoint that is not above the oldest revision to keep. A revision is kept if
the retention asks for it, or if it was the head at any time within the floor
(`Margins.prune_floor_s`): a reader that listed the log within the floor finds it there, and a
committer, which lists again once it has been idle for half the floor, asks for no name that was
taken and pruned since. This is why an execution judges ages by the store's clock.

A revision is also kept that a tag or published cut names, and all that follow it.

C must itself be older than the floor. A checkpoint under way may refer to segments of an older one
than C, and another prune may be deleting segments by what it saw before C was there; by then each
of them has finished, or has listed again and seen C. Segments that are younger than the floor stay,
and they are listed before the log: a checkpoint that comes in between refers to segments of C, or
to its own, which are young.

C must prove, when the plan is made and when it is executed, that it can be read whole, is the
checkpoint of its transaction, that all later transactions follow from it, and, if the older log can
still be read, that replaying that gives the same state.

The mirror is completed first, so that each copy alone holds every revision from C on. Then the log
is deleted, then the mirror: lower incarnations first, then ascending by revision, within one first
the transaction, then the checkpoint; segments last. Wherever it stops, a copy is the end of a log,
without a hole, no checkpoint lacks its segments, and the next prune takes what this one has left.

A lower incarnation goes whole, once nothing in it is younger than the floor or the days to keep.
Names of a higher incarnation than the one in use stay: a rebuild may be writing them. A log that is
sealed for one, or that has lost its end, is left alone.

Source: docs/maintenance.md; docs/protocol.md, section 2.8.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.frame import HEADER_BYTES, FrameKind, decode_frame, log_id_in
from ..catalog.format.names import parse_log_object, parse_segment_name, segment_name
from ..catalog.format.objects import decode_checkpoint, decode_transaction
from ..catalog.log.checkpoint_files import decode_describing
from ..catalog.log.listing import read_listing
from ..catalog.log.merge import DESCRIBING
from ..catalog.read.mirror import with_copies
from ..catalog.read.statistics import all_differences
from ..catalog.refs.refs import mark_beginnings, pins_of
from ..errors import (
    CorruptError,
    CorruptObject,
    LostTail,
    ObjectNotFound,
    UnsupportedFeature,
    UsageError,
)
from .context import (
    EPOCH,
    MaintenanceContext,
    is_old,
    open_context,
    open_execution,
    outdated,
    span_text,
)
from .plan import Deleted, Deletion, Facts, Kept, Plan
from .retained import (
    SET_ASIDE,
    LogNames,
    check_names,
    check_no_gap,
    digests_of,
    read_base,
    read_checkpoint,
    refuse_untouchable,
    replay,
    with_listing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..catalog.ambient import Ambient
    from ..catalog.format.names import LogObject
    from ..catalog.format.pieces import Piece
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from ..catalog.margins import Margins
    from ..catalog.refs.refs import Pin
    from ..plans import Place, Progress
    from ..store import ObjectInfo, Store
    from .plan import Report

_AT_ONCE: Final = 100
_BODIES_AT_ONCE: Final = 8
_MAX_DAYS: Final = 365_000.0
_DAY_S: Final = 86_400.0
_ORDER: Final = {"transaction": 0, "checkpoint": 1}


def plan_prune(
    source: Place | Store,
    writer: str,
    database: str,
    *,
    keep_revisions: int | None = None,
    keep_days: float | None = None,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plans what may go from the beginning of a log.

    Args:
        source: The catalog, or its store.
        keep_revisions: So many of the newest revisions stay readable; at least 1.
        keep_days: Every point in time within the last so many days stays readable, by commit times.
            With both given, what either asks for stays.
        ambient, margins: Those of the catalog if not given.
        progress: Called with (done, total, what).
    Returns:
        The plan, in the order of deletion. Without actions it says in `notes` why, and what to do.
    Raises:
        UsageError: Neither retention is given, or one is out of range.
        WriterNotFound: There is no such log.
        LostTail: The mirror goes on above the head of the log.
        ForkError, MissingTransaction, CorruptError: What would survive is not in order.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
    Requests: 5 LIST; 1 GET for each entry of each tag or published cut, for each transaction, for
        each checkpoint that stays, and for each segment of the one that the log will begin with.
        keep_days also reads the newest state.
    """
    retention = Retention.checked(keep_revisions, keep_days)
    context = open_context(
        source, writer, database, ambient=ambient, margins=margins, progress=progress
    )
    return with_listing(context, lambda names: _plan(context, names, retention), segments=True)


def execute_prune(
    source: Place | Store,
    plan: Plan,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Report:
    """Checks a plan again, by the store's clock, completes the mirror, and deletes what the plan
    names, in its order.

    It may be repeated after a failure. What is no longer certain to be unneeded stays.

    Args:
        source: The catalog that the plan was made for, or its store.
        progress: Called with (done, total, what).
    Raises:
        PlanOutdated: The surviving checkpoint is gone, the log was replaced, or by the store's
            clock a revision is too young. Nothing was deleted.
        UsageError, InvalidPath: Not a plan for this.
        LostTail, ForkError, MissingTransaction, CorruptError: What would survive is not in order.
            Nothing was deleted.
        StorageError: Part was deleted; execute again.
    Requests: as `plan_prune`, then 1 PUT, 1 HEAD and 1 DELETE for the clock; 2 LIST, 1 GET for each
        entry of a name and 1 PUT for each incarnation, to mark what goes; 1 GET and 1 PUT for each
        object that the mirror lacks; 1 DELETE an object.
    """
    context = open_execution(
        source, plan, "prune", ambient=ambient, margins=margins, progress=progress
    )
    if not plan.actions:
        return Deleted().report(plan)
    now = context.store_now()
    fresh = with_listing(context, lambda names: _check(context, names, plan, now), segments=True)
    planned = {action.key for action in plan.actions}
    todo = _in_order(fresh, planned)
    marked_s = context.ambient.monotonic_s()
    begins: dict[int, int] = {}
    if todo:
        begins = _mark(context, plan, todo, now, fresh.names)
        complete_mirror(context, fresh.names, fresh.proof)
    deleted = Deleted()
    for low in range(0, len(todo), _AT_ONCE):
        batch = todo[low : low + _AT_ONCE]
        if 0 < context.margins.idle_limit_s < context.ambient.monotonic_s() - marked_s:
            raise outdated(plan, "it took longer than its marks count")
        deleted.add(batch, context.store.delete([action.key for action in batch]))
        context.tell(min(low + _AT_ONCE, len(todo)), len(todo), "objects deleted")
    if todo:  # of callers that died before they could do it
        context.refs.take_back_pruned(_needed(_pins(context, fresh.names, now), begins))
    listed = {
        info.key: info
        for copy in fresh.names.copies
        for info in (*copy.objects.values(), *copy.segments.values())
    }
    left = planned & listed.keys() - {action.key for action in todo}
    why = "needed, too young, or not before an object that came since the plan was made"
    kept = Kept.of(why, [listed[key] for key in left], named=True)
    return deleted.report(plan, len(planned - listed.keys()), (kept,) if left else ())


def _mark(
    context: MaintenanceContext,
    plan: Plan,
    todo: Sequence[Deletion],
    now: dt.datetime,
    names: LogNames,
) -> dict[int, int]:
    """Marks what goes, then refuses if a tag or published cut needs it: one that is made later sees
    the mark (`catalog.refs.refs`). Returns by incarnation the revision before which objects go."""
    going = [parse_log_object(action.key.rpartition("/")[2]) for action in todo]
    begins: dict[int, int] = {}
    for item in going:
        if item is not None:
            begins[item.incarnation] = max(begins.get(item.incarnation, 0), item.revision + 1)
    marks = mark_beginnings(context.refs, context.writer, context.database, begins, now)
    for pin in _needed(_pins(context, names, now), begins):
        context.store.delete(marks, ordered=False)
        raise outdated(plan, f"{_pin_text(pin)} needs revision {pin.position.revision}")
    return begins


def _pins(context: MaintenanceContext, names: LogNames, now: dt.datetime) -> list[Pin]:
    """Returns what tags and published cuts keep of a log, of what either copy can still give."""
    pins = pins_of(context.refs, context.writer, context.database, log_id_of(context, names), now)
    listing = names.listing
    copies = read_listing(listing.writer, listing.database, sorted(names.mirror.objects))
    first = min(
        one.first_readable() for one in (listing, with_copies(listing, copies)) if one.head >= 0
    )
    own = listing.incarnation
    return [pin for pin in pins if pin.incarnation != own or pin.position.revision >= first]


def _needed(pins: Iterable[Pin], begins: Mapping[int, int]) -> list[Pin]:
    """Returns the pins of what goes."""
    return [pin for pin in pins if pin.position.revision < begins.get(pin.incarnation, 0)]


def log_id_of(context: MaintenanceContext, names: LogNames) -> bytes:
    """Returns the id of a log, as the frame of its newest object says it.

    Raises:
        ObjectNotFound: It has gone since it was listed.
    Requests: 1 GET.
    """
    listing = names.listing
    newest = listing.names_at(listing.head)[-1]
    return log_id_in(context.store.get(listing.key(newest), start=0, end=HEADER_BYTES))


def _pin_text(pin: Pin) -> str:
    return f"@{pin.name}" if pin.is_newest else f"@{pin.name} (entry {pin.number}, replaced since)"


@dataclass(frozen=True, slots=True)
class _Fresh:
    names: LogNames
    proof: Proof
    actions: tuple[Deletion, ...]


def _in_order(fresh: _Fresh, planned: set[str]) -> list[Deletion]:
    """Returns, of what may go now, what was planned; nothing from the first object of the
    incarnation in use on that was not, as a checkpoint that came late: there must be no hole. A
    lower incarnation, which a plan may leave for its age, is no part of the log."""
    actions, incarnation = fresh.actions, fresh.names.listing.incarnation
    for place, action in enumerate(actions):
        if action.key not in planned:
            item = parse_log_object(action.key.rpartition("/")[2])
            if item is not None and item.incarnation == incarnation:
                actions = actions[:place]
                break
    return [action for action in actions if action.key in planned]


def _plan(context: MaintenanceContext, names: LogNames, retention: Retention) -> Plan:
    listing = names.listing
    check_names(names)
    now = context.now()
    pins = _pins(context, names, now)
    first, note = choose(context, names, retention, now, pins)
    notes = [note]
    if first is None:
        state, needed = context.log.load(listing=listing), None
        refuse_untouchable(state)
    else:
        proof = prove(context, names, first)
        state, needed = proof.state, proof.needed
        notes.append(proof.note)
    actions, kept = select(
        names,
        Limits(
            first, needed, now, context.margins.prune_floor_s, retention.days,
            frozenset(pin.incarnation for pin in pins),
        ),
    )  # fmt: skip
    checkpoint = "" if first is None else listing.key(first)
    return Plan(
        kind="prune",
        url=context.store.url,
        writer=context.writer,
        database=context.database,
        actions=actions,
        kept=kept,
        notes=tuple(filter(None, notes)),
        facts=Facts(listing.head, state.digest.hex(), checkpoint),
        made_at=now,
    )


def _check(context: MaintenanceContext, names: LogNames, plan: Plan, now: dt.datetime) -> _Fresh:
    """Returns what may go now, if the plan's facts still hold."""
    listing = names.listing
    check_names(names)
    first = parse_log_object(plan.facts.checkpoint.removeprefix(context.log.folder))
    assert first is not None  # `check_plan` saw to it
    if first.incarnation != listing.incarnation:
        raise outdated(plan, f"incarnation {listing.incarnation} of the log is in use by now")
    if first.name not in names.log.objects:
        raise outdated(plan, f"checkpoint {first.revision} is gone")
    if listing.head < plan.facts.head:
        raise outdated(plan, f"the log ended at revision {plan.facts.head}, now at {listing.head}")
    proof = prove(context, names, first)
    if proof.digests.get(plan.facts.head) != plan.facts.head_digest:
        raise outdated(plan, f"revision {plan.facts.head} is another transaction now")
    span = span_text(context.margins.prune_floor_s)
    ahead = "(is this machine's clock ahead?)"
    floor = floor_revision(names, now, context.margins)
    if floor < first.revision:
        why = f"revision {max(0, floor)} was still the newest one within the last {span}"
        raise outdated(plan, f"by the store's clock, {why} {ahead}")
    if not is_old(names.log.objects[first.name], now, context.margins.prune_floor_s):
        why = f"checkpoint {first.revision} was written within the last {span}"
        raise outdated(plan, f"by the store's clock, {why} {ahead}")
    pins = _pins(context, names, now)
    held = frozenset(pin.incarnation for pin in pins)
    limits = Limits(first, proof.needed, now, context.margins.prune_floor_s, None, held)
    actions, _ = select(names, limits)
    return _Fresh(names, proof, actions)


# --- Choice: which checkpoint the log will begin with ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Retention:
    """What the user wants to keep: so many revisions, and what was readable within so many days."""

    revisions: int | None
    days: float | None

    @classmethod
    def checked(cls, revisions: int | None, days: float | None) -> Retention:
        """Returns a retention of these two rules, once they are checked.

        Raises:
            UsageError: Neither is given, or one is out of range.
        """
        if revisions is None and days is None:
            raise UsageError(
                "No retention was given",
                hint="Give keep_revisions, keep_days, or both (then what either asks for stays)",
            )
        if revisions is not None and (type(revisions) is not int or revisions < 1):
            raise UsageError(f"keep_revisions is {revisions!r}", hint="Keep at least 1 revision")
        if days is not None and not (math.isfinite(days) and 0 <= days <= _MAX_DAYS):
            raise UsageError(f"keep_days is {days!r}", hint="Give a number of days, 0 or more")
        return cls(revisions, days)


def choose(
    context: MaintenanceContext,
    names: LogNames,
    retention: Retention,
    now: dt.datetime,
    pins: Sequence[Pin] = (),
) -> tuple[LogObject | None, str]:
    """Returns the newest old checkpoint that is not above the oldest revision to keep, or None; and
    why nothing, or no more, can go.

    Args:
        pins: What tags and published cuts keep.

    Raises:
        MissingTransaction: The log has a hole that no such checkpoint lies above.
        LakelogError: With `days`, the newest state can't be read.
    """
    listing = names.listing
    floor_s = context.margins.prune_floor_s
    wanted = listing.head
    if retention.revisions is not None:
        wanted = min(wanted, max(0, listing.head - retention.revisions + 1))
    if retention.days is not None:
        since = now - dt.timedelta(days=retention.days)
        wanted = min(wanted, _revision_at(context, listing, since))
    floor = floor_revision(names, now, context.margins)
    own = [pin for pin in pins if pin.incarnation == listing.incarnation]
    pin = min(own, key=lambda pin: pin.position.revision, default=None)
    held = listing.head if pin is None else pin.position.revision
    kept_by = _pin_text(pin) if pin is not None and held < min(wanted, floor) else ""
    wanted = min(wanted, held)
    keep_from = min(wanted, floor)
    lowest = listing.run_start(listing.head) - 1  # a rebuilt log begins with a checkpoint alone
    possible = [listing.checkpoints[c][0] for c in listing.checkpoints if lowest <= c <= keep_from]
    usable = [c for c in possible if is_old(names.log.objects[c.name], now, floor_s)]
    if not usable:
        check_no_gap(listing)
    first = max(usable) if usable else None
    note = _note(listing, first, wanted, floor, context.margins, kept_by=kept_by)
    if len(usable) < len(possible):
        note += (
            f"{'. ' if note else ''}The checkpoint of revision {max(possible).revision} is too "
            f"young to be the first: it must be {span_text(floor_s)} old"
        )
    return first, note


def _note(
    listing: Listing,
    first: LogObject | None,
    wanted: int,
    floor: int,
    margins: Margins,
    *,
    kept_by: str,
) -> str:
    oldest = listing.oldest_readable()
    keep_from = min(wanted, floor)
    why = f"Revision {keep_from} and later ones are to be kept"
    if kept_by:
        why = f"{kept_by} needs revision {keep_from}, so it and later ones are kept"
    if floor < wanted:
        why = (
            f"What was the newest revision within the last {span_text(margins.prune_floor_s)} by "
            f"the store's clock stays whatever is asked for: {max(0, keep_from)} and later ones"
        )
    if keep_from <= oldest:
        return f"{why}, and the log begins with revision {oldest}"
    begins = oldest if first is None else first.revision
    if begins == keep_from:
        return why if floor < wanted or kept_by else ""
    return (
        f"{why}, but there is no checkpoint between revisions {begins + 1} and {keep_from}, so all"
        f" after {begins} is needed to read {keep_from}. `lakelog checkpoint --execute` writes one "
        "at the newest one; what lies before it can go once that revision is the oldest to keep"
    )


def _revision_at(context: MaintenanceContext, listing: Listing, at: dt.datetime) -> int:
    """Returns the newest revision at a time; 0 if the history doesn't go back so far."""
    state = context.log.load(listing=listing)
    return state.history.revision_at((at - EPOCH) // dt.timedelta(microseconds=1)) or 0


def floor_revision(names: LogNames, now: dt.datetime, margins: Margins) -> int:
    """Returns the revision that was the head when the floor began: no higher one may go, nor this
    one. It is the one before the first transaction that is young, or of unknown age."""
    listing = names.listing
    for revision in range(listing.run_start(listing.head), listing.head + 1):
        for item in listing.transactions.get(revision, ()):
            if not is_old(names.log.objects[item.name], now, margins.prune_floor_s):
                return revision - 1
    return listing.head


# --- Selection: what goes, what stays, and why ----------------------------------------------------

_RETAINED: Final = "retained: of a revision that is to be read, or of a later one"
_UNKNOWN: Final = "unknown name: not made by lakelog"
_NEEDED: Final = "segment that a retained checkpoint refers to"
_UNREADABLE: Final = "segment that a checkpoint may refer to that can't be read"
_YOUNG: Final = "younger than the prune floor: a checkpoint may be under way"
_BEHIND: Final = "not before an object that is younger than the prune floor, and stays"
_OLD_INCARNATION: Final = "of an earlier incarnation, which was in use until a short time ago"
_HELD: Final = "of an earlier incarnation, which a tag or published cut needs"
_UNFINISHED: Final = "of an incarnation without its checkpoint: a rebuild may be under way"


@dataclass(frozen=True, slots=True)
class Limits:
    """What decides whether an object may go.

    Attributes:
        first: The checkpoint that the log will begin with; None: everything stays.
        needed: Names of the segments that checkpoints that stay refer to; None: nobody knows.
        now: The time to judge ages by.
        floor_s: The prune floor.
        keep_days: A lower incarnation stays so long after it was last written to.
        held: Incarnations that tags or published cuts are of.
    """

    first: LogObject | None
    needed: set[str] | None
    now: dt.datetime
    floor_s: float
    keep_days: float | None = None
    held: frozenset[int] = frozenset()

    def is_young(self, info: ObjectInfo, keep_days: float | None = None) -> bool:
        """Checks whether an object is younger than the prune floor, or than some days."""
        return not is_old(info, self.now, max(self.floor_s, (keep_days or 0.0) * _DAY_S))


def select(names: LogNames, limits: Limits) -> tuple[tuple[Deletion, ...], tuple[Kept, ...]]:
    """Sorts the objects of both copies into those that go, in the order of deletion, and those that
    stay. The ages of log objects are those in the log: a copy may be put late."""
    items = {
        name: (item, info)
        for copy in reversed(names.copies)
        for name, info in copy.objects.items()
        if (item := parse_log_object(name)) is not None
    }
    # With a part of an incarnation hardly any of its revisions can be read: it stays whole.
    days = limits.keep_days
    young = {item.incarnation for item, info in items.values() if limits.is_young(info, days)}
    wall = _wall(items.values(), limits)
    actions: list[Deletion] = []
    groups: dict[str, list[ObjectInfo]] = {}
    for copy in names.copies:
        going: list[LogObject] = []
        for name, info in copy.objects.items():
            item = items[name][0] if name in items else None
            why = _UNKNOWN if item is None else _why_kept(item, limits, young, wall)
            if item is None or why:
                groups.setdefault(why, []).append(info)
            else:
                going.append(item)
        going.sort(key=lambda i: (i.incarnation, i.revision, _ORDER[i.kind], i.uuid8))
        actions += [_deletion(item, copy.objects[item.name], limits) for item in going]
        for name, info in copy.segments.items():
            why = _why_segment_kept(name, info, limits) or ("" if wall is None else _BEHIND)
            if why:
                groups.setdefault(why, []).append(info)
            else:
                reason = "no checkpoint that stays needs it"
                actions.append(Deletion(info.key, info.size_bytes, reason))
    kept = [Kept.of(why, groups[why], named=why != _RETAINED) for why in sorted(groups)]
    return tuple(actions), tuple(kept)


def _wall(items: Iterable[tuple[LogObject, ObjectInfo]], limits: Limits) -> int | None:
    """Returns the lowest revision below the first one that an object is too young to go of, as a
    checkpoint that came late: what is not before it stays, for a log must have no hole."""
    first = limits.first
    if first is None:
        return None
    young = [item for item, info in items if limits.is_young(info)]
    own = [item.revision for item in young if item.incarnation == first.incarnation]
    return min((revision for revision in own if revision < first.revision), default=None)


def _why_kept(item: LogObject, limits: Limits, young: set[int], wall: int | None) -> str:
    """Returns why a log object stays; empty if it goes."""
    first = limits.first
    if first is None:
        return _RETAINED
    if item.incarnation > first.incarnation:
        return _UNFINISHED
    if item.incarnation < first.incarnation:
        if item.incarnation in limits.held:
            return _HELD
        return _OLD_INCARNATION if item.incarnation in young else ""
    if item.revision >= first.revision:
        return _RETAINED
    return _BEHIND if wall is not None and item.revision >= wall else ""


def _why_segment_kept(name: str, info: ObjectInfo, limits: Limits) -> str:
    """Returns why a segment stays; empty if it goes."""
    if parse_segment_name(name) is None:
        return _UNKNOWN
    if limits.first is None:
        return _RETAINED
    if limits.needed is None:
        return _UNREADABLE
    if name in limits.needed:
        return _NEEDED
    return _YOUNG if limits.is_young(info) else ""


def _deletion(item: LogObject, info: ObjectInfo, limits: Limits) -> Deletion:
    first = limits.first
    assert first is not None
    if item.incarnation < first.incarnation:
        reason = f"is of incarnation {item.incarnation}, which a rebuild has replaced"
    else:
        reason = f"lies before revision {first.revision}, with whose checkpoint the log will begin"
    return Deletion(info.key, info.size_bytes, reason)


# --- Verification: whether the log can begin with a checkpoint ------------------------------------


@dataclass(frozen=True, slots=True)
class Proof:
    """A checkpoint that a log can begin with.

    Attributes:
        first: The checkpoint.
        pieces: Of the checkpoint, those that are objects.
        state: At the head.
        digests: Hex digests of the transactions, by revision, as far as the history goes back.
        needed: Names of all segments that checkpoints that stay refer to; None if one that may stay
            can't be read.
        note: What could not be compared, or empty.
    """

    first: LogObject
    pieces: tuple[Piece, ...]
    state: State
    digests: dict[int, str]
    needed: set[str] | None
    note: str


def prove(context: MaintenanceContext, names: LogNames, first: LogObject) -> Proof:
    """Checks that all from a checkpoint on can be read without anything before it.

    Args:
        first: The checkpoint.
    Raises:
        ForkError, MissingTransaction, CorruptError: It can't be, or is not the same.
        ObjectNotFound: Something vanished since the listing.
    Requests: 1 GET for each listed transaction from the beginning of the log, 2 for the checkpoint,
        1 for each of its segments and for each later checkpoint.
    """
    listing = names.listing
    state = read_base(context, listing, first)
    pieces = _pieces(state)
    notes = [_unusable_statistics(state), _compare_with_log(context, listing, first, state)]
    replay(context, listing, state, listing.head)
    refuse_untouchable(state)
    digests = digests_of(state)
    needed: set[str] = set()
    for revision in sorted(c for c in listing.checkpoints if c >= first.revision):
        needed |= _check_checkpoint(context, names, listing.checkpoints[revision][0], digests)
    known = True
    try:
        for copy in names.copies:
            for name in copy.objects:
                item = parse_log_object(name)
                if item and item.incarnation != listing.incarnation and item.kind == "checkpoint":
                    needed |= {
                        piece.name
                        for piece in _pieces(read_checkpoint(context, copy.log_folder + name))
                    }
    except CorruptError as error:
        known = False
        notes.append(f"No segment goes, since one may be needed: {error.message}")
    note = ". ".join(filter(None, notes))
    return Proof(first, pieces, state, digests, needed if known else None, note)


def _unusable_statistics(state: State) -> str:
    """Reads back what describes files, too: `read_base` has read all else. What of it can't be used
    is reported and stops nothing: it costs skipping and never rows."""
    pieces = [piece for piece in state.pieces if piece.kind in DESCRIBING]
    lows = range(0, len(pieces), _BODIES_AT_ONCE)
    bad = [piece for low in lows for piece in _unusable(state, pieces[low : low + _BODIES_AT_ONCE])]
    if not bad:
        return ""
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    return f"Statistics can't be used: {bad[0].where}{more}. No row is lost, but queries skip less"


def _unusable(state: State, pieces: Sequence[Piece]) -> list[Piece]:
    try:
        for piece, data in zip(pieces, state.bytes_of(pieces), strict=True):
            decode_describing(data, piece)
    except CorruptError:
        if len(pieces) == 1:
            return [*pieces]
        return [bad for piece in pieces for bad in _unusable(state, [piece])]
    return []


def _compare_with_log(
    context: MaintenanceContext, listing: Listing, first: LogObject, state: State
) -> str:
    """Replays what lies before the checkpoint and compares; returns what prevented it, if
    anything."""
    goal = first.revision
    start = listing.run_start(goal)
    bases = [c for c in listing.checkpoints if start - 1 <= c < goal]
    if start > 0 and not bases:
        # A log that begins here has nothing to compare with; leftovers of a prune are no log.
        return ""
    base = None if start == 0 else listing.checkpoints[min(bases)][0]
    try:
        replayed = replay(context, listing, read_base(context, listing, base), goal)
    except UnsupportedFeature:
        raise
    except CorruptError as error:
        return (
            f"The log before revision {goal} is damaged ({error.message}), so its checkpoint could "
            "not be compared with it. `lakelog check` names what is damaged there"
        )
    different = all_differences(replayed, state)
    if different:
        raise CorruptObject(
            f"The checkpoint of revision {goal} doesn't hold what the log before it says: "
            f"{', '.join(different)}",
            key=listing.key(first),
            hint=f"Nothing was deleted. {SET_ASIDE}",
        )
    return ""


def _check_checkpoint(
    context: MaintenanceContext, names: LogNames, item: LogObject, digests: dict[int, str]
) -> set[str]:
    """Returns the names of the segments that a retained checkpoint refers to; all of them must be
    there, and it must be that of its transaction."""
    key = names.listing.key(item)
    state = read_checkpoint(context, key)
    pieces = _pieces(state)
    costs_rows = {piece.name for piece in pieces if piece.kind not in DESCRIBING}
    lost = sorted(costs_rows - names.log.segments.keys())
    problem = f"refers to {lost[0]}, which is not there" if lost else ""
    if state.digest.hex() != digests.get(item.revision):
        problem = "is not of the transaction that has its revision"
    if problem:
        hint = f"Nothing was deleted. {SET_ASIDE}"
        raise CorruptObject(f"{key} {problem}", key=key, hint=hint)
    return {piece.name for piece in pieces}


def _pieces(state: State) -> tuple[Piece, ...]:
    """Returns the parts of a checkpoint that are segment objects."""
    assert state.base is not None
    return tuple(piece for piece in (state.base.references, *state.pieces) if piece.name)


# --- The mirror -----------------------------------------------------------------------------------


def complete_mirror(context: MaintenanceContext, names: LogNames, proof: Proof) -> None:
    """Copies to the mirror what it lacks of the log from a checkpoint on: the checkpoint's
    segments, the checkpoint, and the transactions from its own up to the last but one.

    The copy of the head is its committer's. A copy of another size than the original is replaced,
    unless it is another transaction, of which it is the only copy.

    Raises:
        CorruptObject: An object of the log is damaged; the copy was not put.
        LostTail: The copy of a revision is another transaction.
    Requests: 1 GET and 1 PUT for each object that the mirror lacks; 1 GET more to replace a copy.
    """
    log, mirror, first = names.log, names.mirror, proof.first
    missing = [
        (log.segments_folder + name, mirror.segments_folder + name)
        for name in sorted({piece.name for piece in proof.pieces})
        if not _is_copied(log.segments.get(name), mirror.segments.get(name))
    ]
    revisions = range(first.revision, proof.state.revision)
    transactions = names.listing.transactions
    items = [first, *(transactions[r][0] for r in revisions if r in transactions)]
    missing += [
        (log.log_folder + item.name, mirror.log_folder + item.name)
        for item in items
        if not _is_copied(log.objects[item.name], mirror.objects.get(item.name))
    ]
    skippable = {log.segments_folder + p.name for p in proof.pieces if p.kind in DESCRIBING}
    for low in range(0, len(missing), _BODIES_AT_ONCE):
        pairs = missing[low : low + _BODIES_AT_ONCE]
        bodies = context.store.get_many([key for key, _ in pairs])
        for (key, copy), body in zip(pairs, bodies, strict=True):
            try:
                _check_body(key, body, proof.digests)
            except CorruptObject:
                if key in skippable:
                    continue  # statistics cost no rows; the plan has noted it
                raise
            assert body is not None
            if copy.rpartition("/")[2] in mirror.objects:
                _refuse_to_replace(context, copy, body)
            context.store.put(copy, body)  # whoever else puts it puts the same bytes


def _refuse_to_replace(context: MaintenanceContext, copy: str, body: bytes) -> None:
    """Refuses to put a transaction over another one."""
    if not copy.endswith(".transaction"):
        return
    try:
        other = decode_transaction(context.store.get(copy), copy)
    except (CorruptError, ObjectNotFound):
        return  # damaged, or gone since
    if other.digest != decode_transaction(body, copy).digest:
        raise LostTail(
            f"{copy} is the copy of another transaction than the log has under this name: the log "
            "had lost its end, and went on",
            key=copy,
            hint="Nothing was deleted. `lakelog check` shows both transactions",
        )


def _is_copied(info: ObjectInfo | None, copy: ObjectInfo | None) -> bool:
    return copy is not None and (info is None or copy.size_bytes == info.size_bytes)


def _check_body(key: str, body: bytes | None, digests: dict[int, str]) -> None:
    """Refuses to copy what is not the object that was verified."""
    name = key.rpartition("/")[2]
    item = parse_log_object(name)
    if body is None:
        same = False
    elif item is None:
        same = segment_name(decode_frame(body, FrameKind.SEGMENT, key).digest) == name
    elif item.kind == "checkpoint":
        same = decode_checkpoint(body, key).message.digest.hex() == digests[item.revision]
    else:
        same = decode_transaction(body, key).digest.hex() == digests.get(item.revision)
    if not same:
        raise CorruptObject(
            f"{key} is not what it was when the log was verified",
            key=key,
            hint="Nothing was deleted. Make a new plan; `lakelog check` shows more",
        )
