"""Replication of some tables, or of some columns and rows of one: into logs of the destination's
own, one commit a log and round.

What a log of the destination must hold follows from the source's cut alone, file by file. So a
round compares names, makes what is missing, and commits what came and went; a run that was broken
off left files under the names that the next one looks for.

Source: docs/replication.md, "Some tables, columns or rows".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..catalog.commit.spots import NewFile
from ..catalog.data.parquet import write_rows
from ..catalog.data.scan import scan_files
from ..catalog.format.cut import Cut
from ..catalog.format.names import base_folder
from ..catalog.read.log_reader import LogReader
from ..errors import LakelogError, TableNotFound, UsageError
from .checks import diverged
from .one_log import Copied
from .position import LogPlan, head_of
from .reports import LogReport
from .selection import Selection, Wanted, is_of_a_selection, wanted_files
from .threads import Stopped

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..catalog.catalog import Catalog
    from ..catalog.data.file_part import FilePart
    from ..catalog.log.state import State
    from ..catalog.snapshot import Snapshot
    from .moved import Mover

_APP: Final = "lakelog replicate"
_INCARNATION: Final = 10**12  # revisions that one has at most


@dataclass(slots=True)
class Difference:
    """What is to change in one log of the destination.

    Attributes:
        writer: Whose.
        state: The destination's log now.
        app_id, version: What the commit stands for.
        is_known: Whether that was committed already, with another selection perhaps.
        made: Files to be made and added.
        gone: Tables and paths to be taken out.
    """

    writer: str
    state: State
    app_id: str
    version: int
    is_known: bool
    made: list[Wanted] = field(default_factory=list)
    gone: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_none(self) -> bool:
        """Whether there is nothing to do."""
        return not self.made and not self.gone


@dataclass(slots=True)
class Selected:
    """A round of such a replication.

    Args:
        source, destination: The catalogs.
        snapshot: The cut of the source that is replicated.
        selection: What of it.
    """

    source: Catalog
    destination: Catalog
    snapshot: Snapshot
    selection: Selection

    def differences(self, writers: Collection[str] | None) -> list[Difference | LogReport]:
        """What is to change, log by log; or why that can't be told.

        Raises:
            TableNotFound: The source has no such table, and the destination doesn't know it.
            UsageError, InvalidPredicate, SchemaConflict: As for a scan of the source.
        """
        named = [w for w in self.snapshot.cut.writers if writers is None or w in writers]
        wanted: dict[str, list[Wanted]] = {writer: [] for writer in named}
        for table in self.selection.tables:
            for writer, one in wanted_files(self.selection, table, self._parts(table, named)):
                wanted[writer].append(one)
        found: list[Difference | LogReport] = []
        for writer, own in wanted.items():
            try:
                found.append(self._difference(writer, own))
            except LakelogError as error:
                plan = LogPlan(writer, self.snapshot.database, 0, -1, -1, None, 0, 0, 0)
                found.append(LogReport(plan, Copied(), -1, error))
        return found

    def _parts(self, table: str, writers: Sequence[str]) -> dict[str, list[FilePart]]:
        """The files of a table at the source, by writer: none if it was dropped there since."""
        try:
            return {writer: self.snapshot.file_parts(table, writer=writer) for writer in writers}
        except TableNotFound:
            replicas = {writer: head_of(self._replica(writer)) for writer in writers}
            known = [w for w, at in replicas.items() if at.schemas_of(table).of_table(table)]
            # Of a table that these very logs have had: another source takes nothing out.
            apps = [replicas[w].applications.version(self._app_id(w)) for w in known]
            if not known or min(apps) < 0:
                raise
            return {}

    def _app_id(self, writer: str) -> str:
        """What the commits of a log's replication stand for: that log."""
        log = self.snapshot.cut.writers[writer].log
        assert log is not None
        return f"{_APP} {log.log_id.hex()}"

    def _replica(self, writer: str) -> LogReader:
        store, ambient = self.destination.store, self.destination.ambient
        return LogReader(store, writer, self.snapshot.database, ambient)

    def _difference(self, writer: str, wanted: list[Wanted]) -> Difference:
        database = self.snapshot.database
        where = f"{writer}/{database}"
        positions = self.snapshot.cut.writers
        log = positions[writer].log
        assert log is not None
        state = head_of(self._replica(writer))
        app_id = self._app_id(writer)
        # It grows with whatever log of the cut goes on: by keys and types rows depend on all.
        version = sum(
            at.revision + 1 + _INCARNATION * at.log.incarnation
            for at in positions.values() if at.log
        )  # fmt: skip
        known = state.applications.version(app_id) if state.revision >= 0 else -1
        found = Difference(writer, state, app_id, version, is_known=known == version)
        if known > version:
            raise diverged(f"The source of {where} is at an earlier point than its replica", where)
        for table in self.selection.tables:
            live = set(state.files.table(table).column("path").to_pylist())
            foreign = sorted(path for path in live if not is_of_a_selection(path))
            if foreign or (state.log is not None and state.log.log_id == log.log_id):
                raise diverged(
                    f"The log of {where} at the destination holds other files than a replica of "
                    f"some tables has, {foreign[0] if foreign else 'all of them'} for one", where,
                )  # fmt: skip
            if live and known < 0 and (other := _made_from(state)):
                raise diverged(
                    f"The replica of table {table!r} in {where} was made from another log, "
                    f"{other}, and the source's is {log.log_id.hex()} now", where,
                )  # fmt: skip
            own = {one.path: one for one in wanted if one.table == table}
            found.made += [one for path, one in own.items() if path not in live]
            found.gone += [(table, path) for path in sorted(live - own.keys())]
        return found

    def is_outdated(self) -> bool:
        """Whether the source has gone on since.

        Requests: those of `Snapshot.refresh`.
        """
        return self.snapshot.refresh() is not self.snapshot

    def plan_of(self, one: Difference) -> LogPlan:
        """The difference, counted."""
        first = one.state.revision
        return LogPlan(
            one.writer, self.snapshot.database, one.state.log.incarnation if one.state.log else 1,
            first, first + (not one.is_none), None, int(not one.is_none), len(one.made),
            sum(wanted.part.size_bytes for wanted in one.made),
        )  # fmt: skip

    def told(self, one: Difference | LogReport) -> LogReport:
        """What is to be done in a log."""
        if isinstance(one, LogReport):
            return one
        return LogReport(self.plan_of(one), Copied(), one.state.revision)

    def tokens(self, logs: Sequence[LogReport]) -> tuple[dict[str, str], dict[str, str]]:
        """By database the destination's cut, and the source's that it stands for."""
        database, cut = self.snapshot.database, self.snapshot.cut
        revisions = {log.plan.writer: log.revision for log in logs if log.revision >= 0}
        if not revisions:
            return {}, {}
        there = self.destination.snapshot(database, revisions)
        asked = {log.plan.writer for log in logs}
        part = Cut(database, {w: at for w, at in cut.writers.items() if w in asked})
        return {database: there.token}, {database: part.token}

    def apply(self, one: Difference, mover: Mover) -> tuple[LogReport, bool]:
        """Make what is missing, and commit; what became of it, and whether it was told to stop."""
        plan, copied = self.plan_of(one), Copied()
        if one.is_none:
            return LogReport(plan, copied, plan.first), False
        try:
            self._make(one, mover, copied)
            revision = self._commit(one)
            copied.commits = 1
            return LogReport(plan, copied, revision), False
        except Stopped:
            return LogReport(plan, copied, plan.first), True
        except LakelogError as error:
            return LogReport(plan, copied, plan.first, error), False

    def _make(self, one: Difference, mover: Mover, copied: Copied) -> None:
        folder = base_folder(one.writer, self.snapshot.database)

        def make(wanted: Wanted) -> tuple[int, bool]:
            with mover.room.held(wanted.part.size_bytes):
                rows = scan_files(self.source.wide, [wanted.part], wanted.projection)
                body = write_rows(rows)
            return len(body), mover.put_made(folder + wanted.path, body)

        copied.files, copied.size_bytes, there = mover.make_all(one.made, make)
        copied.files_there = len(there)

    def _commit(self, one: Difference) -> int:
        database, app = self.snapshot.database, (one.app_id, one.version)
        with self.destination.writer(one.writer, database) as writer:
            with writer.transaction(
                *((None, None) if one.is_known else app), summary={"source": self.snapshot.token}
            ) as tx:
                for _, path in one.gone:
                    tx.remove(path)
                for table in self.selection.tables:
                    files = [NewFile(w.path, w.partition) for w in one.made if w.table == table]
                    if files:
                        tx.add_all(table, files, skip_live=False)
            info = tx.commit_info
        if info is None or info.skipped:
            where = f"{one.writer}/{database}"
            raise diverged(f"Another replication of {where} was quicker", where)
        return info.revision


def _made_from(state: State) -> str:
    """The id of a log that commits of a replication stood for; "" for none."""
    found = (app for app in state.applications.versions() if app.startswith(f"{_APP} "))
    return next(found, "").removeprefix(f"{_APP} ")


def open_selected(
    source: Catalog,
    destination: Catalog,
    databases: Collection[str] | None,
    selection: Selection,
) -> Selected:
    """A round at the source's newest cut.

    Raises:
        UsageError: Not one database, or no such selection.
    """
    selection.check()
    named = sorted(set(source.databases() if databases is None else databases))
    if len(named) != 1:
        raise UsageError(
            f"Tables are chosen of one database, and the source has {len(named)}",
            hint=f"Name one of: {', '.join(named)}",
        )
    return Selected(source, destination, source.snapshot(named[0]), selection)
