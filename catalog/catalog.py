"""A catalog opened by URL: which databases and writers there are, their history, and snapshots of
them.

Source: docs/format.md, sections 2 and 7.
"""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ..errors import (
    CorruptObject,
    DatabaseNotFound,
    InvalidToken,
    NotACatalog,
    RevisionNotFound,
    TagNotFound,
    TimeBeforeFirstCommit,
    UsageError,
    WriterNotFound,
    it_has,
    some_names,
)
from ..store import Store, WideStore, open_store
from .ambient import SYSTEM, Ambient
from .changing import AsOf, Changing, checked_names
from .format import compute as pc
from .format.columns import column
from .format.cut import Cut, is_token, parse_token
from .format.names import base_folder, check_id
from .format.segments import MAX_TIME_US
from .margins import CHECKPOINT_EVERY, DEFAULT_MARGINS, Margins
from .parallel import parallel
from .read.log_folder import log_places, writer_ids
from .read.log_reader import LogReader
from .read.points_in_time import iso, position_of, refuse_twins, state_at, time_us
from .scalars import value_of
from .upkeep import Upkeep

if TYPE_CHECKING:
    from ..rebuild.findings import CheckReport, RepairReport
    from .commit.change_all import Evolved
    from .commit.compacting import Compaction, CompactOptions
    from .commit.writer import Writer
    from .format.ref import Ref
    from .log.listing import Listing
    from .log.state import State
    from .refs.refs import Refs
    from .snapshot import Snapshot

    CutLike = AsOf | Snapshot | Mapping[str, AsOf | Snapshot]


class LostWriterWarning(UserWarning):
    """A cut that is published lacks writers that the one before it has."""


