"""Garbage collection: deletes data files that no revision names and no commit to come will name.

A committer puts a data file first and then the transaction that names it. Collection lists the data
files, then reads the log, then deletes; in the other order a file that was put and committed
between the two would look like an orphan. A listed file that the log doesn't name may still be
named by a transaction that is put later, so it goes only once it is `Margins.gc_grace_s` old by the
store's clock. A committer commits no file that is older than half of that, and a replication relies
on none; the other half is for the put. A file of unknown age, or from the future, is young.

Epochs prove more: no committer can name a file of an epoch that another owner has ended. But the
file may be all that is left of a commit that the log has lost, so it waits like all others.

A file is named as long as any stored object of the log or its mirror names it, removed later or
not (`retained`). A restore adds files again, whatever their age, and sees to it that a retained
revision names them at every moment until then. Execution does all of it again, deletes in batches,
and reads before each one what was committed since. Only a replication can name an orphan while it
is being deleted, if its source went back to it: that is looked for at the end, and raised.

Nothing is deleted in doubt: where the log is not there or is another's, was sealed for a rebuild,
has a fork, a hole or a damaged object, has lost its end, or was set back (`read.set_back`).

Source: docs/maintenance.md; docs/protocol.md, section 2.9.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ..catalog.format.names import base_folder, parse_own_file
from ..catalog.nesting import logs_below, refuse_outer_log
from ..catalog.read.set_back import lost_bases
from ..errors import ConflictError, LakelogError, LostTail, UsageError
from .context import (
    MaintenanceContext,
    is_old,
    open_context,
    open_execution,
    outdated,
    span_text,
)
from .plan import Deleted, Deletion, Facts, Kept, Plan, is_asked_for, is_own, own_name
from .retained import Retained, digests_of, follow, read_retained

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..catalog.ambient import Ambient
    from ..catalog.format.names import DataFile
    from ..catalog.log.history import Row
    from ..catalog.log.state import State
    from ..catalog.margins import Margins
    from ..plans import Place, Progress
    from ..store import ObjectInfo, Store
    from .plan import Report

_AT_ONCE: Final = 1_000
_DATA: Final = "data/"


def plan_gc(
    source: Place | Store,
    writer: str,
    database: str,
    *,
    strays: Iterable[str] = (),
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plans which data files of a writer and database are deleted: those that no revision names.

    Args:
        source: The catalog, or its store.
        strays: Patterns, as of `fnmatch`, of paths relative to `<writer>/<database>/`: files that
            lakelog didn't name are planned if one matches and they are as old as the grace period.
        ambient, margins: Those of the catalog if not given.
        progress: Called with (done, total, what).
    Returns:
        The plan, by key. What stays is in `kept`, with the names of young files and of strays.
    Raises:
        WriterNotFound: There is no such log, so nothing is known to be an orphan.
        LostTail: The mirror goes on above the head of the log, or data files were begun on a
            revision that it doesn't have.
        ForkError, MissingTransaction, CorruptError: A retained revision can't be read.
        ForeignLog, ConflictError: It is another log, or is sealed for a rebuild.
        NestedCatalog: Its data folder is that of another catalog, too.
        UnsupportedFeature: The catalog uses what this lakelog doesn't know.
        UsageError: A pattern is no text.
    Requests: 1 LIST of the data files (per 1,000 names on S3), and those of
        `retained.read_retained`; if something goes, those of `lost_bases`.
    """
    patterns = _checked(strays)
    context = open_context(
        source, writer, database, ambient=ambient, margins=margins, progress=progress
    )
    now = context.now()
    look = _look(context, now, patterns)
    state = look.retained.state
    orphans = look.orphans()
    return Plan(
        kind="gc",
        url=context.store.url,
        writer=writer,
        database=database,
        actions=orphans,
        kept=look.kept(),
        notes=(),
        facts=Facts(state.revision, state.digest.hex(), strays=patterns),
        made_at=now,
    )


def _checked(strays: Iterable[str]) -> tuple[str, ...]:
    patterns = (strays,) if isinstance(strays, str) else tuple(strays)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern.startswith(_DATA):
            raise UsageError(
                f"{pattern!r} is no pattern of strays",
                hint="Give one of paths as the plan names them: 'data/in/*.parquet'",
            )
    return patterns


