"""The context of a maintenance step: a store, one log, a clock, margins, and a progress callback.

A plan may judge ages by the planner's clock; an execution asks the store for its time, since a
clock that runs ahead makes young objects look old, and those a committer may be about to name.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import check_id
from ..catalog.read.log_reader import LogReader
from ..catalog.refs.refs import Refs
from ..errors import PlanOutdated
from ..plans import check_source, open_source
from ..store import store_time
from .plan import Plan, check_plan

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.margins import Margins
    from ..plans import Place, Progress
    from ..store import ObjectInfo, Store

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """One maintenance step on one writer's database."""

    store: Store
    log: LogReader
    ambient: Ambient
    margins: Margins
    progress: Progress | None

    @property
    def writer(self) -> str:
        """The writer of the log."""
        return self.log.writer

    @property
    def database(self) -> str:
        """The database of the log."""
        return self.log.database

    @property
    def where(self) -> str:
        """The writer and database, for messages."""
        return f"{self.log.writer}/{self.log.database}"

    @property
    def refs(self) -> Refs:
        """The tags and published cuts of the catalog."""
        return Refs(self.store, self.ambient, self.margins)

    def tell(self, done: int, total: int, what: str) -> None:
        """Reports progress."""
        if self.progress is not None:
            self.progress(done, total, what)

    def now(self) -> dt.datetime:
        """Returns the time by the ambient clock."""
        return EPOCH + dt.timedelta(microseconds=self.ambient.now_us())

    def store_now(self) -> dt.datetime:
        """Returns the time by the store's clock, or by the ambient one if that is behind it. For a
        store that gives no times it is 1970: everything is young.

        Requests: 1 PUT, 1 HEAD, 1 DELETE.
        """
        modified_at = store_time(self.store, f"{self.writer}/", lambda: self.ambient.new_id().hex())
        return EPOCH if modified_at is None else min(modified_at, self.now())


def open_context(
    source: Place | Store,
    writer: str,
    database: str,
    *,
    ambient: Ambient | None,
    margins: Margins | None,
    progress: Progress | None,
) -> MaintenanceContext:
    """Returns the context for planning a step.

    Raises:
        InvalidName: Not the id of a writer or a database.
    """
    check_id(writer, "writer")
    check_id(database, "database")
    place = open_source(source, ambient, margins)
    log = LogReader(place.store, writer, database, place.ambient)
    return MaintenanceContext(place.store, log, place.ambient, place.margins, progress)


def open_execution(
    source: Place | Store,
    plan: Plan,
    kind: str,
    *,
    ambient: Ambient | None,
    margins: Margins | None,
    progress: Progress | None,
) -> MaintenanceContext:
    """Returns the context for the execution of a plan.

    Raises:
        UsageError: A plan of another kind or of another store.
        InvalidPath: The plan names an object that no such plan may delete.
    """
    check_plan(plan)
    context = open_context(
        source, plan.writer, plan.database, ambient=ambient, margins=margins, progress=progress
    )
    check_source(plan, kind, context.store)
    return context


def is_old(info: ObjectInfo, now: dt.datetime, limit_s: float) -> bool:
    """Checks whether an object is known to be so old: not if its time is unknown or to come."""
    if info.modified_at is None:
        return False
    return (now - info.modified_at).total_seconds() >= max(0.0, limit_s)


def outdated(plan: Plan, why: str) -> PlanOutdated:
    """Returns the error for a plan whose facts no longer hold."""
    return PlanOutdated(
        f"The {plan.kind} plan of {plan.writer}/{plan.database} no longer holds: {why}",
        key=f"{plan.writer}/{plan.database}",
        hint="Nothing was deleted. Make a new plan",
    )


def span_text(seconds: float) -> str:
    """Returns a length of time as text."""
    for size_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= size_s:
            return f"{seconds / size_s:.1f} {unit}"
    return f"{seconds:.1f} seconds"
