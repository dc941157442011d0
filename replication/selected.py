"""Replication of some tables, or of some columns and rows of one: into logs of the destination's
own, one commit a log and round.

What a log of the destination must hold follows from the source's cut alone, file by file. So a
round compares names, makes what is missing, and commits what was added and removed; a run that was
broken off left files under the names that the next one looks for. A log of the destination must
have been made from the very logs that the source has now, which the names of files show, by nobody
else; and the source must not have been set back: the newest commit of the replica names the
transaction of the source's log that it was made from.

Source: docs/replication.md, "Some logs, or some tables, columns or rows".
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ..catalog.commit.session import Session
from ..catalog.commit.spots import NewFile
from ..catalog.commit.transaction import Transaction
from ..catalog.data.parquet import write_rows
from ..catalog.data.scan import scan_files
from ..catalog.format.cut import TOKEN_DIGEST_BYTES, Cut, Position, parse_token
from ..catalog.format.names import base_folder, parse_replica_file
from ..catalog.log.history import summary_of
from ..catalog.log.state import empty_state
from ..catalog.margins import CHECKPOINT_EVERY
from ..catalog.parallel import parallel
from ..catalog.read.hidden import hidden_files
from ..catalog.read.log_folder import writer_ids
from ..catalog.read.log_reader import LogReader
from ..errors import (
    CorruptError,
    InvalidToken,
    LakelogError,
    PlanOutdated,
    ReplicaDiverged,
    TableNotFound,
    UsageError,
)
from .position import destination_error, digest_at, head_of
from .reports import Copied, LogPlan, LogReport
from .selection import Selection, Wanted, source_tag, wanted_files
from .transfer import Stopped, diverged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ..catalog.catalog import Catalog
    from ..catalog.data.file_part import FilePart
    from ..catalog.format.frame import LogIdentity
    from ..catalog.log.history import Row
    from ..catalog.log.state import State
    from ..catalog.snapshot import Snapshot
    from .transfer import Transfer


@dataclass(slots=True)
class Difference:
    """What is to change in one log of the destination.

    Attributes:
        writer: Its writer.
        state: The state of the log for which this holds.
        made: Files to be made and added.
        gone: Paths of files to be removed.
    """

    writer: str
    state: State
    made: list[Wanted] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

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
        """What is to change, log by log; or a report of why that isn't known.

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
        differences: list[Difference | LogReport] = []
        for writer, own in wanted.items():
            try:
                differences.append(self._difference(writer, own, replicas))
            except LakelogError as error:
                plan = LogPlan(writer, self.snapshot.database)
                differences.append(LogReport(plan, error=error))
        return differences

    def _parts(
        self, table: str, writers: Sequence[str], replicas: ReplicaLogs
    ) -> dict[str, list[FilePart]]:
        """The files of a table at the source, by writer: none if it was dropped there since."""
        try:
            return {writer: self.snapshot.file_parts(table, writer=writer) for writer in writers}
        except TableNotFound:
            # The table must come from these very logs: another source removes nothing.
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
            found.gone += sorted(live - own.keys())
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

    def planned(self, one: Difference | LogReport) -> LogReport:
        """What is to be done in a log."""
        if isinstance(one, LogReport):
            return one
        return LogReport(self.plan_of(one), Copied(), one.state.revision)

    def tokens(self, logs: Sequence[LogReport]) -> tuple[dict[str, str], dict[str, str]]:
        """By database the destination's cut, and the source's cut that it is made from."""
        database, cut = self.snapshot.database, self.snapshot.cut
        revisions = {log.plan.writer: log.revision for log in logs if log.revision >= 0}
        if not revisions:
            return {}, {}
        there = self.destination.snapshot(database, revisions)
        writers = {log.plan.writer for log in logs}
        part = Cut(database, {w: at for w, at in cut.writers.items() if w in writers})
        return {database: there.token}, {database: part.token}

    def apply(self, one: Difference, transfer: Transfer, copied: Copied) -> tuple[LogReport, bool]:
        """Make what is missing, and commit; the report, and whether the caller wanted no more. What
        it does is counted in `copied`."""
        plan = self.plan_of(one)
        if one.is_none:
            return LogReport(plan, copied, plan.first), False
        try:
            self._make(one, transfer, copied)
            revision = self._commit(one)
            copied.commits += 1
            return LogReport(plan, copied, revision), False
        except Stopped:
            return LogReport(plan, copied, plan.first), True
        except LakelogError as error:
            return LogReport(plan, copied, plan.first, error), False

    def _make(self, one: Difference, transfer: Transfer, copied: Copied) -> None:
        folder = base_folder(one.writer, self.snapshot.database)

        def make(wanted: Wanted) -> tuple[int, bool]:
            with transfer.copier.memory.reserved(wanted.part.size_bytes):
                rows = scan_files(self.source.wide, [wanted.part], wanted.projection)
                body = write_rows(rows)
            return len(body), transfer.put_made(folder + wanted.path, body)

        files, size_bytes, there = transfer.each(one.made, len(one.made), make)
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
                for path in one.gone:
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
        except CorruptError as error:  # the log was lost
            raise destination_error(error, f"{writer}/{database}") from error


