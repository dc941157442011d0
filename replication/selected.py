"""Replication of some tables, or of some columns and rows of one: into logs of the destination's
own, one commit a log and round.

What a log of the destination must hold follows from the source's cut alone, file by file, and the
names of the files from all that their rows depend on. So a round compares names, makes what is
missing, and commits what was added and removed; a run that was broken off left files under the
names that the next one looks for. A log of the destination must have been made from the very logs
that the source has now, which the names of its files show, and changed by nobody else; and the
source must not have been set back: the newest commit of the replica names the transaction of the
source's log that it was made from.

Source: docs/replication.md, "Some logs, or some tables, columns or rows".
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Final

from ..catalog.commit.adopt import NewFile
from ..catalog.commit.session import Session
from ..catalog.commit.transaction import Transaction
from ..catalog.data.parquet import write_rows
from ..catalog.data.scan import Projection, scan_files
from ..catalog.data.unify import FileSchema, shown
from ..catalog.format.cut import TOKEN_DIGEST_BYTES, Cut, Position, parse_token
from ..catalog.format.names import (
    base_folder,
    check_path,
    escape_name,
    parse_replica_file,
    partition_folder,
)
from ..catalog.log.history import summary_of
from ..catalog.log.state import empty_state
from ..catalog.margins import CHECKPOINT_EVERY
from ..catalog.parallel import parallel
from ..catalog.read.file_parts import checked, projected
from ..catalog.read.hidden import TombstoneTest, hidden_files
from ..catalog.read.log_folder import writer_ids
from ..catalog.read.log_reader import LogReader
from ..catalog.read.row_filter import row_filter
from ..errors import (
    CorruptError,
    InvalidToken,
    LakelogError,
    PlanOutdated,
    ReplicaDiverged,
    TableNotFound,
    UsageError,
)
from .one_log import destination_error, digest_at, head_of
from .reports import Copied, LogPlan, LogReport
from .transfer import Stopped, diverged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ..catalog.catalog import Catalog
    from ..catalog.changing import AsOf
    from ..catalog.data.file_part import FilePart
    from ..catalog.data.unify import Shown
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
    """A round of such a replication: the selection of a cut of the source."""

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
        there, database = self.destination, self.snapshot.database
        try:
            session = Session(
                there.store, one.writer, database, shared=False, checkpoint_every=CHECKPOINT_EVERY,
                ambient=there.ambient, margins=there.margins, wide=there.wide,
            )  # fmt: skip
        except CorruptError as error:  # the log was lost
            raise destination_error(error, f"{one.writer}/{database}") from error
        with closing(session):
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


def _refuse_other(state: State, head: State) -> None:
    """Raises `PlanOutdated` if a log isn't at the state that a difference holds for."""
    if (head.revision, head.digest) != (state.revision, state.digest):
        raise outdated(f"{state.writer}/{state.database}")


def open_selected(
    source: Catalog,
    destination: Catalog,
    databases: Collection[str] | None,
    selection: Selection,
    as_of: AsOf,
) -> Selected:
    """Opens a round at a cut of the source. Raises `UsageError` for more than one database."""
    named = sorted(set(source.databases() if databases is None else databases))
    if len(named) != 1:
        raise UsageError(
            f"Tables are chosen of one database, and the source has {len(named)}",
            hint=f"Name one of: {', '.join(named)}",
        )
    return Selected(source, destination, source.snapshot(named[0], as_of), selection)


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
        """Returns one log; an empty one if there is none. Raises `LakelogError` if it can't be
        read."""
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
    store = destination.store
    writers = writer_ids(store)

    def read(writer: str) -> ReplicaLog | LakelogError:
        try:
            return _read(LogReader(store, writer, database, destination.ambient), tables)
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


# --- Files and their names ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """Some tables of a database, or some columns and rows of one.

    Attributes:
        tables: Their names.
        columns: Names, in the order wanted; None: all.
        where: Only rows that meet this predicate; None: all.
    """

    tables: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    where: str | None = None


def selection_of(
    tables: Collection[str] | None, columns: Sequence[str] | None, where: str | None
) -> Selection | None:
    """The selection of these; None: whole logs.

    Raises:
        UsageError: Not lists of names; no table, one twice, or columns and rows of several; no
            column; rows that are not chosen by text.
    """
    if tables is None and columns is None and where is None:
        return None
    refuse_name("Tables", tables)
    refuse_name("Columns", columns)
    names, is_part = tuple(tables or ()), columns is not None or where is not None
    if not names and is_part:
        raise UsageError(
            "Columns and rows are chosen of one table, and none is named",
            hint='Name it: --table NAME, or tables=["NAME"]',
        )
    if not names or len(set(names)) < len(names):
        raise UsageError("Name one table or more, each once")
    if len(names) > 1 and is_part:
        raise UsageError(
            "Columns and rows can be chosen of one table at a time",
            hint="Replicate the other tables by a run of their own, into another place",
        )
    if columns is not None and not columns:
        raise UsageError("Name one column or more", hint="None at all are all of them")
    if not isinstance(where, (str, NoneType)):
        # Files are named by it, and the text of an expression is shortened.
        kind = type(where).__name__
        raise UsageError(
            f"Rows to be replicated are chosen by text, and where= is of type {kind}",
            key="where",
            hint="""Write the predicate as text, as where="temp > 4 AND site = 'oslo'\"""",
        )
    return Selection(names, None if columns is None else tuple(columns), where)


