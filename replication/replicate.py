"""Replication of a catalog: what there is to do, then log by log up to one cut of the source.

Source: docs/replication.md.
"""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..catalog.catalog import Catalog, open_catalog
from ..catalog.format.cut import Cut
from ..catalog.format.cut import Position as CutPosition
from ..catalog.nesting import refuse_nested
from ..catalog.parallel import parallel
from ..catalog.read.log_reader import LogReader
from ..catalog.read.losses import LostLogWarning
from ..errors import (
    DatabaseNotFound,
    FencedError,
    LakelogError,
    ObjectNotFound,
    PlanOutdated,
    UsageError,
    WriterNotFound,
)
from ..store import probe
from .carried import Carrier
from .moved import Mover
from .one_log import Copied, OneLog
from .one_place import refuse_one_place
from .position import LogPlan, Position, find_position, plan_of
from .reports import LogReport, Report, Told
from .selected import Difference, Selected, open_selected
from .selection import refuse_name, selection_of
from .threads import Room, Stopped, together

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..catalog.log.state import State
    from ..catalog.parallel import Engine
    from .selection import Selection

LOGS_AT_ONCE: Final = 4
_TRIES: Final = 3


def replicate(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    databases: Collection[str] | None = None,
    writers: Collection[str] | None = None,
    tables: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    history: bool = True,
    engine: Engine | None = None,
    progress: Callable[[Told], None] | None = None,
    stop: threading.Event | None = None,
) -> Report:
    """Bring a replica up to the source's newest cut. What is there already isn't copied again.

    Args:
        source, destination: Catalogs, or their URLs.
        databases, writers: Only these; None: all.
        tables: Of one database: only these tables, in logs of the destination's own.
        columns, where: Of one table: only these columns; only rows that meet this predicate.
        history: A log that is new to the destination begins with all that the source retains; else
            with its newest checkpoint.
        engine: Who brings the data files over; None: threads of this process. Transactions are
            read and put by this process, whoever it is.
        progress: Told after each data file.
        stop: Set it to end early; what was copied stands, and the next run goes on.
    Returns:
        The report. A log that failed keeps no other from its turn, and its error is in the report.
    Raises:
        UsageError: Both are one place, or one lies in the other; no such choice; tables by an
            engine.
        NotACatalog, DatabaseNotFound, WriterNotFound: The source has no such thing.
        NestedCatalog: The destination lies inside another catalog.
    Requests: for each log 2 LIST and, where something is new, 1 GET and 1 PUT for each object; 4 to
        find out what the destination can do.
    """
    places = _Places(_opened(source), _opened(destination), history=history)
    failed = threading.Event()

    def is_stopped() -> bool:
        return failed.is_set() or (stop is not None and stop.is_set())

    selection = selection_of(tables, columns, where)
    if selection is not None:
        _refuse_engine(engine)
        copied: dict[str, Copied] = {}
        for attempt in range(_TRIES):
            one_round, differences = places.round_of(databases, writers, selection)
            report = _selected(
                places, one_round, differences, copied,
                progress=progress, is_stopped=is_stopped, failed=failed,
            )  # fmt: skip
            if attempt == _TRIES - 1 or not _may_go_on(report, one_round):
                break
        return report
    found = parallel(places.look, places.logs(databases, writers), at_once=LOGS_AT_ONCE)
    told = Told(
        progress, sum(one.plan.files for one in found), sum(one.plan.size_bytes for one in found)
    )
    room = Room()
    todo = [one for one in found if one.error is None and not one.plan.is_done]
    exclusive = places.prepare(todo)

    def work(one: _Found) -> tuple[LogReport, State | None, bool]:
        return places.copy(one, places.mover(exclusive, room, is_stopped, told.one, engine))

    done = []
    for low in range(0, len(found), LOGS_AT_ONCE):
        done += together(work, found[low : low + LOGS_AT_ONCE], failed.set)
    logs = tuple(report for report, _, _ in done)
    tokens = _tokens(done)
    return Report(logs, tokens, tokens, any(stopped for _, _, stopped in done))