def execute_gc(
    source: Place | Store,
    plan: Plan,
    *,
    ambient: Ambient | None = None,
    margins: Margins | None = None,
    progress: Progress | None = None,
) -> Report:
    """Deletes what the plan names and is still an orphan by a new look at everything.

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
        more at the end.
    """
    context = open_execution(
        source, plan, "gc", ambient=ambient, margins=margins, progress=progress
    )
    if not plan.actions:
        return Deleted().report(plan)
    look = _look(context, context.store_now(), plan.facts.strays)
    _check_facts(plan, look.retained)
    left: dict[str, str] = {}
    todo: list[Deletion] = []
    for action in plan.actions:
        why = look.why_left(action)
        if not why:
            todo.append(action)
        elif action.key in look.infos:
            left[action.key] = why
    deleted, late = _delete(context, todo, look.retained)
    left |= late
    gone = sum(action.key not in look.infos for action in plan.actions)
    return deleted.report(plan, gone, _grouped(left, look.infos))


_NAMED_NOW: Final = "named by a commit since the plan was made"


def _delete(
    context: MaintenanceContext, todo: list[Deletion], retained: Retained
) -> tuple[Deleted, dict[str, str]]:
    """Deletes in batches; returns what was deleted, and why each of the others was not, by key."""
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
        with suppress(LakelogError):  # a log that is damaged now is for the next collection to see
            recent = follow(context, recent)
        _refuse_named(gone, recent.references([key[cut:] for key in gone]))
    return deleted, late


def _refuse_named(keys: list[str], named: list[bool]) -> None:
    """Raises if a replication named a file while it was being deleted: nothing can prevent that."""
    lost = [key for key, is_named in zip(keys, named, strict=True) if is_named]
    if lost:
        more = f" and {len(lost) - 1:,} more" if len(lost) > 1 else ""
        raise ConflictError(
            f"{lost[0]}{more} was deleted while a replication named it again",
            key=lost[0],
            hint="Copy it from the source of the replication; `lakelog check` names what is not "
            "there. Don't let gc and a replication run at the same time here",
        )


