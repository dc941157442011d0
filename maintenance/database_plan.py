"""Checkpoints, prune and gc over the logs of a database: a plan for each log, made and executed in
turn. What fails for one log keeps no other from its turn.

Source: docs/maintenance.md.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar

from ..catalog.commit.checkpointer import CheckpointInfo
from ..catalog.read.log_reader import LogReader
from ..errors import LakelogError, UsageError, WriterNotFound
from ..gc.collect import execute_gc, plan_gc
from ..gc.plan import Plan, Report
from ..gc.prune import execute_prune, plan_prune
from ..plans import Place, dump_plans, split_plans
from ..plans.contract import Effect, Field, Group, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..catalog.commit.writer import Writer
    from ..plans import Progress

Kind = Literal["checkpoint", "prune", "gc"]
LogReport = Report | CheckpointInfo
_T = TypeVar("_T")
_FIELDS: Final = (Field("revision"), Field("checkpoint", "after that of revision"))


class Lake(Place, Protocol):
    """What the steps need of a catalog."""

    def writers(self, database: str) -> list[str]:
        """Ids of the writers that have a log of a database."""

    def writer(self, writer_id: str, database: str) -> Writer:
        """A log opened for committing."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """Whether a log gets a checkpoint.

    Attributes:
        url, writer, database: Whose log, and where.
        made_at: When, UTC, by the planner's clock.
        revision: The newest one.
        checkpoint: Of the newest checkpoint; None: there is none.
        is_due: Whether one is written.
    """

    url: str
    writer: str
    database: str
    made_at: dt.datetime
    revision: int
    checkpoint: int | None
    is_due: bool
    kind: Literal["checkpoint"] = "checkpoint"
    notes: tuple[str, ...] = ()

    @property
    def effect(self) -> Effect:
        """A summary of what it writes; nobody knows the size before."""
        return Effect("write", "checkpoint", int(self.is_due), 0)

    def groups(self) -> tuple[Group, ...]:
        """Returns the checkpoint that is written, if it is."""
        row = {"revision": self.revision, "checkpoint": self.checkpoint}
        return (Group("actions", "", _FIELDS, (row,) * self.is_due),)

    def describe(self) -> str:
        """Returns the plan as text."""
        return as_text(self)


LogPlan = Plan | CheckpointPlan


@dataclass(frozen=True, slots=True)
class DatabasePlan:
    """What a step is going to do to the logs of a database, or has done.

    Attributes:
        kind: `checkpoint`, `prune` or `gc`.
        database: Its name.
        logs: A plan for each log.
        reports: What was done, for each log; empty before the plan is executed.
        catalog: Where it is executed.
    """

    kind: Kind
    database: str
    logs: tuple[LogPlan, ...]
    reports: tuple[LogReport, ...] = ()
    catalog: Lake | None = field(default=None, repr=False, compare=False)

    @property
    def objects(self) -> int:
        """How many objects it writes or deletes."""
        return sum(plan.effect.number for plan in self.logs)

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects that it deletes."""
        return sum(plan.effect.size_bytes for plan in self.logs)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.objects

    def describe(self) -> str:
        """Returns the plan as text: for each log a sentence, then a line for each object."""
        return "\n".join(plan.describe() for plan in self.logs)

    def to_json(self) -> str:
        """Returns a plan of prune or gc as JSON text, for `load_plan`.

        Raises:
            UsageError: It is one of checkpoints: there is nothing in it to save.
        """
        plans = [plan for plan in self.logs if isinstance(plan, Plan)]
        if len(plans) < len(self.logs):
            raise UsageError("A plan of checkpoints can't be saved", hint="Make it again")
        return dump_plans(plans)

    def execute(self, progress: Progress | None = None) -> DatabasePlan:
        """Does what the plan says, after all of it was checked again; returns it with the reports.

        Raises:
            PlanOutdated, and the like: The first error, after every log had its turn. It may be
                executed again.
        Requests: Those of the step for each log.
        """
        assert self.catalog is not None
        call = partial(execute_log, self.catalog, progress=progress)
        done, failed = each_log({plan.writer: partial(call, plan) for plan in self.logs})
        _raise_first(failed, done)
        return replace(self, reports=tuple(done.values()))


class Step(NamedTuple):
    """A step of maintenance and what it is given.

    Attributes:
        kind: `checkpoint`, `prune` or `gc`.
        options: `min_commits`; `keep_days` and `keep_revisions`; `strays`.
    """

    kind: Kind
    options: Mapping[str, Any]


