"""Garbage collection: delete data files that no retained revision names, nor a commit to come.

A committer first puts a data file, then the transaction that names it. Collection lists the data
files, then reads the log, then deletes. In this order, and here is why. A file that the listing
doesn't show is no candidate. One that it shows was put before the listing ended, and its
transaction comes

1. before the reading of the log began: the reading sees it, so the file is named and stays. This is
   what the order buys: with the log read first, a file that was put and committed between the two
   would look like an orphan.
2. after the reading began, or never. Nobody can know which, so the file goes only if "after" is
   impossible (rule A) or is promised not to happen (rule B).

Rule A, on stores with put-if-absent, for names made by lakelog: the epoch in the name is below that
of the head that was read, and the file was there before the first transaction of that epoch. Every
committer asks for the one name after the head it knows. If that head is older than ours, the name
is taken: it replays and sees the higher epoch, by which an owner is fenced for good and a guest's
files are void (`EpochChanged`). If it is our head or a later one, it knew the epoch before it
asked. (That a taken name might have been pruned meanwhile is what the prune floor rules out.) A
replication puts transactions of any epoch, and their files before them: but what is of a past one
only once that is past there, too (`replication.one_log`), so that such a file is younger than its
epoch's end. So no transaction that names the file can come any more: it is an orphan at once.

Rule B, for everything else (files of the live epoch or of one to come, those that came when their
epoch was past, foreign names, any name on a store without put-if-absent): the file is at least
`Margins.gc_grace_s` old by the store's clock. A file of unknown age, or from the future, is young.
The promise is the committer's: it doesn't commit a file, nor add one that it found, that is older
than half of that; the other half is for the put. Nor does a replication rely on such a file.

A file counts as named also where a later transaction removes it again: what counts is every path
that is live at the oldest readable revision or is added by any later one, since all of these can
still be read. While prune runs beside us the oldest one moves up: what was read may then hold more
than is needed, never less. While somebody commits, the reading may end before the newest
transaction: that is case 2.

Execution does all of it again, the listing, the reading and the rules, and keeps of the plan what
is an orphan still and was not changed: a plan may be days old. It deletes in batches, and before
each one reads what was committed since. What is committed between that look and the deletion is
case 2 again, whose rules don't depend on how long that takes. Only a replication can name an orphan
while a deletion of it is under way, if its source went back to it: that is looked for at the end,
and told.

Doubt is a refusal, and nothing is deleted: a log that is not there (it may be lost, and the data
files are what it is rebuilt from), one that says it is another's, or whose live files are not there
(it may be in the wrong place), a fork, a hole, a table whose files don't fit, an object that is
damaged or of the future, an object before the beginning that the listing of the log shows. What
comes after its end is read on, name by name.

No file of this log has an epoch above that of the head and 1: who opens a log takes the next one.
Such a name tells of another log, or of a lost one that a rebuild is still to find: it stays. So
does all that lies in the folder of another log below `data/`, whose gc is its own.

A restore adds files again, whatever their epoch and age, and sees to it that a retained revision
names them at every moment until then, perhaps by a commit that adds and removes them
(`commit.keeping`). A listing of ours that doesn't show the revision gone back to ended after that
commit, and the newest ones are read after it: case 1.

Rule C, before both: a file that may have been committed in a life of the log that nobody can read
any more is undecided, and stays unless it is asked for. These are names of epochs below that of
the incarnation's first revision; and what was not written since the incarnation began, if its name
isn't lakelog's, or its footer doesn't say that it was written for this log and incarnation. So what
a rebuild left out is never taken by itself, nor what lay here when a lost log was begun anew.

An object of actions is named by no revision, and tells a rebuild what a transaction did. It stays
while its transaction is that of a retained revision, and after that while it says what nothing else
below `data/` does (`actions`); else it is judged as a data file that no revision names. So does a
file whose footer says that others were taken out which are there still (`taken_out`), and one of
a transaction of which another attempt has left what stays (`attempts`).

The log itself may have lost its end, or be another's. Of the files that would go, and of others
that no revision names, what the transactions of the newest of each epoch wrote is read: one that
was begun on a revision that the log doesn't have, saw one, or took out what such a one had written
stops everything (`LostTail`).

All this holds for committers only. A rebuild writes a whole log, of files of any epoch and age: so
a log that is sealed for one is left alone. What lower incarnations name stays as long as they are
there; so does what a rebuild names that has not put its checkpoint yet.

Source: docs/maintenance.md; docs/format.md, section 10.5.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import base_folder, parse_own_file
from ..catalog.nesting import logs_below, refuse_outer_log
from ..errors import ConflictError, LakelogError
from .actions import keep_needed, of_retained
from .attempts import keep_beside_others
from .context import EPOCH, MaintenanceContext, open_context, open_execution, outdated
from .deleted import Deleted
from .footers import refuse_by_footers, strangers
from .foreign_log import refuse_foreign_log
from .plan import Deletion, Facts, Kept, Plan
from .retained import Retained, digests_of, follow, read_retained
from .rules import Rules, Verdict
from .superseded import superseded_at
from .taken_out import arrival_s, judge_by_tellers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.log.history import Row
    from ..catalog.margins import Margins
    from ..plans import Progress
    from ..store import ObjectInfo, Store
    from .plan import Report

_AT_ONCE: Final = 1_000
_DATA: Final = "data/"


def plan_gc(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    undecided: bool = False,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Which data files of a writer and database no retained revision names, and nobody will.

    Args:
        source: The catalog, or its store.
        undecided: Also delete what may have been committed in a life of the log that nobody can
            read any more, once it is as old as the grace period.
        ambient, margins: Those of the catalog if not given.
        progress: Called with (done, total, what).
    Returns:
        The plan, by key. What stays is in `kept`, with the names of young and unknown files.
    Raises:
        WriterNotFound: There is no such log, so nothing is known to be an orphan.
        ForkError, MissingTransaction, CorruptError: A retained revision can't be read.
        ForeignLog, ConflictError: See `retained.refuse_untouchable`.
        NestedCatalog: Its data folder is that of another catalog, too.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
        ObjectNotFound: Live files are not there: the log may be another's.
        LostTail: What would be deleted proves that the log was longer, or is another's.
    Requests: those of the probe unless the store was probed before; 1 LIST of refs, 1 of the data
        files and 1 of the log (each per 1,000 names on S3); 1 GET for the oldest checkpoint, its
        segments, each later transaction, and all of other incarnations; 1 HEAD of a transaction;
        for each of up to 96 transactions whose files may be orphans, but of those that go at least
        1 an epoch, 1 or 2 GET of a data file, and of up to 64 1 GET of an object of each of both
        kinds, where there is one; those of `actions.keep_needed` and `taken_out.judge_by_tellers`.
    """
    context = open_context(
        source, writer, database, ambient=ambient, margins=margins, progress=progress
    )
    context.refuse_refs()
    exclusive = context.exclusive()
    now = context.now()
    found = _look(context, exclusive, now, undecided=undecided)
    state = found.retained.state
    facts = Facts(
        head=state.revision,
        head_digest=state.digest.hex(),
        epoch=state.epoch,
        oldest=found.retained.oldest,
        exclusive=exclusive,
        undecided=undecided,
    )
    orphans = found.orphans()
    return Plan(
        kind="gc",
        url=context.store.url,
        writer=writer,
        database=database,
        actions=orphans,
        kept=found.kept(),
        notes=() if orphans else ("There is nothing to delete",),
        facts=facts,
        made_at=now,
    )


