"""Replication of a catalog: what there is to do, then log by log up to one cut of the source.

Source: docs/replication.md.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..catalog.catalog import Catalog, open_catalog
from ..catalog.format.cut import Cut
from ..catalog.format.cut import Position as CutPosition
from ..catalog.nesting import refuse_nested
from ..catalog.parallel import parallel
from ..catalog.read.log_reader import LogReader
from ..errors import LakelogError, ObjectNotFound, UsageError, WriterNotFound
from ..store import probe
from .moved import Mover, Room, Stopped, together
from .one_log import Copied, OneLog
from .position import LogPlan, Position, find_position, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..catalog.log.state import State

LOGS_AT_ONCE: Final = 4
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class LogReport:
    """What became of one log.

    Attributes:
        plan: What was to be done.
        copied: What was done.
        revision: The replica's newest revision after; -1: none.
        error: Why it went no further; None: it is where it was to be.
    """

    plan: LogPlan
    copied: Copied
    revision: int
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a replication did.

    Attributes:
        logs: Log by log, sorted by database and writer.
        tokens: By database the cut that the destination now has whole: its token reads the same
            rows at both ends. Databases of which a log failed have none.
        stopped: Whether the caller wanted no more before all was done.
    """

    logs: tuple[LogReport, ...]
    tokens: dict[str, str]
    stopped: bool = False

    @property
    def errors(self) -> list[LakelogError]:
        """What went wrong."""
        return [log.error for log in self.logs if log.error is not None]


@dataclass(slots=True)
class Told:
    """How far a replication is. Safe for threads.

    Attributes:
        files, size_bytes: Data files that are to be there, and their bytes.
        files_done, bytes_done: Those that are.
    """

    progress: Callable[[Told], None] | None
    files: int = 0
    size_bytes: int = 0
    files_done: int = 0
    bytes_done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def one(self, size_bytes: int) -> None:
        """One more data file is there."""
        with self._lock:
            self.files_done += 1
            self.bytes_done += size_bytes
            if self.progress is not None:
                self.progress(self)


def replicate(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    databases: Collection[str] | None = None,
    writers: Collection[str] | None = None,
    history: bool = True,
    progress: Callable[[Told], None] | None = None,
    stop: threading.Event | None = None,
) -> Report:
    """Bring a replica up to the source's newest cut. What is there already isn't copied again.

    Args:
        source, destination: Catalogs, or their URLs.
        databases, writers: Only these; None: all.
        history: A log that is new to the destination begins with all that the source retains; else
            with its newest checkpoint.
        progress: Told after each data file.
        stop: Set it to end early; what was copied stands, and the next run goes on.
    Returns:
        The report. A log that failed keeps no other from its turn, and its error is in the report.
    Raises:
        UsageError: Both are one place, or one lies in the other.
        NotACatalog, DatabaseNotFound, WriterNotFound: The source has no such thing.
        NestedCatalog: The destination lies inside another catalog.
    Requests: for each log 2 LIST and, where something is new, 1 GET and 1 PUT for each object; 4 to
        find out what the destination can do.
    """
    places = _Places(_opened(source), _opened(destination), history=history)
    found = parallel(places.look, places.logs(databases, writers), at_once=LOGS_AT_ONCE)
    told = Told(
        progress, sum(one.plan.files for one in found), sum(one.plan.size_bytes for one in found)
    )
    room, failed = Room(), threading.Event()
    todo = [one for one in found if one.error is None and not one.plan.is_done]
    exclusive = places.prepare(todo)
    old_s = places.destination.margins.file_age_limit_s

    def is_stopped() -> bool:
        return failed.is_set() or (stop is not None and stop.is_set())

    def work(one: _Found) -> tuple[LogReport, State | None, bool]:
        stores = places.source.store, places.destination.store
        mover = Mover(*stores, exclusive, is_stopped, told.one, old_s, room)
        return places.copy(one, mover)

    done = []
    for low in range(0, len(found), LOGS_AT_ONCE):
        done += together(work, found[low : low + LOGS_AT_ONCE], failed.set)
    logs = tuple(report for report, _, _ in done)
    return Report(logs, _tokens(done), any(stopped for _, _, stopped in done))


def plan_replication(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    databases: Collection[str] | None = None,
    writers: Collection[str] | None = None,
    history: bool = True,
) -> Report:
    """What `replicate` would do, and how far the replica is. Nothing is written.

    Args, Raises: As for `replicate`.
    Requests: for each log 2 LIST, and as reading both its newest states.
    """
    places = _Places(_opened(source), _opened(destination), history=history)
    found = parallel(places.look, places.logs(databases, writers), at_once=LOGS_AT_ONCE)
    return Report(
        tuple(LogReport(one.plan, Copied(), one.plan.first, one.error) for one in found), {}
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A log that was looked at: where it stands, unless that can't be told."""

    plan: LogPlan
    position: Position | None
    error: LakelogError | None = None


class _Places:
    """The two ends."""

    def __init__(self, source: Catalog, destination: Catalog, *, history: bool) -> None:
        _refuse_one_place(source, destination)
        self.source, self.destination = source, destination
        self._history = history

    def logs(
        self, databases: Collection[str] | None, writers: Collection[str] | None
    ) -> list[tuple[str, str]]:
        """Databases and writers of the logs that are wanted, sorted."""
        wanted = self.source.databases() if databases is None else sorted(set(databases))
        found = [(name, writer) for name in wanted for writer in self.source.writers(name)]
        lost = sorted(set(writers or ()) - {writer for _, writer in found})
        if lost:
            raise WriterNotFound(
                f"Writer {lost[0]!r} has no log at the source",
                key=lost[0],
                hint=f"Its writers: {', '.join(sorted({writer for _, writer in found}))}",
            )
        return [pair for pair in found if writers is None or pair[1] in writers]

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
        return probe(self.destination.store, f"{todo[0].plan.writer}/").put_if_absent

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


def _refuse_one_place(source: Catalog, destination: Catalog) -> None:
    ends = [_place(catalog) for catalog in (source, destination)]
    if ends[0] == ends[1] or any(a.startswith(b) for a, b in (ends, ends[::-1])):
        raise UsageError(
            f"{source.url} and {destination.url} are one place, or one lies in the other",
            key=destination.url,
            hint="Replicate into a place of its own",
        )


def _place(catalog: Catalog) -> str:
    url = catalog.store.url
    local = catalog.store.local_path("x")
    return (os.path.realpath(url) if local is not None else url).rstrip("/") + "/"
