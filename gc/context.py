"""What every maintenance step works with: a store, one log, a clock, margins, and a progress sink.

Ages are judged by the store's own clock. A plan may still judge by the planner's; an execution asks
the store, since a clock that runs ahead makes young objects look old, and those are the ones that a
committer may be about to name.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.format.names import check_id
from ..catalog.read.log_reader import LogReader
from ..errors import AccessDenied, PlanOutdated
from ..plans import check_source, open_source, refuse_refs
from ..store import probe, store_time
from .plan import Plan, check_plan

if TYPE_CHECKING:
    from ..catalog.ambient import Ambient
    from ..catalog.catalog import Catalog
    from ..catalog.margins import Margins
    from ..plans import Progress
    from ..store import ObjectInfo, Store

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """One maintenance step on one writer's database.

    Attributes:
        store: Where it lies.
        log: For reading the log.
        ambient: Clock, identities, waiting.
        margins: How long things are left alone.
        progress: Told how far it is, or None.
    """

    store: Store
    log: LogReader
    ambient: Ambient
    margins: Margins
    progress: Progress | None

    @property
    def writer(self) -> str:
        """Whose log."""
        return self.log.writer

    @property
    def database(self) -> str:
        """Of which database."""
        return self.log.database

    @property
    def where(self) -> str:
        """Writer and database, for messages."""
        return f"{self.log.writer}/{self.log.database}"

    def tell(self, done: int, total: int, what: str) -> None:
        """Say how far it is."""
        if self.progress is not None:
            self.progress(done, total, what)

    def exclusive(self) -> bool:
        """Whether the store is known to have put-if-absent: False where the probe may not write.

        Requests: those of `store.probe`: none if this store object was probed before.
        """
        try:
            name = self.ambient.new_id().hex
            return probe(self.store, f"{self.writer}/", new_name=name).put_if_absent
        except AccessDenied:
            return False

    def refuse_refs(self) -> None:
        """Refuse if there are refs: they pin revisions, and this version can't read them.

        Raises:
            UnsupportedFeature: The catalog has some.
        Requests: 1 HEAD, 1 LIST.
        """
        refuse_refs(self.store)

    def now(self) -> dt.datetime:
        """The time by the ambient clock."""
        return EPOCH + dt.timedelta(microseconds=self.ambient.now_us())

    def store_now(self) -> dt.datetime:
        """The time by the store's clock, or by the ambient one if that is behind it.

        The store is asked by writing an object of the step's own and removing it again. A store
        that gives no times is taken to be in 1970, where everything is young.

        Requests: 1 PUT, 1 HEAD, 1 DELETE.
        """
        modified_at = store_time(self.store, f"{self.writer}/", lambda: self.ambient.new_id().hex())
        return EPOCH if modified_at is None else min(modified_at, self.now())


def open_context(
    source: Catalog | Store,
    writer: str,
    database: str,
    *,
    ambient: Ambient | None,
    margins: Margins | None,
    progress: Progress | None,
) -> MaintenanceContext:
    """What a step works with.

    Args:
        source: A catalog, whose ambient and margins are the defaults, or a store.
    Raises:
        InvalidName: Not the id of a writer or a database.
    """
    check_id(writer, "writer")
    check_id(database, "database")
    place = open_source(source, ambient, margins)
    log = LogReader(place.store, writer, database, place.ambient)
    return MaintenanceContext(place.store, log, place.ambient, place.margins, progress)


def open_execution(
    source: Catalog | Store,
    plan: Plan,
    kind: str,
    *,
    ambient: Ambient | None,
    margins: Margins | None,
    progress: Progress | None,
) -> MaintenanceContext:
    """What the execution of a plan works with.

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
    """Whether an object is known to be at least so old. Of unknown time or from the future: no."""
    if info.modified_at is None:
        return False
    return (now - info.modified_at).total_seconds() >= max(0.0, limit_s)


def outdated(plan: Plan, why: str) -> PlanOutdated:
    """The error for a plan whose facts no longer hold."""
    return PlanOutdated(
        f"The {plan.kind} plan of {plan.writer}/{plan.database} no longer holds: {why}",
        key=f"{plan.writer}/{plan.database}",
        hint="Nothing was deleted. Make a new plan",
    )


def span_text(seconds: float) -> str:
    """A length of time for people."""
    for size_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= size_s:
            return f"{seconds / size_s:.1f} {unit}"
    return f"{seconds:.1f} seconds"