def refuse_name(what: str, given: object) -> None:
    """Raises `UsageError` for one name in the place of a list: it is a list of letters."""
    if isinstance(given, str):
        raise UsageError(
            f"{what} are a list of names, not {given!r:.60}", hint=f"Give [{given!r:.60}]"
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that the destination is to have.

    Attributes:
        table, partition: Of the file.
        path: Relative to `<writer>/<database>/`.
        part: The file at the source that it is made of.
        projection: What is read of that.
    """

    table: str
    partition: str
    path: str
    part: FilePart
    projection: Projection


def source_tag(log: LogIdentity) -> str:
    """The part of file names that identifies the source's log that they were made from."""
    return log.log_id.hex()[:16]


def wanted_files(
    selection: Selection, table: str, parts: dict[str, list[FilePart]], cut: Cut
) -> Iterator[tuple[str, Wanted]]:
    """The files that the destination is to have of a table, each with its writer.

    Args:
        parts: By writer those of the cut.
        cut: Of the source.
    Raises:
        UsageError, InvalidPredicate: There is no such column, or the predicate doesn't fit.
        SchemaConflict: Files disagree about the type of a column.
    """
    forms = {
        (writer, part.form): FileSchema(_form(part).schema, writer)
        for writer, own in parts.items()
        for part in own
    }
    if not forms:
        return
    schemas = list(forms.values())
    names = None if selection.columns is None else checked(selection.columns, schemas, table)
    found = None if selection.where is None else row_filter(selection.where, schemas, table)
    whole = projected(schemas, table, names, found)
    had = {part.form: _had(part, whole.read) for own in parts.values() for part in own}
    nobodys = frozenset(whole.given.names).difference(*had.values())
    for writer, own in parts.items():
        log, folder = cut.writers[writer].log, base_folder(writer, cut.database)
        assert log is not None
        for part in own:
            projection = _projection(part, whole, had[part.form] | nobodys)
            name = f"{source_tag(log)}-{_digest(selection, part, projection, folder)}"
            below = f"data/{partition_folder(part.partition)}/{escape_name(table, 'table')}"
            path = check_path(f"{below}/replica-{name}.parquet")
            yield writer, Wanted(table, part.partition, path, part, projection)


def _had(part: FilePart, target: pa.Schema) -> frozenset[str]:
    """The columns of a target that a file has."""
    found = part.found(target)
    return frozenset(found.stored) | frozenset(found.defaults)


def _form(part: FilePart) -> Shown:
    return part.shown or shown(part.schema, None)


def _projection(part: FilePart, whole: Projection, chosen: frozenset[str]) -> Projection:
    """Of the given columns those that the file has, and those that no file has: what it lacks is
    null at the destination too. A file that has none of them is as long, and all null."""
    given = whole.given.names
    names = [name for name in given if name in chosen] or given[:1]
    return Projection(whole.read, whole.keep, names)


def _digest(selection: Selection, part: FilePart, projection: Projection, folder: str) -> str:
    """Of all that the rows of a file depend on; `folder` is the log's, which may be renamed."""
    hidden = part.hidden
    facts: list[object] = [
        part.key.removeprefix(folder), part.size_bytes, part.row_count, part.footer_digest,
        part.fingerprint, part.partition, _form(part).definition, _types(projection.given),
        selection.where, _types(projection.read) if selection.where is not None else (),
    ]  # fmt: skip
    if hidden is not None:
        facts += [_test(test) for test in hidden.tests]
        facts += [(b.key.removeprefix(folder), b.offset, b.digest) for b in hidden.bitmaps]
        facts.append(hidden.superseded)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]


def _types(schema: pa.Schema) -> Sequence[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema]


def _test(test: object) -> object:
    assert isinstance(test, TombstoneTest)
    return test.tombstone.predicate, test.tombstone.columns