def run_step(
    catalog: Lake,
    database: str,
    step: Step,
    *,
    writers: Sequence[str] | None,
    execute: bool,
    progress: Progress | None,
) -> DatabasePlan:
    """Plans a step for the logs of a database, one after the other, and executes each plan at once
    if asked to.

    Raises:
        LakelogError: The first error, after every log had its turn.
    """
    plans: list[LogPlan] = []

    def run(writer: str) -> LogReport | None:
        plan = plan_log(catalog, database, step, writer, progress=progress)
        plans.append(plan)
        return execute_log(catalog, plan, progress=progress) if execute else None

    names = catalog.writers(database) if writers is None else list(writers)
    done, failed = each_log({name: partial(run, name) for name in names})
    _raise_first(failed, done)
    reports = tuple(report for report in done.values() if report is not None)
    return DatabasePlan(step.kind, database, tuple(plans), reports, catalog)


def each_log(
    calls: Mapping[str, Callable[[], _T]],
) -> tuple[dict[str, _T], dict[str, LakelogError]]:
    """Calls a function for each log; returns the results and the errors, by writer."""
    done: dict[str, _T] = {}
    failed: dict[str, LakelogError] = {}
    for writer, call in calls.items():
        try:
            done[writer] = call()
        except LakelogError as error:
            failed[writer] = error
    return done, failed


def _raise_first(failed: Mapping[str, LakelogError], done: Iterable[str]) -> None:
    """Raises the first error. A note names all logs that failed, and those that didn't."""
    if not failed:
        return
    fine = ", ".join(done)
    error = next(iter(failed.values()))
    error.add_note(f"Failed for: {', '.join(failed)}. Done for: {fine or 'none'}")
    raise error


# --- One log --------------------------------------------------------------------------------------


def plan_log(
    catalog: Lake, database: str, step: Step, writer: str, *, progress: Progress | None = None
) -> LogPlan:
    """Plans a step for one log."""
    if step.kind == "checkpoint":
        return _plan_checkpoint(catalog, database, writer, **step.options)
    plan = plan_prune if step.kind == "prune" else plan_gc
    return plan(catalog, writer, database, progress=progress, **step.options)


def _plan_checkpoint(
    catalog: Lake, database: str, writer: str, *, min_commits: int
) -> CheckpointPlan:
    if isinstance(min_commits, bool) or not isinstance(min_commits, int) or min_commits < 1:
        raise UsageError(
            f"min_commits= is a whole number from 1 on, not {min_commits!r}", key="min_commits"
        )
    listing = LogReader(catalog.store, writer, database, catalog.ambient).names_for(mirror=False)
    if listing.head < 0:
        raise WriterNotFound(
            f"Writer {writer!r} has no log of database {database!r}",
            key=writer,
            hint="`lakelog log` lists the writers",
        )
    newest = max(listing.checkpoints, default=None)
    since = listing.head - (-1 if newest is None else newest)
    at = dt.datetime.fromtimestamp(catalog.ambient.now_us() / 1e6, dt.UTC)
    return CheckpointPlan(
        catalog.url, writer, database, at, listing.head, newest, since >= min_commits
    )


def execute_log(catalog: Lake, plan: LogPlan, *, progress: Progress | None = None) -> LogReport:
    """Executes the plan of one log."""
    if isinstance(plan, CheckpointPlan):
        return _write_checkpoint(catalog, plan)
    execute = execute_prune if plan.kind == "prune" else execute_gc
    return execute(catalog, plan, progress=progress)


def _write_checkpoint(catalog: Lake, plan: CheckpointPlan) -> CheckpointInfo:
    if not plan.is_due:
        log = LogReader(catalog.store, plan.writer, plan.database, catalog.ambient)
        names = log.names_for(mirror=False).checkpoints.get(
            -1 if plan.checkpoint is None else plan.checkpoint
        )
        key = log.folder + names[0].name if names else ""
        return CheckpointInfo(plan.revision, key, 0, 0, written=False)
    with catalog.writer(plan.writer, plan.database) as writer:
        info = writer.checkpoint()
    assert info is not None  # the log is not empty
    return info


def load_plan(catalog: Lake, text: str | bytes) -> DatabasePlan:
    """Returns a plan of prune or gc from `DatabasePlan.to_json`, to be executed in a catalog. It is
    checked: a saved plan is data of unknown origin.

    Raises:
        UsageError: Not a plan, one of another format, or of several steps or databases.
        InvalidPath: It names an object that no such plan may delete.
    """
    plans = tuple(Plan.from_json(part) for part in split_plans(text))
    kinds = {(plan.kind, plan.database) for plan in plans}
    if len(kinds) != 1:
        raise UsageError("The plans are of several steps or databases", hint="Load each alone")
    [(kind, database)] = kinds
    return DatabasePlan(kind, database, plans, (), catalog)