def plan_replication(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    databases: Collection[str] | None = None,
    writers: Collection[str] | None = None,
    tables: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    history: bool = True,
) -> Report:
    """What `replicate` would do, and how far the replica is. Nothing is written.

    Args, Raises: As for `replicate`.
    Requests: for each log 2 LIST, and as reading both its newest states.
    """
    places = _Places(_opened(source), _opened(destination), history=history)
    selection = selection_of(tables, columns, where)
    if selection is not None:
        one_round, differences = places.round_of(databases, writers, selection)
        return Report(tuple(map(one_round.told, differences)), {}, {})
    found = parallel(places.look, places.logs(databases, writers), at_once=LOGS_AT_ONCE)
    logs = (LogReport(one.plan, Copied(), one.plan.first, one.error) for one in found)
    return Report(tuple(logs), {}, {})


def _refuse_engine(engine: Engine | None) -> None:
    if engine is not None:
        raise UsageError(
            "Tables, columns and rows are replicated by this process alone, whose files are made "
            "anew",
            key="engine",
            hint="Leave the engine out, or replicate whole logs",
        )


def _may_go_on(report: Report, one_round: Selected) -> bool:
    """Whether a round that failed can do better: another replication was quicker, or what it had
    seen at the source was collected since, so that there is a newer cut."""
    if any(isinstance(error, (PlanOutdated, FencedError)) for error in report.errors):
        return True
    lost = any(isinstance(error, ObjectNotFound) for error in report.errors)
    return lost and one_round.is_outdated()


def _selected(
    places: _Places,
    one_round: Selected,
    found: list[Difference | LogReport],
    copied: dict[str, Copied],
    *,
    progress: Callable[[Told], None] | None,
    is_stopped: Callable[[], bool],
    failed: threading.Event,
) -> Report:
    """A round that replicates tables; `copied` is by writer what tries before it have done."""
    todo = [one for one in found if isinstance(one, Difference)]
    exclusive = any(not one.is_none for one in todo) and places.exclusive(todo[0].writer)
    told = Told(
        progress, sum(len(one.made) for one in todo),
        sum(one_round.plan_of(one).size_bytes for one in todo),
    )  # fmt: skip
    mover = places.mover(exclusive, Room(), is_stopped, told.one)

    def work(one: Difference | LogReport) -> tuple[LogReport, bool]:
        if isinstance(one, LogReport):
            return one, False
        return one_round.apply(one, mover, copied.setdefault(one.writer, Copied()))

    done = []
    for low in range(0, len(found), LOGS_AT_ONCE):
        done += together(work, found[low : low + LOGS_AT_ONCE], failed.set)
    stopped = any(stopped for _, stopped in done)
    logs = tuple(report for report, _ in done)
    if stopped or any(log.error for log in logs):
        return Report(logs, {}, {}, stopped)
    return Report(logs, *one_round.tokens(logs), stopped)


@dataclass(frozen=True, slots=True)
class _Found:
    """A log that was looked at: where it stands, unless that can't be told."""

    plan: LogPlan
    position: Position | None
    error: LakelogError | None = None