class Catalog(Changing, Upkeep):
    """All writers' logs under one root.

    Attributes:
        store, url: Where it is; the URL has no secrets.
        wide: The same store, which also reads files that lie elsewhere.
        ambient, margins: Clock and identities; how long things are left alone. For tests.
    """

    def __init__(
        self,
        store: Store,
        *,
        ambient: Ambient = SYSTEM,
        margins: Margins = DEFAULT_MARGINS,
        wide: WideStore | None = None,
    ) -> None:
        if isinstance(store, (str, os.PathLike)):
            raise UsageError(
                f"A Catalog is made of a store, not of {store!r:.60}",
                hint="Call lakelog.open_catalog(url)",
            )
        self.store = store
        self.wide = wide or WideStore(store)
        self.url = store.url
        self.ambient = ambient
        self.margins = margins

    def __repr__(self) -> str:
        return f"Catalog({self.url!r})"

    def databases(self) -> list[str]:
        """Names of all databases of all writers, sorted.

        Raises:
            NotACatalog: There is no log under this root.
        Requests: 1 LIST, 1 for each writer, 1 for each writer and database.
        """
        pairs = self._logs()
        if not pairs:
            raise self._not_a_catalog()
        return sorted({database for _, database in pairs})

    def writers(self, database: str) -> list[str]:
        """Ids of the writers that have a log of a database, sorted.

        Raises:
            DatabaseNotFound: None has.
            NotACatalog: There is no log at all.
        Requests: 1 LIST, and 1 for each writer.
        """
        return [listing.writer for listing in self._listings(database)]

    def history(self, database: str, writer: str | None = None) -> pa.Table:
        """Every revision that is left, with what it did.

        Returns:
            writer, revision, committed_at (timestamp[us, UTC]), operation, epoch, guest,
            files_added, files_removed, rows_added, rows_removed, bytes_added, tables (those it
            touched, 8 at most), table_count, transaction_ids (list of hex), uuid (hex), summary
            (JSON or null), rows_rewritten (how many of those removed stand among those added),
            replaced_where (of an overwrite, or a delete in other writers' files); sorted by
            committed_at, then writer and revision. What a commit doesn't say of itself
            (rows_removed, tables, table_count, ...) is null.
        Raises:
            DatabaseNotFound, WriterNotFound, NotACatalog.
        Requests: 1 LIST and 1 for each writer; then as reading the newest snapshot, and a LIST of
            all names of each log; without `writer` 1 LIST more for each writer that has none.
        """
        from .read.history_table import history_of

        writer = value_of(writer)
        listings = self._listings(database, tell_lost=writer is None)
        if writer is not None:
            listings = [self._pick(listings, writer)]
        parts = parallel(lambda listing: history_of(self._log(listing), listing), listings)
        table = pa.concat_tables(parts)
        order = [("committed_at", "ascending"), ("writer", "ascending"), ("revision", "ascending")]
        return table.sort_by(order)

    def snapshot(
        self,
        database: str,
        as_of: AsOf = None,
        *,
        on_conflict: Literal["raise", "skip"] = "raise",
    ) -> Snapshot:
        """The state of a database over all its writers, at one cut.

        Args:
            as_of: None for the newest; an aware datetime (each writer's newest revision committed
                at or before it); a token of `Snapshot.token`; "@name" of a tag or published cut; or
                a mapping of writer to revision, which is then the whole cut.
            on_conflict: Whether a read of files whose types of a column have no common type raises
                `SchemaConflict`, or leaves some out and warns which
                (`Snapshot.without_conflicts`).
        Raises:
            DatabaseNotFound, WriterNotFound, RevisionNotFound, TimeBeforeFirstCommit, TagNotFound,
                SnapshotPruned: Not there.
            UsageError: Another word for `on_conflict`.
            NaiveTime, InvalidToken: Not a point in time.
            ForkError, CorruptError, UnsupportedFeature: A log that can't be read there.
        Warns:
            LostLogWarning: A writer has no log of this database and once had one, or the checkpoint
                of a log's incarnation is lost: what these hold is missing. (Not of a token, nor of
                a mapping.)
            CheckpointWarning: An older checkpoint of a log was read.
            ClockWarning: The time is now, or later, and the newest commits of a log are stamped
                later still, and left out.
        Requests: 1 LIST, 1 for each writer, and 1 more for each that has no log of the database
            (where data files of it are there 1 LIST, and those of their footers until one tells of
            a log); then 1 GET for a checkpoint and each later transaction of every writer; if there
            is none later, 1 for the beginning of the checkpoint's own. A time before the head of a
            log reads that log twice. A table's pieces of a checkpoint are read when they are asked
            for.
        """
        from .snapshot import Snapshot

        database = value_of(database)
        if on_conflict not in ("raise", "skip"):
            raise UsageError(
                f"on_conflict can't be {on_conflict!r:.60}",
                hint="Give 'raise' (the default) or 'skip'",
            )
        states = self._states(database, as_of)
        chosen = isinstance(as_of, Mapping)
        found = Snapshot(self.wide, database, states, self.ambient, of_writers=chosen)
        return found.without_conflicts() if on_conflict == "skip" else found

    def writer(
        self,
        writer_id: str,
        database: str,
        *,
        shared: bool = False,
        checkpoint_every: int = CHECKPOINT_EVERY,
        compact_every: int = 0,
        operations: Collection[str] | None = None,
    ) -> Writer:
        """Open a writer's log for committing. See `Writer`.

        Args:
            shared: As a guest: commit beside the owner, without fencing it.
            checkpoint_every: Commits between automatic checkpoints; 0 for none.
            compact_every: Commits between compactions of this writer's own small files, beside its
                commits (docs/maintenance.md, "compact"); 0 for none. A failure is a warning;
                closing waits.
            operations: All that it may commit, such as {"append"} (docs/changing.md); None: any.
        Raises:
            UsageError: `checkpoint_every` or `compact_every` is no such number. For the rest see
                `Writer`.
            NestedCatalog: The log would begin inside another catalog.
        Requests: those of `store.probe`, 2 LIST, and as reading the newest state of this one log;
            for a log that isn't there, those of `session.check_birth`, 1 LIST before the store is
            raced on, and for a guest that begins it 1 PUT, 1 LIST and 1 GET.
        """
        from .commit.arguments import check_every
        from .commit.writer import Writer

        compact_every = check_every(compact_every, "compact_every")
        writer = Writer(
            self.store, value_of(writer_id), value_of(database), shared=shared,
            checkpoint_every=check_every(checkpoint_every, "checkpoint_every"),
            ambient=self.ambient, margins=self.margins, wide=self.wide, operations=operations,
        )  # fmt: skip
        if compact_every:
            from .commit.compacting import CompactOptions

            options, only = CompactOptions(tiered=True), [writer.writer_id]
            writer._session.compact_every(
                compact_every,
                lambda: self._compacted(
                    writer.database, None, None, only, options, execute=True, step=lambda *_: None
                ),
            )
        return writer

    def evolve(
        self,
        database: str,
        table: str,
        *,
        writers: Sequence[str] | None = None,
        execute: bool = True,
        **change: Any,
    ) -> list[Evolved]:
        """Change the columns of a table in the logs of all its writers, in one commit a log. Open
        writers go on. A log that has a change already is not given it again, so the call can be
        repeated after one of the commits failed.

        Args:
            writers: Only in the logs of these.
            execute: Commit it; else only say what it would do.
            change: add, drop, rename, widen, default, order, key: as for `Transaction.evolve`.
        Returns:
            One for each writer whose log knows the table.
        Raises:
            UsageError, SchemaConflict, InvalidSchema: As `Transaction.evolve`, and where a log has
                a column that is to be added, with another default; nothing was committed.
            TableNotFound, WriterNotFound: No log of these knows the table, or there is none.
            CapabilityMissing: The store has no put-if-absent, so nobody but the owner can commit:
                use `Transaction.evolve` in each writer.
            ConflictError, CommitOutcomeUnknown, StorageError: The first commit that failed; the
                hint names those before.
        Requests: Those of `snapshot`, and for each log those of opening a writer and a commit.
        """
        from .commit.change_all import evolve_all
        from .data.evolution import make_change

        asked, snapshot = make_change(**change), self.snapshot(database)

        def opened(name: str) -> Writer:
            return self.writer(name, snapshot.database, shared=True)

        tables = snapshot._tables
        return evolve_all(tables, opened, value_of(table), asked, writers, execute=execute)

    # --- Maintenance ------------------------------------------------------------------------------

    def compact(
        self,
        database: str,
        table: str | None = None,
        *,
        where: str | None = None,
        writers: Sequence[str] | None = None,
        target_file_size_bytes: int = 256 << 20,
        min_input_files: int = 5,
        delete_ratio_threshold: float = 0.3,
        max_group_bytes: int = 2 << 30,
        sort_by: str | Sequence[str] | None = None,
        memory_bytes: int = 1 << 30,
        time_limit_s: float | None = None,
        execute: bool = False,
        step: Callable[[int, int], None] = lambda done, total: None,
    ) -> Compaction:
        """Rewrite small files, and files with many deleted rows, into fewer: in one commit for each
        group of files of one log, table, partition and schema. Rows stay what they are: they are
        counted, and a digest of sorted ones is compared, before the commit; deleted rows go, and so
        do references to external files. Live writers go on beside it, and none is fenced.

        Rows that others delete meanwhile are deleted of the new files in the same commit. A group
        whose files others take out, or whose columns change, is rewritten again, three times at
        most; a losing attempt deletes what it wrote. What is done stays done: a run that was
        interrupted is repeated.

        Args:
            table: The only table; None: all.
            where: Only files that may hold rows which meet this predicate (docs/reading.md). With
                `table` only.
            writers: Only files of these.
            target_file_size_bytes: Of the new files. Files below three quarters of it are small.
            min_input_files: The fewest small files that are rewritten together.
            delete_ratio_threshold: The share of rows deleted by number from which on a file is
                rewritten whatever its size.
            max_group_bytes: The most that one commit rewrites, but for files that overlap.
            sort_by: Columns by which the rows of each group are sorted. Files whose ranges of the
                first of these overlap, by the log's statistics, are rewritten, too; others stay.
                With `table` only. None: rows keep their order within a group, and come after those
                of files that stay.
            memory_bytes: What sorted rows may take in memory; a group with more is read several
                times. Without `sort_by` files are read as streams.
            time_limit_s: No group is begun later than this.
            execute: Do it; else only say what it would do.
            step: Called after each group: how many are done, of how many.
        Returns:
            The groups, and how many files stay and why; `describe()` says it in words. Tables with
            a key stay as they are.
        Raises:
            TableNotFound, WriterNotFound: No log knows the table, or there is none of a writer.
            InvalidPredicate, SchemaConflict: The predicate doesn't fit the table.
            CapabilityMissing: The store has no put-if-absent, so a live writer would be fenced.
            UsageError: An argument can't be.
            Else as `Transaction.rewrite`, and a commit.
        Requests: Those of `snapshot` and of `Snapshot.files` with details; when executed for each
            log those of opening a writer, for each group 1 or more GET a file, 1 PUT a new file,
            and a commit.
        """
        from .commit.compacting import CompactOptions
        from .commit.inputs import columns_to_sort

        options = CompactOptions(
            target_file_size_bytes, min_input_files, delete_ratio_threshold, max_group_bytes,
            tuple(columns_to_sort(sort_by)), time_limit_s, memory_bytes,
        )  # fmt: skip
        return self._compacted(database, table, where, writers, options, execute=execute, step=step)

    def _compacted(
        self,
        database: str,
        table: str | None,
        where: str | None,
        writers: Sequence[str] | None,
        options: CompactOptions,
        *,
        execute: bool,
        step: Callable[[int, int], None],
    ) -> Compaction:
        from .commit.compacting import (
            TableFiles,
            deleted_rows,
            execute_compaction,
            plan_compaction,
            sort_ranges,
        )

        if table is None and (where is not None or options.sort_by):
            raise UsageError(
                "where= and sort_by= are about the columns of one table",
                hint="Give table= with them",
            )
        database, names = checked_names(database, writers)
        snapshot = self.snapshot(database)
        states = self._picked(snapshot._states, database, names)
        chosen = column([state.writer for state in states], pa.string())

        def files_of(name: str) -> TableFiles:
            files = snapshot.files(name, where=where, details=True)
            files = files.filter(pc.is_in(files.column("writer"), chosen))
            ranges: Mapping[tuple[str, str], tuple[Any, Any]] = {}
            if options.sort_by:
                ranges = sort_ranges(snapshot._tables, states, name, options.sort_by[0])
            deleted, has_key = deleted_rows(states, name), bool(snapshot.key(name))
            return TableFiles(name, files, deleted, has_key, ranges)

        tables = snapshot.tables() if table is None else [value_of(table)]
        lacking = [name for name in options.sort_by if name not in snapshot.column_names(tables[0])]
        if lacking:
            raise UsageError(
                f"Table {tables[0]!r} has no column {lacking[0]!r} to be sorted by",
                key=lacking[0],
                hint=it_has(lacking[0], snapshot.column_names(tables[0])),
            )
        plan = plan_compaction(database, map(files_of, tables), options)
        if not execute:
            return plan

        def opened(name: str) -> Writer:
            return self.writer(name, database, shared=True)

        return execute_compaction(plan, opened, options, step)

    # --- Check and repair -------------------------------------------------------------------------

    def check(
        self,
        database: str | None = None,
        *,
        writer: str | None = None,
        level: Literal["log", "files", "footers", "data"] = "files",
        read_data_subset: str | None = None,
    ) -> CheckReport:
        """Checks the logs and data files of a database, or of all. Changes nothing.

        Args, Returns, Raises, Requests: See `lakelog.rebuild.check.check`.
        """
        from ..rebuild.check import check

        return check(self, database, writer=writer, level=level, read_data_subset=read_data_subset)

    def repair(
        self,
        database: str | None = None,
        *,
        writer: str | None = None,
        report: CheckReport | None = None,
        execute: bool = False,
    ) -> RepairReport:
        """Puts back what is missing or damaged in a database, or in all.

        Args:
            report: The findings of a check; None: checks first.
            execute: Do it; else only the plan is made.
        Returns:
            What was planned (`report.plan.describe()` is text) and what was done.
        Raises, Requests: See `lakelog.rebuild.repair`.
        """
        from ..rebuild.findings import RepairReport
        from ..rebuild.repair import execute_repair, plan_repair

        plan = plan_repair(self, database, writer=writer, report=report)
        return execute_repair(self, plan) if execute else RepairReport(plan)

    # --- Tags and published cuts ------------------------------------------------------------------

    def tag(
        self,
        name: str,
        cut: CutLike = None,
        *,
        databases: str | Sequence[str] | None = None,
        expires: dt.datetime | dt.timedelta | None = None,
        message: str = "",
    ) -> Ref:
        """Names a cut of one or more databases. `as_of="@name"` reads it, and prune keeps it, until
        the tag expires or is removed.

        Args:
            cut: None for the newest; a snapshot; a token; a mapping of database to a point in time;
                or any other point in time as `snapshot` takes it.
            databases: Of the cut, unless it says so itself; None: all.
            expires: When, or how long from now on.
        Returns:
            The tag.
        Raises:
            ConflictError: There is such a name already.
            SnapshotPruned: Prune has deleted, or is deleting, what is needed to read the cut.
            InvalidName: No letters, digits, '-' and '_', or over 64.
            CapabilityMissing: The store has no put-if-absent.
            Else as `snapshot`.
        Requests: Those of `snapshot` for each database, unless the cut is a token; 2 LIST, 1 GET
            and 1 PUT; for each log 1 LIST and 1 GET for each object that reading it begins with;
            1 PUT for each database; 1 LIST per 1,000 pruned logs.
        """
        now_us, expires_at_us = self.ambient.now_us(), 0
        if isinstance(expires, dt.timedelta):
            expires_at_us = now_us + expires // dt.timedelta(microseconds=1)
        elif isinstance(expires, dt.datetime):
            expires_at_us = time_us(expires)
        elif expires is not None:
            raise UsageError(
                f"expires= can't be {expires!r:.60}",
                key="expires",
                hint="Give a timedelta, or an aware datetime",
            )
        if expires is not None and not now_us < expires_at_us < MAX_TIME_US:
            raise UsageError(f"expires={expires} is in the past, or too far away", key="expires")
        cuts = self._cuts(cut, databases)
        return self._refs().put(name, "tag", cuts, expires_at_us=expires_at_us, message=message)

    def tags(self) -> list[Ref]:
        """Returns all tags and published cuts that stand for something now, by name.

        Requests: 1 LIST (per 1,000 objects on S3), 1 GET for each.
        """
        return self._refs().names()

    def untag(self, name: str) -> None:
        """Removes a tag or a published cut; from then on prune may take what it kept.

        Raises:
            TagNotFound: There is none.
        Requests: 2 LIST, 1 GET, 1 PUT; 1 GET and 1 DELETE for each old entry.
        """
        self._refs().put(value_of(name).removeprefix("@"), "removed", {})

    def publish(
        self,
        name: str,
        cut: CutLike = None,
        *,
        databases: str | Sequence[str] | None = None,
        expect: int | None = None,
        message: str = "",
        keep_days: float = 7.0,
    ) -> Ref:
        """Moves a name to a cut of one or more databases, in one step for all readers of
        `as_of="@name"`. The first call makes the name.

        Args:
            cut, databases: As for `tag`.
            expect: The number that the name must still have, as `find_tag(name).number` says; 0 for
                a name that must be new; None: whatever it stands for.
            keep_days: How long the cut stays readable once it is replaced.
        Returns:
            What the name stands for now; `number` counts its moves.
        Raises:
            RefMoved: Somebody else has moved it.
            ConflictError: The name is a tag's.
            Else, and Requests: as `tag`.
        """
        if expect is not None and (type(expect) is not int or expect < 0):
            raise UsageError(
                f"expect= is the number of a move, or 0, not {expect!r:.60}", key="expect"
            )
        if not 0 <= keep_days <= 36_500:
            raise UsageError(f"keep_days= is a number from 0 on, not {keep_days}", key="keep_days")
        cuts = self._cuts(cut, databases)
        self._warn_of_lost_writers(name, cuts)
        return self._refs().put(
            name, "published", cuts,
            expect=expect, keep_s=int(keep_days * 86_400), message=message,
        )  # fmt: skip

    def _warn_of_lost_writers(self, name: str, cuts: Mapping[str, Cut]) -> None:
        """Warns if the cut that a name stands for has writers that the new one lacks."""
        try:
            before = self.find_tag(name).cuts
        except (TagNotFound, CorruptObject):
            return
        lost = [
            f"{writer}/{database}"
            for database, cut in before.items()
            for writer in cut.writers
            if database in cuts and writer not in cuts[database].writers
        ]
        if lost:
            warnings.warn(
                f"@{name} loses {some_names(lost)}: the new cut doesn't have them",
                LostWriterWarning,
                stacklevel=3,
            )

    def published(self, name: str) -> list[Ref]:
        """Returns the moves of a published cut that are left, the newest first; of a tag its one.

        Raises:
            TagNotFound: There is no such name.
        Requests: 2 LIST, 1 GET for each move and 1 more.
        """
        self.find_tag(name)
        return self._refs().history(name)

    def find_tag(self, name: str) -> Ref:
        """Returns what a tag or published cut stands for now.

        Raises:
            TagNotFound: There is none, or it has expired.
        Requests: 1 LIST, 1 GET.
        """
        return self._refs().find(value_of(name).removeprefix("@"))

    def _refs(self) -> Refs:
        from .refs.refs import Refs

        return Refs(self.store, self.ambient, self.margins)

    def _cuts(self, cut: CutLike, databases: str | Sequence[str] | None) -> dict[str, Cut]:
        """The whole cuts that a caller names, by database."""
        if isinstance(databases, str):
            databases = [databases]
        if isinstance(cut, str) and cut.startswith("@"):
            found = self.find_tag(cut).cuts
            points: dict[str, Any] = {name: found[name] for name in databases or found}
        elif isinstance(cut, Mapping) and not all(isinstance(one, int) for one in cut.values()):
            points = dict(cut)
        elif one := _exact_cut(cut):
            points = {one.database: one}
        else:
            points = dict.fromkeys(databases or self.databases(), cut)
            if isinstance(cut, Mapping) and len(points) > 1:
                raise UsageError(
                    f"Revisions of writers are a point in time of one database, not of "
                    f"{len(points)}",
                    hint="Name it: databases=",
                )
        return {name: self._whole_cut(name, point) for name, point in points.items()}

    def _whole_cut(self, database: str, point: AsOf | Snapshot) -> Cut:
        cut = _exact_cut(point)
        is_whole = cut is not None and all(at.log and at.digest for at in cut.writers.values())
        if cut is None or cut.database != database or not is_whole:
            return self.snapshot(database, cut or point).cut  # type: ignore[arg-type]
        return cut

    # --- Finding logs -----------------------------------------------------------------------------

    def _logs(self) -> list[tuple[str, str]]:
        both = {"transactions", "mirror"}
        return [(w, d) for w, d, folders in log_places(self.store) if both & folders]

    def _listings(self, database: str, *, tell_lost: bool = False) -> list[Listing]:
        """The logs of a database.

        Args:
            tell_lost: Warn of writers that have none and once had one.
        Requests: 1 LIST, and 1 for each writer; those of `_lost_logs` for each that has none.
        """
        database = check_id(value_of(database), "database")
        logs = [
            LogReader(self.store, writer, database, self.ambient)
            for writer in writer_ids(self.store)
        ]
        listings = parallel(lambda log: log.names_for(mirror=False), logs)
        found = [listing for listing in listings if listing.head >= 0 or listing.others]
        if len(found) < len(logs):
            absent = [log for log, one in zip(logs, listings) if one not in found]
            found += self._lost_logs(absent, tell=tell_lost and bool(found))
            found.sort(key=lambda listing: listing.writer)
        if found:
            return found
        there = sorted({name for _, name in self._logs()})
        if not there:
            raise self._not_a_catalog()
        lost = _recovery_hint(self.store, database=database)
        raise DatabaseNotFound(
            f"{self.url} has no database {database!r}",
            key=database,
            hint=lost or it_has(database, there),
        )

    @staticmethod
    def _lost_logs(logs: list[LogReader], *, tell: bool) -> list[Listing]:
        """The listings of logs that are only in their mirrors.

        Args:
            tell: Warn of logs of which neither copy is left.
        Requests: 1 LIST for each log; 1 for each mirror; those of `lost_in_both`.
        """
        from .read.mirror import LostLogWarning, left_out_message, lost_in_both

        def look(log: LogReader) -> Listing | None:
            folders = log.store.list_folders(base_folder(log.writer, log.database))
            if "mirror" in folders and (copies := log.copies()).head >= 0:
                return copies
            error = lost_in_both(log.store, log.writer, log.database, folders) if tell else None
            if error is None:
                return None
            again = log.names_for()  # it may have been begun since
            if again.head < 0:
                text = left_out_message(error, log.writer, log.database)
                warnings.warn(text, LostLogWarning, stacklevel=6)
            return again

        listings = [listing for listing in parallel(look, logs) if listing is not None]
        return [listing for listing in listings if listing.head >= 0]

    def _not_a_catalog(self) -> NotACatalog:
        return NotACatalog(
            f"{self.url} holds no lakelog catalog",
            key=self.url,
            hint=_recovery_hint(self.store)
            or "Check the URL: it is the folder above the writers' folders. A first commit "
            "makes a catalog",
        )

    def _pick(self, listings: Iterable[Listing], writer: str) -> Listing:
        listed = list(listings)
        for listing in listed:
            if listing.writer == writer:
                return listing
        lost = _recovery_hint(self.store, writer, listed[0].database)
        raise WriterNotFound(
            f"Writer {writer!r} has no log of database {listed[0].database!r}",
            key=writer,
            hint=lost or it_has(writer, [listing.writer for listing in listed]),
        )

    def _log(self, listing: Listing) -> LogReader:
        return LogReader(self.store, listing.writer, listing.database, self.ambient)

    # --- Points in time ---------------------------------------------------------------------------

    def _states(
        self, database: str, as_of: AsOf, writers: Collection[str] | None = None
    ) -> list[State]:
        """The states of a database's logs at a point in time, or of those of some writers.

        Raises, Requests: As for `snapshot`; a writer that the point in time has nothing of is left
            out.
        """
        if isinstance(as_of, str) and as_of.startswith("@"):
            return self._states_of_tag(check_id(database, "database"), as_of, writers)
        wanted = self._wanted(check_id(database, "database"), as_of)
        if isinstance(wanted, Cut):
            return self._states_of_cut(wanted, writers)
        listings = self._listings(database, tell_lost=writers is None)
        if writers is not None:
            listings = [listing for listing in listings if listing.writer in writers]
        if wanted is None:
            states = parallel(lambda listing: self._log(listing).load(listing=listing), listings)
        else:
            states = self._states_at(wanted, listings)
        refuse_twins(states)
        return states

    def _wanted(self, database: str, as_of: AsOf) -> Cut | int | None:
        """A cut, a time in µs, or None for the newest."""
        as_of = value_of(as_of)
        if as_of is None:
            return None
        if isinstance(as_of, dt.datetime):
            return time_us(as_of)
        if isinstance(as_of, str):
            if not is_token(as_of):
                raise InvalidToken(
                    f"{as_of[:60]!r} is not a snapshot token",
                    key=as_of[:60],
                    hint="A token begins with ll1-, a tag with @; a time is an aware datetime",
                )
            as_of = parse_token(as_of)
        if isinstance(as_of, Cut):
            if as_of.database != database:
                raise InvalidToken(
                    f"The token is of database {as_of.database!r}, not {database!r}",
                    key=as_of.database,
                )
            return as_of
        if isinstance(as_of, Mapping):
            found = {value_of(w): value_of(r) for w, r in as_of.items()}
            positions = {check_id(w, "writer"): position_of(r) for w, r in found.items()}
            return Cut(database, dict(sorted(positions.items())))
        raise UsageError(
            f"{as_of!r:.60} is no point in time: a value of type {type(as_of).__name__}",
            hint="Give None for the newest, an aware datetime, a token (`snapshot.token`), or a "
            "revision by writer: {'writer': 7}",
        )

    def _states_of_tag(
        self, database: str, name: str, writers: Collection[str] | None
    ) -> list[State]:
        ref = self.find_tag(name)
        if database not in ref.cuts:
            raise DatabaseNotFound(
                f"Tag {ref.name!r} names no cut of database {database!r}",
                key=database,
                hint=it_has(database, sorted(ref.cuts)),
            )
        return self._refs().states(ref, database, writers)

    def _states_of_cut(self, cut: Cut, writers: Collection[str] | None = None) -> list[State]:
        if not cut.writers:
            raise InvalidToken(
                "The cut names no writer", hint="Give at least one writer and revision"
            )

        def load(writer: str) -> State:
            log = LogReader(self.store, writer, cut.database, self.ambient)
            try:
                return state_at(log, cut.writers[writer])
            except RevisionNotFound:
                if log.names_for().head < 0:
                    self._pick(self._listings(cut.database), writer)
                raise

        return parallel(load, [w for w in cut.writers if writers is None or w in writers])

    def _states_at(self, at_us: int, listings: list[Listing]) -> list[State]:
        from .read.points_in_time import load_at

        states = parallel(lambda listing: load_at(self._log(listing), at_us, listing), listings)
        found = [state for state in states if state is not None]
        if not found:
            at = iso(at_us)
            raise TimeBeforeFirstCommit(
                f"At {at} nothing had been committed to {listings[0].database!r}",
                key=at,
                hint="`lakelog log` shows the commit times",
            )
        return found


def _exact_cut(point: Any) -> Cut | None:
    """The cut of a snapshot or a token, or the cut itself; None of what is only a time."""
    point = getattr(point, "cut", point)
    if isinstance(point, str) and is_token(point):
        return parse_token(point)
    return point if isinstance(point, Cut) else None


def _recovery_hint(store: Store, writer: str | None = None, database: str | None = None) -> str:
    from .read.mirror import recovery_hint

    return recovery_hint(store, writer, database)


def open_catalog(
    url: str,
    storage_options: Mapping[str, Any] | None = None,
    location_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Catalog:
    """Open a catalog. Nothing is read until something is asked; a first commit makes a new one.

    Args:
        url: A local path, `file://`, `memory://`, `s3://bucket/prefix`, ...
        storage_options: For the backend (fsspec's names); never shown in any output.
        location_options: The same by URL of a bucket that files lie in; else `storage_options`.
    Raises:
        InvalidUrl: No backend serves the scheme.
        MissingDependency: The backend's package is not installed.
        UsageError: Two of `location_options` are for one bucket.
    Requests: none.
    """
    store = open_store(url, storage_options)
    return Catalog(store, wide=WideStore(store, storage_options, location_options))