def execute_gc(
    source: Catalog | Store,
    plan: Plan,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Report:
    """Look at everything again, and delete what the plan names and is still an orphan.

    It may be repeated after a failure. What was named by a commit meanwhile, was changed, or is too
    young by the store's clock is left and reported.

    Args:
        source: The catalog that the plan was made for, or its store.
        progress: Called with (done, total, what).
    Raises:
        PlanOutdated: The log was replaced since. Nothing was deleted.
        UsageError, InvalidPath: Not a plan for this.
        ForkError, MissingTransaction, CorruptError: A retained revision can't be read; what was
            deleted before that came to light were orphans.
        LostTail: As of `plan_gc`. Nothing was deleted.
        StorageError: Part was deleted; execute again.
        ConflictError: A replication named a file while it was being deleted; says which.
    Requests: as `plan_gc`; 1 PUT, 1 HEAD and 1 DELETE for the clock; for each 1,000 files 1 LIST, 1
        GET a new transaction and 1 DELETE (1 DELETE a file where the store has no batches); 1 LIST
        and 1 GET more at the end.
    """
    context = open_execution(
        source, plan, "gc", ambient=ambient, margins=margins, progress=progress
    )
    if not plan.actions:
        return Deleted().report(plan)
    context.refuse_refs()
    exclusive = context.exclusive()
    now = context.store_now()
    found = _look(context, exclusive, now, undecided=plan.facts.undecided)
    _check_facts(plan, found.retained)
    left: dict[str, str] = {}
    todo: list[Deletion] = []
    for action in plan.actions:
        why = _left_why(action, found)
        if not why:
            todo.append(action)
        elif action.key in found.infos:
            left[action.key] = why
    todo.sort(key=lambda action: arrival_s(found.infos[action.key]))
    deleted, late = _delete(context, todo, found.retained)
    left |= late
    gone = sum(action.key not in found.infos for action in plan.actions)
    return deleted.report(plan, gone, _grouped(left, found.infos))


_NAMED_NOW: Final = "named by a commit since the plan was made"
_CHANGED: Final = "not the object that was planned: its size is another one"
_GONE: Final = "gone"


def _left_why(action: Deletion, found: _Found) -> str:
    """Why a planned object is left alone after all; empty if it may go."""
    info = found.infos.get(action.key)
    if info is None:
        return _GONE
    if action.key in found.named:
        return _NAMED_NOW
    if info.size_bytes != action.size_bytes:
        return _CHANGED
    verdict = found.verdicts[action.key]
    return "" if verdict.goes else verdict.why


def _delete(
    context: MaintenanceContext, todo: list[Deletion], retained: Retained
) -> tuple[Deleted, dict[str, str]]:
    """Delete in batches, what arrived first in the first ones: a file is older than those whose
    footers say that it was taken out. What was named by a commit just before its batch stays.

    Returns:
        What was deleted; and why each of the others was not, by key.
    """
    cut = len(base_folder(context.writer, context.database))
    deleted = Deleted()
    late: dict[str, str] = {}
    gone: list[str] = []
    recent = replace(retained, paths=[])  # what it names was looked at; only news count from here
    for low in range(0, len(todo), _AT_ONCE):
        batch = todo[low : low + _AT_ONCE]
        recent = follow(context, recent)
        named = recent.references([orphan.key[cut:] for orphan in batch])
        going = [orphan for orphan, is_named in zip(batch, named, strict=True) if not is_named]
        late |= {o.key: _NAMED_NOW for o, is_named in zip(batch, named, strict=True) if is_named}
        gone += [orphan.key for orphan in going]
        deleted.add(going, context.store.delete([o.key for o in going], ordered=False))
        context.tell(min(low + _AT_ONCE, len(todo)), len(todo), "objects deleted")
    if gone:
        with suppress(LakelogError):  # what is in the log's way now, the next collection tells
            recent = follow(context, recent)
        _tell_named(gone, recent.references([key[cut:] for key in gone]))
    return deleted, late


def _tell_named(keys: list[str], named: list[bool]) -> None:
    """A replication may name a file while a deletion of it is under way: nothing can hinder that.

    Raises:
        ConflictError: One did.
    """
    lost = [key for key, is_named in zip(keys, named, strict=True) if is_named]
    if lost:
        more = f" and {len(lost) - 1:,} more" if len(lost) > 1 else ""
        raise ConflictError(
            f"{lost[0]}{more} was deleted while a replication named it again",
            key=lost[0],
            hint="Copy it from the source of the replication; `lakelog doctor` names what is not "
            "there. Don't let gc and a replication run at the same time here",
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """One look at the store: what is there, what the log names, and what follows.

    Attributes:
        infos: All objects below data/, by key.
        retained: What the log names.
        named: Keys of objects that it names.
        verdicts: Of the others, by key: what becomes of them.
    """

    infos: dict[str, ObjectInfo]
    retained: Retained
    named: set[str]
    verdicts: dict[str, Verdict]

    def orphans(self) -> tuple[Deletion, ...]:
        """What may go, by key."""
        going = [self.infos[key] for key, verdict in self.verdicts.items() if verdict.goes]
        going.sort(key=lambda info: info.key)
        return tuple(Deletion(i.key, i.size_bytes, self.verdicts[i.key].why) for i in going)

    def kept(self) -> tuple[Kept, ...]:
        """What stays."""
        reasons = {key: verdict.why for key, verdict in self.verdicts.items() if not verdict.goes}
        tracked = Kept.of(_NAMED, [self.infos[key] for key in self.named], named=False)
        return ((tracked,) if self.named else ()) + _grouped(reasons, self.infos)


_NAMED: Final = "named by a retained revision"


def _look(
    context: MaintenanceContext, exclusive: bool, now: dt.datetime, *, undecided: bool
) -> _Found:
    base = base_folder(context.writer, context.database)
    refuse_outer_log(context.store, context.writer, context.database)
    listed = list(context.store.list(base + _DATA))  # first: see the argument above
    context.tell(len(listed), len(listed), "data files listed")
    retained = read_retained(context)
    paths = [info.key[len(base) :] for info in listed]
    refuse_foreign_log(context, retained.state, paths)
    mask = retained.references(paths)
    named = {info.key for info, is_named in zip(listed, mask, strict=True) if is_named}
    committed = _committed(retained, (info.key for info in listed if info.key not in named))
    named |= of_retained(listed, committed, retained.oldest)
    left = [info for info in listed if info.key not in named]
    state = retained.state
    assert state.log is not None
    rules = Rules(
        state.epoch,
        superseded_at(context, state),
        state.first_epoch,
        EPOCH + dt.timedelta(microseconds=state.begun_at_us),
        state.log.incarnation,
        exclusive,
        now,
        context.margins,
        committed,
        undecided,
        logs_below(paths),
    )
    rules = replace(rules, strangers=strangers(context, state, rules, left))
    verdicts = {info.key: rules.judge(info, info.key[len(base) :]) for info in left}
    verdicts = keep_beside_others(verdicts)
    verdicts = keep_needed(context, state, listed, verdicts)
    infos = {info.key: info for info in listed}
    verdicts = judge_by_tellers(context, state, rules, infos, verdicts)
    refuse_by_footers(context, state, rules, left, verdicts)
    return _Found(infos, retained, named, verdicts)


def _committed(retained: Retained, keys: Iterable[str]) -> dict[bytes, Row]:
    """History rows by transaction id, of the ids in the names of these objects."""
    names = (parse_own_file(key) for key in keys)
    wanted = {name.transaction_id for name in names if name is not None}
    return retained.state.history.of_transactions(wanted) if wanted else {}


def _check_facts(plan: Plan, retained: Retained) -> None:
    facts, state = plan.facts, retained.state
    if state.revision < facts.head or state.epoch < facts.epoch:
        raise outdated(plan, f"the log ended at revision {facts.head}, now at {state.revision}")
    if digests_of(state).get(facts.head) != facts.head_digest:
        raise outdated(plan, f"revision {facts.head} was pruned, or is another transaction now")


def _grouped(left: dict[str, str], infos: dict[str, ObjectInfo]) -> tuple[Kept, ...]:
    groups: dict[str, list[ObjectInfo]] = {}
    for key, why in left.items():
        groups.setdefault(why, []).append(infos[key])
    return tuple(Kept.of(why, groups[why], named=True) for why in sorted(groups))