class _Places:
    """The two ends."""

    def __init__(self, source: Catalog, destination: Catalog, *, history: bool) -> None:
        refuse_one_place(source, destination)
        self.source, self.destination = source, destination
        self._history = history

    def logs(
        self, databases: Collection[str] | None, writers: Collection[str] | None
    ) -> list[tuple[str, str]]:
        """Databases and writers of the logs that are wanted, sorted.

        Raises:
            UsageError: Not lists of names.
            NotACatalog, DatabaseNotFound, WriterNotFound: The source has no such thing.
        """
        refuse_name("Databases", databases)
        refuse_name("Writers", writers)
        if databases is None:
            found = self._all_logs()
        else:
            wanted = sorted(set(databases))
            found = [(name, writer) for name in wanted for writer in self.source.writers(name)]
        lost = sorted(set(writers or ()) - {writer for _, writer in found})
        if lost:
            raise WriterNotFound(
                f"Writer {lost[0]!r} has no log at the source",
                key=lost[0],
                hint=f"Its writers: {', '.join(sorted({writer for _, writer in found}))}",
            )
        return [pair for pair in found if writers is None or pair[1] in writers]

    def _all_logs(self) -> list[tuple[str, str]]:
        """Those of all databases; one whose first commit is still to come keeps no other waiting.

        Warns:
            LostLogWarning: A database has no log that can be read.
        """
        found, failed = [], []
        for name in self.source.databases():
            try:
                found += [(name, writer) for writer in self.source.writers(name)]
            except DatabaseNotFound as error:
                failed.append(error)
        if failed and not found:
            raise failed[0]
        for one in failed:
            warnings.warn(f"{one.message}: it is left out", LostLogWarning, stacklevel=4)
        return found

    def round_of(
        self,
        databases: Collection[str] | None,
        writers: Collection[str] | None,
        selection: Selection,
    ) -> tuple[Selected, list[Difference | LogReport]]:
        """A round that replicates tables, and what is to be done in it."""
        self.logs(databases, writers)  # raises if there is no such writer
        found = open_selected(self.source, self.destination, databases, selection)
        return found, found.differences(writers)

    def look(self, log: tuple[str, str]) -> _Found:
        """Where one log stands."""
        database, writer = log
        try:
            position = self._position(writer, database)
            return _Found(plan_of(position), position)
        except LakelogError as error:
            return _Found(LogPlan(writer, database, 0, -1, -1, None, 0, 0, 0), None, error)

    def _position(self, writer: str, database: str) -> Position:
        source = LogReader(self.source.store, writer, database, self.source.ambient)
        replica = LogReader(self.destination.store, writer, database, self.destination.ambient)
        return find_position(source, replica, history=self._history)

    def prepare(self, todo: list[_Found]) -> bool:
        """Make sure that the destination may be written to; whether it has put-if-absent."""
        if not todo:
            return False
        if any(one.plan.first < 0 for one in todo):
            refuse_nested(self.destination.store)
        return self.exclusive(todo[0].plan.writer)

    def exclusive(self, writer: str) -> bool:
        """Whether the destination has put-if-absent."""
        return probe(self.destination.store, f"{writer}/").put_if_absent

    def mover(
        self,
        exclusive: bool,
        room: Room,
        is_stopped: Callable[[], bool],
        tell: Callable[[int], None],
        engine: Engine | None = None,
    ) -> Mover:
        """What brings objects over."""
        old_s = self.destination.margins.file_age_limit_s
        here = Carrier(self.source.store, self.destination.store, exclusive, old_s, room)
        stores = self.source.wide, self.destination.wide
        return Mover(here, is_stopped, tell, stores, engine)

    def copy(self, one: _Found, mover: Mover) -> tuple[LogReport, State | None, bool]:
        """Copy one log; what became of it, its newest state, and whether it was told to stop."""
        copied, state = Copied(), one.position.state if one.position else None
        error, stopped = one.error, False
        position = one.position
        for attempt in range(_TRIES):
            if position is None:
                break
            log = OneLog(position, mover, self.destination, copied)
            try:
                state = log.run()
                break
            except Stopped:
                stopped = True
                break
            except ObjectNotFound as gone:
                # Pruned and collected at the source since we looked? A replica that has nothing yet
                # can begin with a newer checkpoint; any other is told by `find_position`.
                error = gone
                try:
                    again = self._position(position.source.writer, position.source.database)
                except LakelogError as reason:
                    error = reason
                    break
                if attempt == _TRIES - 1 or not _is_news(position, again):
                    break
                error, position = None, again
            except LakelogError as failed:
                error = failed
                break
            finally:
                state = position.state
        revision = -1 if state is None else state.revision
        return LogReport(one.plan, copied, revision, error), state, stopped


def _is_news(before: Position, now: Position) -> bool:
    return (before.base, before.state.revision, before.last, before.listing.incarnation) != (
        now.base, now.state.revision, now.last, now.listing.incarnation,
    )  # fmt: skip


def _tokens(done: list[tuple[LogReport, State | None, bool]]) -> dict[str, str]:
    by_database: dict[str, dict[str, CutPosition] | None] = {}
    for report, state, stopped in done:
        name = report.plan.database
        cut = by_database.setdefault(name, {})
        if report.error is not None or stopped or state is None or state.log is None:
            by_database[name] = None
        elif cut is not None:
            cut[report.plan.writer] = CutPosition(state.revision, state.digest, state.log)
    return {name: Cut(name, cut).token for name, cut in by_database.items() if cut}


def _opened(catalog: Catalog | str) -> Catalog:
    return open_catalog(catalog) if isinstance(catalog, (str, os.PathLike)) else catalog