# --- One look at the store ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the store and the log.

    Attributes:
        infos: All objects below data/, by key.
        retained: What the log names.
        named: Keys of objects that it names.
        verdicts: What happens to the others, by key.
    """

    infos: dict[str, ObjectInfo]
    retained: Retained
    named: set[str]
    verdicts: dict[str, Verdict]

    def orphans(self) -> tuple[Deletion, ...]:
        """Returns what may go, by key."""
        going = sorted(key for key, verdict in self.verdicts.items() if verdict.goes)
        return tuple(
            Deletion(key, self.infos[key].size_bytes, self.verdicts[key].why) for key in going
        )

    def kept(self) -> tuple[Kept, ...]:
        """Returns what stays."""
        reasons = {key: verdict.why for key, verdict in self.verdicts.items() if not verdict.goes}
        tracked = Kept.of(_NAMED, [self.infos[key] for key in self.named], named=False)
        return ((tracked,) if self.named else ()) + _grouped(reasons, self.infos)

    def why_left(self, action: Deletion) -> str:
        """Returns why a planned object is left alone after all; empty if it may go."""
        info = self.infos.get(action.key)
        if info is None:
            return "gone"
        if action.key in self.named:
            return _NAMED_NOW
        if info.size_bytes != action.size_bytes:
            return "not the object that was planned: its size is another one"
        verdict = self.verdicts[action.key]
        return "" if verdict.goes else verdict.why


_NAMED: Final = "named by a retained revision"


def _look(context: MaintenanceContext, now: dt.datetime, strays: tuple[str, ...]) -> _Look:
    base = base_folder(context.writer, context.database)
    refuse_outer_log(context.store, context.writer, context.database)
    infos = {info.key: info for info in context.store.list(base + _DATA)}  # first: see above
    context.tell(len(infos), len(infos), "data files listed")
    retained = read_retained(context)
    paths = [key[len(base) :] for key in infos]
    mask = retained.references(paths)
    named = {key for key, is_named in zip(infos, mask, strict=True) if is_named}
    left = [info for key, info in infos.items() if key not in named]
    state = retained.state
    assert state.log is not None
    ids = {name.transaction_id for info in left if (name := parse_own_file(info.key))}
    rules = Rules(
        epoch=state.epoch,
        first_epoch=state.first_epoch,
        begun_at=retained.begun_at,
        incarnation=state.log.incarnation,
        now=now,
        margins=context.margins,
        committed=state.history.of_transactions(ids) if ids else {},
        strays=strays,
        inner=logs_below(paths),
    )
    verdicts = {info.key: rules.judge(info, info.key[len(base) :]) for info in left}
    unknown = [info for info in left if rules.is_unknown(info.key[len(base) :])]
    going = [info for info in unknown if verdicts[info.key].goes]
    staying = [info for info in unknown if not verdicts[info.key].goes]
    if any(verdict.goes for verdict in verdicts.values()):
        _refuse_set_back(context, state, going, staying)
    return _Look(infos, retained, named, verdicts)


def _refuse_set_back(
    context: MaintenanceContext,
    state: State,
    going: Sequence[ObjectInfo],
    staying: Sequence[ObjectInfo],
) -> None:
    for one in lost_bases(context.store, state, going, staying):
        raise LostTail(
            f"The log of {state.writer}/{state.database}, whose newest revision is "
            f"{state.revision}, was set back, or is not the log of these files: {one.key} was "
            f"begun {one.begun}",
            key=one.key,
            hint="Nothing was deleted. Restore the log and its mirror as they were, or plan "
            f"`lakelog rebuild URL {state.database} --writer {state.writer}`: its plan shows what "
            "the data files hold. If the files came from elsewhere and are not needed, move them "
            "away",
        )


def _check_facts(plan: Plan, retained: Retained) -> None:
    facts, state = plan.facts, retained.state
    if state.revision < facts.head:
        raise outdated(plan, f"the log ended at revision {facts.head}, now at {state.revision}")
    if digests_of(state).get(facts.head) != facts.head_digest:
        raise outdated(plan, f"revision {facts.head} was pruned, or is another transaction now")


def _grouped(left: dict[str, str], infos: dict[str, ObjectInfo]) -> tuple[Kept, ...]:
    groups: dict[str, list[ObjectInfo]] = {}
    for key, why in left.items():
        groups.setdefault(why, []).append(infos[key])
    return tuple(Kept.of(why, groups[why], named=True) for why in sorted(groups))


# --- Rules ----------------------------------------------------------------------------------------

_INNER: Final = "of a log that lies below this data folder: move that catalog elsewhere"
_STRAY: Final = "stray: not named by lakelog; `lakelog gc --strays PATTERN` plans it"
_OTHER_LOG: Final = (
    "of an epoch that this log has not reached: written for another log, or this log was lost and "
    "another one begun (then rebuild it)"
)


class Verdict(NamedTuple):
    """Whether a file is to be deleted, and why."""

    goes: bool
    why: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What becomes of the files that no revision names.

    Attributes:
        epoch: Of the head.
        first_epoch, incarnation: Of the log.
        begun_at: When the oldest object of the incarnation was put; None if that is unknown.
        now: The time to judge ages by.
        margins: With the grace period.
        committed: History rows of committed transactions, by id, as far as the history goes back.
        strays: Patterns of paths that go though lakelog didn't name them.
        inner: Folders of other logs below data/: nothing in them is this log's.
    """

    epoch: int
    first_epoch: int
    begun_at: dt.datetime | None
    incarnation: int
    now: dt.datetime
    margins: Margins
    committed: Mapping[bytes, Row]
    strays: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def judge(self, info: ObjectInfo, path: str) -> Verdict:
        """Decides about a file that no revision names; `path` begins with `data/`."""
        if path.startswith(self.inner):
            return Verdict(False, _INNER)
        name = own_name(path)
        if name is not None and name.epoch > self.epoch + 1:
            return Verdict(False, _OTHER_LOG)
        if not is_own(path) and not is_asked_for(path, self.strays):
            return Verdict(False, _STRAY)
        grace = span_text(self.margins.gc_grace_s)
        if name is not None and self._is_left_out(name):
            return Verdict(False, f"of before the rebuild, which is younger than {grace}")
        if not is_old(info, self.now, self.margins.gc_grace_s):
            young = f"young: written within the grace period of {grace}, or at an unknown time"
            return Verdict(False, young)
        if not is_own(path):
            return Verdict(True, f"asked for: a stray; written at least {grace} ago")
        return Verdict(True, f"{self._reason(name)}; written at least {grace} ago")

    def is_unknown(self, path: str) -> bool:
        """Checks whether a writer named a file and the history knows no transaction that wrote it
        in this incarnation. A process and its double may draw one id, and then own the log under
        different epochs."""
        name = own_name(path)
        if name is None or name.epoch < self.first_epoch or path.startswith(self.inner):
            return False
        row = self.committed.get(name.transaction_id)
        return row is None or row["epoch"] != name.epoch

    def _is_left_out(self, name: DataFile) -> bool:
        if self.incarnation == 1 or name.epoch >= self.first_epoch:
            return False
        limit = self.now - dt.timedelta(seconds=self.margins.gc_grace_s)
        return self.begun_at is None or self.begun_at > limit

    def _reason(self, name: DataFile | None) -> str:
        """Returns why an orphan may go: removed from its table, or never in it."""
        row = None if name is None else self.committed.get(name.transaction_id)
        if row is not None:
            return f"removed: committed in revision {row['revision']}, named by no retained one"
        whose = "named by no retained revision" if name is None else "of no commit in the history"
        return f"left over: {whose}"
