"""Replication of a catalog: what there is to do, then log by log up to one cut of the source; once,
or again and again.

Source: docs/replication.md.
"""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..catalog.catalog import Catalog, open_catalog
from ..catalog.format.cut import Cut
from ..catalog.format.cut import Position as CutPosition
from ..catalog.format.names import REPLICA_MARK, is_id, log_folder
from ..catalog.nesting import refuse_nested
from ..catalog.parallel import parallel
from ..catalog.read.log_folder import writer_ids
from ..catalog.read.log_reader import LogReader
from ..catalog.read.mirror import LostLogWarning
from ..errors import (
    DatabaseNotFound,
    FencedError,
    LakelogError,
    ObjectNotFound,
    PlanOutdated,
    StorageError,
    UsageError,
    WriterNotFound,
)
from ..store import probe
from .one_log import OneLog, Position, find_position, plan_of
from .reports import Copied, LogPlan, LogReport, Progress, Report
from .selected import Difference, open_selected, refuse_name, selection_of
from .transfer import Copier, Stopped, Transfer, in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ..catalog.changing import AsOf
    from ..catalog.log.state import State
    from ..catalog.parallel import Engine
    from .selected import Selected, Selection

_T = TypeVar("_T")
_R = TypeVar("_R")
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
    as_of: AsOf = None,
    history: bool = True,
    engine: Engine | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> Report:
    """Bring a replica up to the source's newest cut. What is there already isn't copied again.

    Args:
        source, destination: Catalogs, or their URLs.
        databases, writers: Only these; None: all.
        tables: Of one database: only these tables, in logs of the destination's own.
        columns, where: Of one table: only these columns; only rows that meet this predicate.
        as_of: With tables: the point in time that they are copied from, as `Catalog.snapshot` takes
            it, such as the "@name" of a published cut; None: the newest.
        history: A log that is new to the destination begins with all that the source retains; else
            with its newest checkpoint.
        engine: Copies the data files; None: threads of this process do. Transactions are always
            read and put by this process.
        progress: Called after each data file.
        stop: Set it to end early; what was copied remains, and the next run goes on.
    Returns:
        The report. A log that failed keeps no other from its turn, and its error is in the report.
    Raises:
        UsageError: Both are one place, or one is inside the other; no such choice; tables by an
            engine.
        NotACatalog, DatabaseNotFound, WriterNotFound: The source has no such thing.
        NestedCatalog: The destination is inside another catalog.
    Requests: for each log 2 LIST and, where something is new, 1 GET and 1 PUT for each object; 4 to
        find out what the destination can do.
    """
    run = _Run(
        _opened(source), _opened(destination), databases, writers, history, progress, stop, as_of
    )  # fmt: skip
    selection = selection_of(tables, columns, where)
    if selection is None:
        run.refuse_point()
        return run.copy_logs(engine)
    if engine is not None:
        raise UsageError(
            "Tables, columns and rows are replicated by this process alone, which makes their "
            "files itself",
            key="engine",
            hint="Leave the engine out, or replicate whole logs",
        )
    copied: dict[str, Copied] = {}
    for attempt in range(_TRIES):
        one_round, differences = run.round_of(selection)
        report = run.copy_tables(one_round, differences, copied)
        if attempt == _TRIES - 1 or not _may_go_on(report, one_round):
            break
    return report


