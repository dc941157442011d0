"""Prune: take the beginning of a log away, down to a checkpoint that has been read back.

What may go: with C the checkpoint that the log will begin with, every transaction and checkpoint of
a revision below C, all of lower incarnations, and segments that no checkpoint that stays refers to.
Transaction C itself stays: it says what checkpoint C is.

Which C: the newest checkpoint that is not above the oldest revision to keep. A revision is kept if
retention asks for it, or if it was the head at any time within the floor (`Margins.prune_floor_s`):
- a reader that listed the log, or opened its newest snapshot, within the floor finds it there;
- a committer asks for the name after the head it has seen, and lists again once it has been idle
  for half the floor. So the name that it asks for was not taken and pruned since: put-if-absent
  means what it should. This is why an execution judges ages by the store's clock, not by ours.

What C must prove, when the plan is made and again when it is executed (`prune_verify`): it can be
read whole, it is the checkpoint of its transaction, all later transactions follow from it, and, as
far as the older log can still be read, replaying that gives the same state.

In which order: lower incarnations first, then ascending by revision, and within one first the
transaction, then the checkpoint; segments last. So wherever it stops, what is left is the end of a
log, without a hole, and no checkpoint is there without its segments. What an interrupted run
leaves, the next one takes.

C must itself be older than the floor. A checkpoint under way may refer to segments of an older
one than C, which its writer saw as the newest; and another prune may be deleting segments by what
it saw before C was there. By then each of them has finished, or has listed again and seen C. What
retained checkpoints refer to stays, and so does anything that is younger than the floor. Segments
are listed before the log: a checkpoint that comes in between names old ones that C names too, or
its own, which are young.

A lower incarnation goes whole, once nothing in it is younger than the floor or the days to keep. As
the seal of a rebuild is its last object, that is so long after the log was switched over; and C
being old tells the same where there is no seal. Names of a higher incarnation than the one in use
stay: a rebuild may be writing them. A log that is sealed for one is left alone altogether.

Source: docs/maintenance.md; docs/format.md, section 10.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import parse_log_object
from .context import MaintenanceContext, is_old, open_context, open_execution, outdated, span_text
from .deleted import Deleted
from .footers import refuse_to_forget
from .log_names import LogNames, check_names, with_listing
from .plan import Deletion, Facts, Kept, Plan
from .prune_choice import Retention, choose, floor_revision
from .prune_select import Limits, Selection, select
from .prune_verify import prove
from .retained import refuse_untouchable

if TYPE_CHECKING:
    import datetime as dt

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.margins import Margins
    from ..plans import Progress
    from ..store import Store
    from .plan import Report

_AT_ONCE: Final = 100


def plan_prune(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    keep_revisions: int | None = None,
    keep_days: float | None = None,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Plan:
    """What may go from the beginning of a log.

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
        ForkError, MissingTransaction, CorruptError: What would survive is not in order.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
        LostTail: Data files prove that the log was longer. Nothing else would, once the history of
            what is pruned is gone.
    Requests: 2 LIST; 1 GET for each transaction, for each checkpoint that stays, and for each
        segment of the one that the log will begin with; where segments may go, 1 GET for each
        revision that stays without a checkpoint. keep_days also reads the newest state. If there is
        something to delete, those of `footers.refuse_to_forget`.
    """
    context = open_context(
        source, writer, database, ambient=ambient, margins=margins, progress=progress
    )
    retention = Retention.checked(keep_revisions, keep_days)
    context.refuse_refs()
    return with_listing(context, lambda names: _plan(context, names, retention), segments=True)


def execute_prune(
    source: Catalog | Store,
    plan: Plan,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a plan again, by the store's clock, and delete what it says, in its order.

    It may be repeated after a failure. What is no longer certain to be unneeded stays.

    Args:
        source: The catalog that the plan was made for, or its store.
        progress: Called with (done, total, what).
    Raises:
        PlanOutdated: The surviving checkpoint is gone, the log was replaced, or by the store's
            clock a revision is too young. Nothing was deleted.
        UsageError, InvalidPath: Not a plan for this.
        ForkError, MissingTransaction, CorruptError: What would survive is not in order. Nothing was
            deleted.
        LostTail: As of `plan_prune`. Nothing was deleted.
        StorageError: Part was deleted; execute again.
    Requests: as `plan_prune`, then 1 PUT, 1 HEAD and 1 DELETE for the clock, 1 DELETE an object.
    """
    context = open_execution(
        source, plan, "prune", ambient=ambient, margins=margins, progress=progress
    )
    if not plan.actions:
        return Deleted().report(plan)
    context.refuse_refs()
    now = context.store_now()
    fresh = with_listing(context, lambda names: _check(context, names, plan, now), segments=True)
    planned = {action.key for action in plan.actions}
    todo = _in_order(context, fresh, planned)
    deleted = Deleted()
    for low in range(0, len(todo), _AT_ONCE):
        batch = todo[low : low + _AT_ONCE]
        deleted.add(batch, context.store.delete([action.key for action in batch]))
        context.tell(min(low + _AT_ONCE, len(todo)), len(todo), "objects deleted")
    objects = (*fresh.names.infos.values(), *fresh.names.segments.values())
    listed = {info.key: info for info in objects}
    left = planned & listed.keys() - {action.key for action in todo}
    why = "needed, too young, or not before an object that came since the plan was made"
    kept = Kept.of(why, [listed[key] for key in left], named=True)
    return deleted.report(plan, len(planned - listed.keys()), (kept,) if left else ())


