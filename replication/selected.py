"""Replication of some tables, or of some columns and rows of one: into logs of the destination's
own, one commit a log and round.

What a log of the destination must hold follows from the source's cut alone, file by file. So a
round compares names, makes what is missing, and commits what came and went; a run that was broken
off left files under the names that the next one looks for.

Source: docs/replication.md, "Some tables, columns or rows".
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..catalog.commit.session import Session
from ..catalog.commit.spots import NewFile
from ..catalog.commit.transaction import Transaction
from ..catalog.data.parquet import write_rows
from ..catalog.data.scan import scan_files
from ..catalog.format.cut import Cut
from ..catalog.format.names import base_folder
from ..catalog.margins import CHECKPOINT_EVERY
from ..catalog.read.log_reader import LogReader
from ..errors import CorruptError, LakelogError, TableNotFound, UsageError
from .checks import told_of_destination
from .one_log import Copied
from .position import LogPlan
from .replica_logs import read_logs
from .reports import LogReport
from .selection import Selection, Wanted, wanted_files
from .set_back import SOURCE, outdated, refuse_set_back
from .threads import Stopped

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..catalog.catalog import Catalog
    from ..catalog.data.file_part import FilePart
    from ..catalog.format.frame import LogIdentity
    from ..catalog.log.state import State
    from ..catalog.snapshot import Snapshot
    from .moved import Mover
    from .replica_logs import ReplicaLogs


@dataclass(slots=True)
class Difference:
    """What is to change in one log of the destination.

    Attributes:
        writer: Whose.
        state: The destination's log, for which this holds.
        made: Files to be made and added.
        gone: Tables and paths to be taken out.
    """

    writer: str
    state: State
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
        positions = self.snapshot.cut.writers
        named = [w for w in positions if writers is None or w in writers]
        replicas = read_logs(self.destination, self.snapshot.database, self.selection.tables)
        wanted: dict[str, list[Wanted]] = {writer: [] for writer in named}
        for table in self.selection.tables:
            parts = self._parts(table, named, replicas)
            for writer, one in wanted_files(self.selection, table, parts, self.snapshot.cut):
                wanted[writer].append(one)
        found: list[Difference | LogReport] = []
        for writer, own in wanted.items():
            try:
                found.append(self._difference(writer, own, replicas))
            except LakelogError as error:
                plan = LogPlan(writer, self.snapshot.database, 0, -1, -1, None, 0, 0, 0)
                found.append(LogReport(plan, Copied(), -1, error))
        return found

    def _parts(
        self, table: str, writers: Sequence[str], replicas: ReplicaLogs
    ) -> dict[str, list[FilePart]]:
        """The files of a table at the source, by writer: none if it was dropped there since."""
        try:
            return {writer: self.snapshot.file_parts(table, writer=writer) for writer in writers}
        except TableNotFound:
            # Of a table that these very logs have had: another source takes nothing out.
            if not replicas.had(table, {writer: self._log(writer) for writer in writers}):
                raise
            return {}

    def _log(self, writer: str) -> LogIdentity:
        log = self.snapshot.cut.writers[writer].log
        assert log is not None
        return log

    def _difference(self, writer: str, wanted: list[Wanted], replicas: ReplicaLogs) -> Difference:
        replica = replicas.of(writer)
        replicas.refuse_foreign(writer, self._log(writer))
        source = LogReader(self.source.store, writer, self.snapshot.database, self.source.ambient)
        refuse_set_back(source, self.snapshot.cut.writers[writer], replica.state)
        found = Difference(writer, replica.state)
        for table in self.selection.tables:
            live = replica.live[table]
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

    def apply(self, one: Difference, mover: Mover, copied: Copied) -> tuple[LogReport, bool]:
        """Make what is missing, and commit; what became of it, and whether it was told to stop.
        What it does is counted in `copied`."""
        plan = self.plan_of(one)
        if one.is_none:
            return LogReport(plan, copied, plan.first), False
        try:
            self._make(one, mover, copied)
            revision = self._commit(one)
            copied.commits += 1
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

        files, size_bytes, there = mover.make_all(one.made, make)
        copied.files += files
        copied.size_bytes += size_bytes
        copied.files_there += len(there)

    def _commit(self, one: Difference) -> int:
        refuse = partial(_refuse_other, one.state)
        with closing(self._session(one.writer)) as session:
            session.ask(refuse)
            intent = session.begin(None, None, None, {SOURCE: self.snapshot.token})
            intent.fits.append(refuse)
            with Transaction(session, intent) as tx:
                for _, path in one.gone:
                    tx.remove(path)
                for table in self.selection.tables:
                    files = [NewFile(w.path, w.partition) for w in one.made if w.table == table]
                    if files:
                        tx.add_all(table, files, skip_live=False, own=True)
        assert tx.commit_info is not None
        return tx.commit_info.revision

    def _session(self, writer: str) -> Session:
        there, database = self.destination, self.snapshot.database
        try:
            return Session(
                there.store, writer, database, shared=False, checkpoint_every=CHECKPOINT_EVERY,
                ambient=there.ambient, margins=there.margins, wide=there.wide,
            )  # fmt: skip
        except CorruptError as error:  # of a log that was lost
            raise told_of_destination(error, f"{writer}/{database}") from error


def _refuse_other(state: State, head: State) -> None:
    """Whether a log is still where a difference holds.

    Raises:
        PlanOutdated: It isn't.
    """
    if (head.revision, head.digest) != (state.revision, state.digest):
        raise outdated(f"{state.writer}/{state.database}")


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