def plan_replication(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    databases: Collection[str] | None = None,
    writers: Collection[str] | None = None,
    tables: Collection[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: AsOf = None,
    history: bool = True,
) -> Report:
    """What `replicate` would do, and how far the replica is. Nothing is written.

    Args, Raises: As for `replicate`.
    Requests: for each log 2 LIST, and as reading both its newest states.
    """
    run = _Run(_opened(source), _opened(destination), databases, writers, history, as_of=as_of)
    selection = selection_of(tables, columns, where)
    if selection is not None:
        one_round, differences = run.round_of(selection)
        return Report(tuple(map(one_round.planned, differences)))
    run.refuse_point()
    return Report(tuple(report for report, _ in run.look()))


def promote(
    catalog: Catalog | str, database: str | None = None, *, writer: str | None = None
) -> list[tuple[str, str]]:
    """Let replicas be written to: their logs are their own from here on. Stop replicating into them
    before; a replication that finds other commits there refuses.

    Args:
        database, writer: Only logs of this one; None: all of the catalog.
    Returns:
        Writer and database of the logs that were replicas.
    Requests: 1 LIST for each writer and log; 1 DELETE for each replica.
    """
    opened = _opened(catalog)
    found = marked(opened, database, writer)
    opened.store.delete([log_folder(*log) + REPLICA_MARK for log in found])
    return found


def marked(
    catalog: Catalog, database: str | None = None, writer: str | None = None
) -> list[tuple[str, str]]:
    """Writer and database of the logs that are marked as replicas.

    Requests: 1 LIST for each writer and log.
    """
    logs = [
        (owner, name)
        for owner in writer_ids(catalog.store)
        if writer in (None, owner)
        for name in catalog.store.list_folders(f"{owner}/")
        if is_id(name) and database in (None, name)
    ]
    return [
        log
        for log in logs
        if any(catalog.store.list(log_folder(*log) + REPLICA_MARK, first_page=1))
    ]


def _may_go_on(report: Report, one_round: Selected) -> bool:
    """Whether a round that failed can do better: another replication was quicker, or what it had
    seen at the source was collected since, so that there is a newer cut."""
    if any(isinstance(error, (PlanOutdated, FencedError)) for error in report.errors):
        return True
    lost = any(isinstance(error, ObjectNotFound) for error in report.errors)
    return lost and one_round.is_outdated()


def _opened(catalog: Catalog | str) -> Catalog:
    return open_catalog(catalog) if isinstance(catalog, (str, os.PathLike)) else catalog


@dataclass(slots=True)
class _Run:
    """One replication; the attributes are the arguments of `replicate`."""

    source: Catalog
    destination: Catalog
    databases: Collection[str] | None
    writers: Collection[str] | None
    history: bool
    progress: Callable[[Progress], None] | None = None
    stop: threading.Event | None = None
    as_of: AsOf = None
    _failed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        refuse_one_place(self.source, self.destination)

    # --- Whole logs -------------------------------------------------------------------------------

    def refuse_point(self) -> None:
        """Raises `UsageError` if a point in time was given: whole logs have all of them."""
        if self.as_of is not None:
            raise UsageError(
                "as_of= is about chosen tables; a replica of whole logs has every point in time",
                key="as_of",
                hint="Name tables, or leave as_of out",
            )

    def look(self) -> list[tuple[LogReport, Position | None]]:
        """Look at all logs that are wanted: what is to be done, and how far each is."""
        return parallel(self._look, self._logs(), at_once=LOGS_AT_ONCE)

    def copy_logs(self, engine: Engine | None) -> Report:
        """Copy all logs that are wanted."""
        looked = self.look()
        progress = Progress.of(self.progress, [report.plan for report, _ in looked])
        todo = [one.plan for one, _ in looked if one.error is None and not one.plan.is_done]
        if any(plan.first < 0 for plan in todo):
            refuse_nested(self.destination.store)
        transfer = self._transfer(todo[0].writer if todo else None, progress, engine)
        done = self._in_turns(lambda one: self._copy(*one, transfer), looked)
        logs = tuple(report for report, _, _ in done)
        tokens = _tokens(done)
        return Report(logs, tokens, tokens, any(stopped for _, _, stopped in done))

    def _look(self, log: tuple[str, str]) -> tuple[LogReport, Position | None]:
        database, writer = log
        try:
            position = self._position(writer, database)
            plan = plan_of(position)
            return LogReport(plan, revision=plan.first), position
        except LakelogError as error:
            return LogReport(LogPlan(writer, database), error=error), None

    def _position(self, writer: str, database: str) -> Position:
        source = LogReader(self.source.store, writer, database, self.source.ambient)
        replica = LogReader(self.destination.store, writer, database, self.destination.ambient)
        return find_position(source, replica, history=self.history)

    def _copy(
        self, planned: LogReport, position: Position | None, transfer: Transfer
    ) -> tuple[LogReport, State | None, bool]:
        """Copy one log; its report, its newest state, and whether the caller wanted no more."""
        copied, error, stopped = planned.copied, planned.error, False
        state = None if position is None else position.state
        for attempt in range(_TRIES):
            if position is None:
                break
            try:
                OneLog(position, transfer, self.destination, copied).run()
                break
            except Stopped:
                stopped = True
                break
            except ObjectNotFound as gone:
                # Pruned and collected at the source since we looked? A replica that has nothing yet
                # can begin with a newer checkpoint; any other is refused by `find_position`.
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
        return LogReport(planned.plan, copied, revision, error), state, stopped

    # --- Tables -----------------------------------------------------------------------------------

    def round_of(self, selection: Selection) -> tuple[Selected, list[Difference | LogReport]]:
        """A round that replicates tables, and what is to be done in it."""
        self._logs()  # raises if there is no such writer
        one_round = open_selected(
            self.source, self.destination, self.databases, selection, self.as_of
        )
        return one_round, one_round.differences(self.writers)

    def copy_tables(
        self,
        one_round: Selected,
        differences: list[Difference | LogReport],
        copied: dict[str, Copied],
    ) -> Report:
        """Do a round; `copied` is by writer what earlier tries have done."""
        todo = [one for one in differences if isinstance(one, Difference)]
        progress = Progress.of(self.progress, [one_round.plan_of(one) for one in todo])
        writer = next((one.writer for one in todo if not one.is_none), None)
        transfer = self._transfer(writer, progress)

        def work(one: Difference | LogReport) -> tuple[LogReport, bool]:
            if isinstance(one, LogReport):
                return one, False
            return one_round.apply(one, transfer, copied.setdefault(one.writer, Copied()))

        done = self._in_turns(work, differences)
        stopped = any(stopped for _, stopped in done)
        logs = tuple(report for report, _ in done)
        if stopped or any(log.error for log in logs):
            return Report(logs, stopped=stopped)
        return Report(logs, *one_round.tokens(logs))

    # --- Both -------------------------------------------------------------------------------------

    def _logs(self) -> list[tuple[str, str]]:
        """Databases and writers of the logs that are wanted, sorted.

        Raises:
            UsageError: Not lists of names.
            NotACatalog, DatabaseNotFound, WriterNotFound: The source has no such thing.
        """
        refuse_name("Databases", self.databases)
        refuse_name("Writers", self.writers)
        if self.databases is None:
            logs = self._all_logs()
        else:
            names = sorted(set(self.databases))
            logs = [(name, writer) for name in names for writer in self.source.writers(name)]
        lost = sorted(set(self.writers or ()) - {writer for _, writer in logs})
        if lost:
            raise WriterNotFound(
                f"Writer {lost[0]!r} has no log at the source",
                key=lost[0],
                hint=f"Its writers: {', '.join(sorted({writer for _, writer in logs}))}",
            )
        return [pair for pair in logs if self.writers is None or pair[1] in self.writers]

    def _all_logs(self) -> list[tuple[str, str]]:
        """The logs of all databases; one whose first commit is still to come keeps no other
        waiting.

        Warns:
            LostLogWarning: A database has no log that can be read.
        """
        logs, failed = [], []
        for name in self.source.databases():
            try:
                logs += [(name, writer) for writer in self.source.writers(name)]
            except DatabaseNotFound as error:
                failed.append(error)
        if failed and not logs:
            raise failed[0]
        for one in failed:
            warnings.warn(f"{one.message}: it is left out", LostLogWarning, stacklevel=5)
        return logs

    def _transfer(
        self, writer: str | None, progress: Progress, engine: Engine | None = None
    ) -> Transfer:
        """The transfer of objects; `writer` is that of a log that is written to, if one is."""
        there = self.destination
        exclusive = writer is not None and probe(there.store, f"{writer}/").put_if_absent
        copier = Copier(self.source.store, there.store, exclusive, there.margins.file_age_limit_s)
        stores = self.source.wide, there.wide
        return Transfer(copier, self._is_stopped, progress.one, stores, engine)

    def _is_stopped(self) -> bool:
        return self._failed.is_set() or (self.stop is not None and self.stop.is_set())

    def _in_turns(self, work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        lows = range(0, len(items), LOGS_AT_ONCE)
        parts = (in_threads(work, items[n : n + LOGS_AT_ONCE], self._failed.set) for n in lows)
        return [result for part in parts for result in part]


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


# --- Following ------------------------------------------------------------------------------------


class FollowWarning(UserWarning):
    """A round failed; the next one tries again."""


def follow(
    source: Catalog | str,
    destination: Catalog | str,
    *,
    stop: threading.Event,
    every_s: float = 10.0,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Iterator[Report]:
    """Replicate again and again, also writers and databases that are created later.

    Args:
        stop: Set it to end: files under way are finished, and the iterator ends.
        every_s: Seconds between the end of one round and the beginning of the next.
        source, destination, progress, options: As for `replicate`.
    Yields:
        The report of each round.
    Raises:
        LakelogError: Another try can't help. A failure of the store is a warning, and tried again.
    Warns:
        FollowWarning: The store failed; the next round tries again.
    """
    while not stop.is_set():
        try:
            report = replicate(source, destination, progress=progress, stop=stop, **options)
        except StorageError as error:
            _warn(error)
        else:
            yield report
            for failed in report.errors:
                if not isinstance(failed, StorageError):
                    raise failed
                _warn(failed)
        stop.wait(every_s)


def _warn(error: StorageError) -> None:
    warnings.warn(f"{error}; the next round tries again", FollowWarning, stacklevel=3)


# --- One place ------------------------------------------------------------------------------------

# Storage options that name a server or an account on it, at any depth. Others, such as credentials,
# don't make another place of it.
_SERVERS: Final = frozenset({"endpoint_url", "endpoint", "account_name", "account_host"})
# The same in a connection string of Azure.
_CONNECTION: Final = {"AccountName": "account_name", "BlobEndpoint": "endpoint"}


def refuse_one_place(source: Catalog, destination: Catalog) -> None:
    """Refuse to replicate a place into itself.

    Raises:
        UsageError: Both are one place, or one is inside the other.
    """
    ends = [_place(catalog) for catalog in (source, destination)]
    if _server(source) == _server(destination) and (
        ends[0].startswith(ends[1]) or ends[1].startswith(ends[0])
    ):
        raise UsageError(
            f"{source.url} and {destination.url} are one place, or one is inside the other",
            key=destination.url,
            hint="Replicate into a place of its own",
        )


def _place(catalog: Catalog) -> str:
    url = catalog.store.url
    local = catalog.store.local_path("x")
    return (os.path.realpath(url) if local is not None else url).rstrip("/") + "/"


def _server(catalog: Catalog) -> dict[str, str]:
    """The options that name a server."""
    if catalog.store.backend not in ("s3", "gs", "az"):
        return {}
    return dict(_server_options(catalog.wide.opening.storage_options))


def _server_options(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _server_options(value)
        elif name == "connection_string":
            parts = (part.partition("=") for part in str(value).split(";"))
            yield from _server_options({_CONNECTION.get(key, ""): text for key, _, text in parts})
        elif name in _SERVERS and value:
            yield name, str(value).rstrip("/").lower()