def _refuse_other(state: State, head: State) -> None:
    """Refuse a log that isn't at the state any more for which a difference holds.

    Raises:
        PlanOutdated: It isn't.
    """
    if (head.revision, head.digest) != (state.revision, state.digest):
        raise outdated(f"{state.writer}/{state.database}")


def open_selected(
    source: Catalog, destination: Catalog, databases: Collection[str] | None, selection: Selection
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


# --- Logs of the destination ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One log of the destination.

    Attributes:
        state: Its newest.
        live: By chosen table the paths of its files.
        known: Chosen tables that it has files of, or had.
        defined: Chosen tables that it defines.
    """

    state: State
    live: dict[str, frozenset[str]]
    known: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()

    def sources(self, table: str) -> set[str]:
        """Tags of the logs that the files of a table were made from; "" for other files."""
        return set(map(parse_replica_file, self.live[table]))


@dataclass(slots=True)
class ReplicaLogs:
    """The destination's logs of one database, as they are now.

    Attributes:
        tables: The chosen ones.
        logs: By writer those that can be read.
        failed: By writer why another one can't.
    """

    database: str
    tables: Sequence[str]
    logs: dict[str, ReplicaLog] = field(default_factory=dict)
    failed: dict[str, LakelogError] = field(default_factory=dict)

    def of(self, writer: str) -> ReplicaLog:
        """One log; an empty one if there is none.

        Raises:
            LakelogError: It can't be read.
        """
        if writer in self.failed:
            raise self.failed[writer]
        live: dict[str, frozenset[str]] = dict.fromkeys(self.tables, frozenset())
        return self.logs.get(writer, ReplicaLog(empty_state(writer, self.database), live))

    def had(self, table: str, sources: Mapping[str, LogIdentity]) -> bool:
        """Whether a table was made from these very logs of the source, by writer: they know it at
        the destination, and have no other files of it."""
        known = [w for w in sources if table in self.of(w).known]
        own = (self.of(w).sources(table) <= {source_tag(sources[w])} for w in known)
        return bool(known) and all(own)

    def refuse_foreign(self, writer: str, source: LogIdentity) -> None:
        """Refuse a log with anything in the chosen tables that isn't a replica of the source's log.

        Raises:
            ReplicaDiverged: It has, that replica has another name, or somebody has changed it.
        """
        where, one = f"{writer}/{self.database}", self.of(writer)
        if one.state.log is not None and one.state.log.log_id == source.log_id:
            why = "is a whole replica of the source's, in which no tables can be chosen"
            raise diverged(f"The log of {where} at the destination {why}", where)
        for table in self.tables:
            for other in sorted(one.sources(table) - {source_tag(source)}):
                why = f"was made from another log, {other}..., and the source's is "
                why += f"{source.log_id.hex()} now"
                if not other:
                    strange = min(path for path in one.live[table] if not parse_replica_file(path))
                    why = f"holds files that replication didn't make, {strange} for one"
                raise diverged(f"Table {table!r} of {where} at the destination {why}", where)
            self._refuse_renamed(table, writer, source)
            self._refuse_changed(table, where, one.state)

    def _refuse_renamed(self, table: str, writer: str, source: LogIdentity) -> None:
        """Its rows would count twice."""
        for other, one in self.logs.items():
            if other != writer and source_tag(source) in one.sources(table):
                here, there = f"{writer}/{self.database}", f"{other}/{self.database}"
                raise ReplicaDiverged(
                    f"The source's log of {here} was renamed: the destination has it as {there}",
                    key=here,
                    hint=f"Nothing there was changed. Rename it there likewise: move {there}/ to "
                    f"{here}/, and `lakelog adopt-name DESTINATION {self.database} --writer "
                    f"{writer} --execute`",
                )

    def _refuse_changed(self, table: str, where: str, state: State) -> None:
        """Replication defines no columns and no key, and deletes no rows."""
        why = ""
        if any(table in one.defined for one in self.logs.values()):
            why = f"changed the columns or the key of table {table!r} at the destination"
        elif hidden := hidden_files(state, table):
            one = f"in {min(hidden)} of {where} for one"
            why = f"deleted rows of table {table!r} at the destination, {one}"
        if why:
            raise diverged(f"Somebody has {why}", where)


def read_logs(destination: Catalog, database: str, tables: Sequence[str]) -> ReplicaLogs:
    """The destination's logs of a database.

    Requests: 1 LIST, and 1 for each writer; as reading the newest state of each log, and its files
        of these tables.
    """
    replicas = ReplicaLogs(database, tables)
    writers = writer_ids(destination.store)

    def read(writer: str) -> ReplicaLog | LakelogError:
        log = LogReader(destination.store, writer, database, destination.ambient)
        try:
            return _read(log, tables)
        except LakelogError as error:
            return error

    for writer, one in zip(writers, parallel(read, writers), strict=True):
        if isinstance(one, LakelogError):
            replicas.failed[writer] = one
        elif one.state.revision >= 0:
            replicas.logs[writer] = one
    return replicas


def _read(log: LogReader, tables: Sequence[str]) -> ReplicaLog:
    state = head_of(log)
    try:
        live, known = {}, set()
        for table in tables:
            files, schemas = state.table_of(table)
            live[table] = frozenset(files.table(table).column("path").to_pylist())
            if schemas.of_table(table):
                known.add(table)
        defined = frozenset(tables).intersection(state.definitions.entries)
    except CorruptError as error:
        raise destination_error(error, f"{log.writer}/{log.database}") from error
    return ReplicaLog(state, live, frozenset(known), defined)


# --- A source that was set back -------------------------------------------------------------------


SOURCE: Final = "source"  # of a summary: the token of the source's cut
_FIRST_LOOK: Final = 16  # commits
_WIDER: Final = 8  # times


def refuse_set_back(source: LogReader, now: Position, replica: State) -> None:
    """Compare the position of the source's log with that when it was last replicated.

    Args:
        now: Its position.
        replica: The destination's log.
    Raises:
        ReplicaDiverged: It is behind that, or has another transaction there.
        PlanOutdated: It has gone on since `now`, and that was replicated already.
    Requests: those of the replica's history, down to that commit; 1 LIST and 1 GET of the source
        where it has gone on.
    """
    then = None if now.log is None else _last_replicated(replica, now.log.log_id)
    if then is None or then == now:
        return
    assert then.log is not None
    assert now.log is not None
    if then.log.incarnation < now.log.incarnation:
        return  # rebuilt since
    names = source.names_at(then.log.incarnation, then.revision)
    digest = digest_at(source, names, then.revision)
    is_same = digest is not None and digest[:TOKEN_DIGEST_BYTES] == then.digest
    is_behind = then.log != now.log or now.revision < then.revision
    where = f"{source.writer}/{source.database}"
    if is_same and is_behind:
        raise outdated(where)
    if is_behind or not (is_same or digest is None):  # None: pruned at the source
        raise diverged(
            f"The source of {where} was set back: revision {then.revision}, which was replicated, "
            "is not there any more, or another commit", where,
        )  # fmt: skip


def outdated(where: str) -> PlanOutdated:
    """The error of a difference that was made for another state of the destination's log."""
    return PlanOutdated(
        f"Another replication of {where} was quicker, or somebody else committed there",
        key=where,
        hint="Nothing was lost. Replicate again: it goes on from there",
    )


def _last_replicated(replica: State, log_id: bytes) -> Position | None:
    """The position of a log of the source when it was last replicated; None: not known."""
    for row in _newest_first(replica):
        try:
            cut = parse_token(summary_of(row).get(SOURCE, ""))
        except InvalidToken:  # not a commit of replication
            continue
        for position in cut.writers.values():
            if position.log is not None and position.log.log_id == log_id:
                return position
    return None


def _newest_first(replica: State) -> Iterator[Row]:
    """The commits of a log. Its history is read as far back as they are asked for."""
    low, known, back = replica.revision, 0, _FIRST_LOOK
    while low >= replica.history.first() and low >= 0:
        low = replica.revision - back
        rows = replica.history.after(low)
        yield from reversed(rows[: len(rows) - known])
        known, back = len(rows), back * _WIDER