def _in_order(context: MaintenanceContext, fresh: _Fresh, planned: set[str]) -> list[Deletion]:
    """Of what may go now what was planned: nothing from the first object of the log on that was
    not, as a checkpoint that came late, for the log must have no hole. A lower incarnation, which a
    plan may leave for its age, is no part of the log."""
    actions, folder = fresh.selection.actions, context.log.folder
    for place, action in enumerate(actions):
        if action.key not in planned and action.key.startswith(folder):
            item = parse_log_object(action.key.removeprefix(folder))
            if item is not None and item.incarnation == fresh.names.listing.incarnation:
                actions = actions[:place]
                break
    return [action for action in actions if action.key in planned]


def _plan(context: MaintenanceContext, names: LogNames, retention: Retention) -> Plan:
    listing = names.listing
    check_names(listing)
    now = context.now()
    choice = choose(context, names, retention, now)
    first = choice.first
    if first is None:
        state, needed, note = context.log.load(listing=listing), None, ""
        refuse_untouchable(state)
    else:
        proof = prove(context, names, first)
        state, needed, note = proof.state, proof.needed, proof.note
    selection = select(names, Limits(first, needed, now, context.margins, retention.days))
    if selection.actions:
        refuse_to_forget(context, state)
    facts = Facts(
        head=listing.head,
        head_digest=state.digest.hex(),
        epoch=state.epoch,
        oldest=listing.oldest_readable(),
        keep_from=choice.keep_from,
        checkpoint="" if first is None else listing.key(first),
    )
    return Plan(
        kind="prune",
        url=context.store.url,
        writer=context.writer,
        database=context.database,
        actions=selection.actions,
        kept=selection.kept,
        notes=tuple(text for text in (choice.note, note) if text),
        facts=facts,
        made_at=now,
    )


@dataclass(frozen=True, slots=True)
class _Fresh:
    names: LogNames
    selection: Selection


def _check(context: MaintenanceContext, names: LogNames, plan: Plan, now: dt.datetime) -> _Fresh:
    """What may go now, if the plan's facts still hold."""
    listing = names.listing
    check_names(listing)
    first = parse_log_object(plan.facts.checkpoint.removeprefix(context.log.folder))
    assert first is not None  # `check_plan` saw to it
    if first.incarnation != listing.incarnation:
        raise outdated(plan, f"incarnation {listing.incarnation} of the log is in use by now")
    if first.name not in names.infos or first.revision not in listing.transactions:
        raise outdated(plan, f"checkpoint {first.revision} or its transaction is gone")
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
    if not is_old(names.infos[first.name], now, context.margins.prune_floor_s):
        why = f"checkpoint {first.revision} was written within the last {span}"
        raise outdated(plan, f"by the store's clock, {why} {ahead}")
    refuse_to_forget(context, proof.state)
    return _Fresh(names, select(names, Limits(first, proof.needed, now, context.margins)))
