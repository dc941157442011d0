"""What a catalog does to what is there already: deleting and updating rows, going back, taking out;
and what changed.

Source: docs/changing.md.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import (
    CapabilityMissing,
    PlanOutdated,
    TableNotFound,
    TimeBeforeFirstCommit,
    UsageError,
    it_has,
)
from .format.cut import Cut
from .format.names import check_id, escape_name
from .read.points_in_time import cut_of
from .scalars import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa

    from ..store import Store, WideStore
    from .ambient import Ambient
    from .commit.change_all import LogChange, LogsNow
    from .commit.change_plan import ChangePlan, Kind
    from .commit.deleting import Mode
    from .commit.plan_change import Prepared
    from .commit.writer import Writer
    from .log.state import State
    from .read.changes import Changes

AsOf = dt.datetime | str | Mapping[str, int] | Cut | None


class Changing(ABC):
    """Deleting and updating rows, going back to an earlier cut, taking files out, dropping a table;
    changes between cuts."""

    store: Store
    wide: WideStore
    url: str
    ambient: Ambient

    @abstractmethod
    def _states(
        self, database: str, as_of: AsOf, writers: Collection[str] | None = None
    ) -> list[State]:
        """The states of logs at a point in time."""

    @abstractmethod
    def writer(self, writer_id: str, database: str, *, shared: bool = False) -> Writer:
        """A writer's log, opened for committing."""

    def delete(
        self,
        database: str,
        table: str,
        where: str,
        *,
        mode: Mode = "auto",
        writers: Sequence[str] | None = None,
        execute: bool = True,
        count: bool = False,
    ) -> list[LogChange]:
        """Delete the rows of a table that meet a predicate, whoever wrote them: by one commit in
        each log that may hold some, as `Transaction.delete` does it, beside whoever has it open.

        Args:
            where: SQL text (docs/reading.md, "Predicates"), over the columns that the table has in
                the newest cut. Rows for which it is null stay.
            mode: As for `Transaction.delete`. Where a log lacks a column of `where`, rows go by
                their numbers.
            writers: Only in the logs of these.
            execute: Commit it; else only say what it would do.
            count: Read the files and count the rows, where nothing is committed.
        Returns:
            One for each log that was changed, or would be.
        Raises:
            TableNotFound, WriterNotFound: No log knows the table, or there is none of a writer.
            InvalidPredicate, SchemaConflict: The predicate doesn't fit the table.
            ConflictError, CommitOutcomeUnknown, StorageError: The first commit that failed, a
                conflict after five tries. It names the logs that are done; the call can be
                repeated.
            Else as `Transaction.delete`.
        Where the store has no put-if-absent there are no guests, and whoever has a log open is
        fenced.

        Requests: Those of `snapshot`, and for each log those of opening a writer, of
            `Transaction.delete` and of a commit; 1 GET for each piece of statistics of the
            predicate's columns.
        """
        from .commit.change_all import delete_all
        from .commit.deleting import check_mode

        check_mode(mode)
        cut = self._cut(database, writers)
        counted = self.wide if count and not execute else None
        table, where = _checked_table(table), value_of(where)
        return delete_all(cut, table, where, mode, execute=execute, counted=counted)

    def update(
        self,
        database: str,
        table: str,
        set: Mapping[str, Any],
        where: Any,
        *,
        writers: Sequence[str] | None = None,
        execute: bool = True,
    ) -> list[LogChange]:
        """Give the rows of a table that meet a predicate other values, whoever wrote them: by one
        commit in each log that holds some, as `Transaction.update` does it, beside whoever has it
        open. The new version of a row stands in the log that held the old one, so that nobody
        misses it or reads it twice.

        Args:
            set, where: As for `Transaction.update`, over the columns that the table has in the
                newest cut.
            writers: Only in the logs of these.
            execute: Commit it; else only say how many files may hold such rows.
        Returns:
            One for each log that was changed, or may be.
        Raises:
            ConflictError, CommitOutcomeUnknown, StorageError: The first commit that failed, a
                conflict after five tries. It names the logs that are done, and the others: repeat
                it for these (`writers`), unless it does no harm to update a row twice.
            Else as `delete`, and `Transaction.update`.
        Requests: Those of `snapshot`, and for each log those of opening a writer, of
            `Transaction.update` and of a commit.
        """
        from .commit.change_all import update_all

        cut = self._cut(database, writers)
        return update_all(cut, _checked_table(table), set, where, execute=execute)

    def restore(
        self,
        database: str,
        table: str | None = None,
        *,
        to: AsOf,
        writers: Sequence[str] | None = None,
        execute: bool | ChangePlan = False,
    ) -> ChangePlan:
        """Go back to an earlier point in time: files that came since are taken out, and those that
        were live then are added again; rows of them are deleted that were deleted then, and others
        come back; columns and keys are what they were. Each writer's difference is committed as one
        transaction on top of its log; history stays as it is, so that this can be taken back
        likewise.

        Args:
            table: The only one to go back; None: all.
            to: As `as_of` of `snapshot`, and not None.
            writers: The only ones to go back. Of one that the cut doesn't have all files are taken
                out. Others stay as they are. None: all; then a token or mapping must name each
                writer that there is now.
            execute: Do it; or only as this plan, which was looked at before, says.
        Returns:
            The plan; where it was executed, with the commits.
        Raises:
            PlanOutdated: Somebody has committed since the plan was made, or it says otherwise.
                Nothing was committed to that writer's log.
            ObjectNotFound: A file that was live then is gone. Nothing was committed.
            SnapshotPruned: The point in time was pruned, perhaps just now: no row was changed.
            TransactionExpired: This process stood still for a day before its commit: that stands,
                and gc may take its files.
            TableNotFound: Neither state knows the table.
            WriterNotFound: `to` or `writers` names one that has no log.
            UsageError: The cut is of another life of a log, or doesn't say enough; or logs would
                give a table different keys.
            RevisionNotFound, and the like: As for `snapshot`.
            FencedError, ForeignLog, CommitOutcomeUnknown: As for any commit.
        Requests: those of two snapshots, and of opening each writer as a guest; 1 HEAD for each
            file that is added again (of more than 1,000 of one log 1 LIST of all its data files),
            1 GET for each piece of a checkpoint that tells of them; 1 PUT, 1 LIST and 1 HEAD for
            each, and where its files were removed long ago 1 PUT and 1 LIST more; before each 1
            LIST, and 1 for each other log and 1 GET for each new transaction of it. Where rows were
            deleted, then or since: 1 GET for each object that says which, 1 or more for each file
            of which a predicate says it, and 1 PUT for 4,096 files of which rows are deleted.
        """
        from .commit.plan_change import (
            plan_restore,
            refuse_unknown_table,
            refuse_unknown_writers,
            refuse_unnamed,
        )
        from .commit.restored_columns import refuse_two_keys

        database, names = checked_names(database, writers)
        table = None if table is None else _checked_table(table)
        if to is None:
            raise UsageError(
                "There is no point in time to go back to", hint="Give one: to=, as `as_of` has it"
            )
        everyone = self._heads(database, None)
        heads = everyone if names is None else self._picked(everyone, database, names)
        refuse_unknown_writers(database, everyone, value_of(to))
        cut = self._earlier(database, to, names, whole=names is None)
        token = cut_of(database, cut)
        if not isinstance(value_of(to), dt.datetime):  # of a time all writers are in the cut
            refuse_unnamed(heads, token, names)
        back_to = {state.writer: state for state in cut}
        prepared = [
            plan_restore(self.wide, each, back_to.get(each.writer), table) for each in heads
        ]
        refuse_two_keys({each.head.writer: each.definitions for each in prepared}, everyone)
        if table is not None:
            refuse_unknown_table(prepared, table)
        gone = [head.writer for head in heads if head.writer not in back_to]
        notes = [f"Writer {name!r} has nothing in the cut: all its files go" for name in gone]
        plan = self._plan("restore", database, table, prepared, to=token.token, notes=notes)
        return self._executed(plan, prepared, execute)

    def remove(
        self,
        database: str,
        table: str,
        *,
        writer: str,
        paths: Sequence[str] = (),
        partition: str | None = None,
        execute: bool | ChangePlan = False,
    ) -> ChangePlan:
        """Take files out of a table, in one commit. The objects stay until gc.

        Args:
            paths: As `Snapshot.files` tells them; of external files their URLs or absolute paths
                will do.
            partition: All files of this one too (`""`: of none).
            execute: As for `restore`.
        Raises:
            FileNotLive: One is not in the table. Nothing was committed.
            PlanOutdated, FencedError, and the like: As for `restore`.
        """
        from .commit.adopt import log_path
        from .commit.plan_change import plan_remove

        database, names = checked_names(database, [writer])
        table = _checked_table(table)
        if isinstance(paths, str):
            raise UsageError(f"Paths are a list, not {paths!r}", hint=f"Give [{paths!r}]")
        if not paths and partition is None:
            raise UsageError("There is nothing to remove", hint="Give paths, or a partition")
        (head,) = self._heads(database, names)
        known = [log_path(self.store, head.writer, database, path) for path in map(value_of, paths)]
        prepared = [plan_remove(head, table, known, value_of(partition))]
        plan = self._plan("remove", database, table, prepared)
        return self._executed(plan, prepared, execute)

    def drop(
        self,
        database: str,
        table: str,
        *,
        writers: Sequence[str] | None = None,
        execute: bool | ChangePlan = False,
    ) -> ChangePlan:
        """Take all files out of a table and forget it, so that it is listed no more. `restore`
        brings it back as long as history goes back so far.

        Args:
            writers: Of these only; None: of all.
            execute: As for `restore`.
        Raises:
            TableNotFound: None of them knows it.
            UsageError: One of them alone gives the table its key, and others keep the table: older
                rows of theirs would be read again.
            PlanOutdated: Somebody has committed meanwhile: to be planned again. Where files were
                added after the others were taken out, the table stays, with those.
            FencedError, and the like: As for `restore`.
        """
        from .commit.plan_change import plan_drop, refuse_lost_key

        database, names = checked_names(database, writers)
        table = _checked_table(table)
        heads = self._heads(database, names)
        if names is not None:
            refuse_lost_key(heads, self._heads(database, None), table)
        found = [plan_drop(head, table) for head in heads]
        prepared = [each for each in found if each is not None]
        if not prepared:
            raise TableNotFound(
                f"Database {database!r} has no table {table!r}",
                key=table,
                hint=it_has(table, sorted({t for head in heads for t in head.schemas.tables()})),
            )
        plan = self._plan("drop", database, table, prepared)
        return self._executed(plan, prepared, execute)

    def changes(
        self,
        database: str,
        table: str,
        since: AsOf,
        until: AsOf = None,
        columns: Sequence[str] | None = None,
        *,
        net: bool = True,
    ) -> pa.RecordBatchReader:
        """The rows that were inserted and deleted between two points in time, as a stream: without
        the ones and with the others, the rows of the earlier are those of the later.

        Commits that only replace files by others with the same rows (of operation `rewrite`) give
        none. Of a table with a key, rows come and go with newer ones.

        Args:
            since, until: As `as_of` of `snapshot`; `until` None: the newest.
            columns: Of the table, in this order; None: all.
            net: Leave out rows that came and went again between. False: what every commit did.
        Returns:
            `_change` (insert or delete), `_writer`, `_revision` and `_committed_at` of the commit
            (null where it isn't known: of rows of a table with a key whose files stay); then the
            columns of the table at `until`, and behind them those that only rows have which came or
            went. By the writer whose files they are, then by revision; of one commit deletes first.
        Raises:
            TableNotFound: Neither cut knows the table.
            UsageError: The cuts don't follow each other, or are of two lives of a log.
            SnapshotPruned: Not all commits between are left: what each did can't be told.
            MissingTransaction, CorruptError: One of them can't be read.
            SchemaConflict: As for `Snapshot.scan`.
            ObjectNotFound (while reading): A file is gone, or what says which rows were deleted.
        Requests: those of two snapshots; 1 LIST a log, and 1 GET for each commit between; 1 or more
            GET a file for each commit that changed its rows, and for each delete before and after
            it. Of a table with a key, those of resolving it at both cuts, and before and after each
            rewrite between (if not `net`, each commit), with those of two snapshots.
        """
        return self._changes(database, table, since, until, columns, net=net).reader(self.wide)

    def _changes(
        self,
        database: str,
        table: str,
        since: AsOf,
        until: AsOf,
        columns: Sequence[str] | None,
        *,
        net: bool,
    ) -> Changes:
        from .read.changes import table_changes

        database, _ = checked_names(database, None)
        table = _checked_table(table)
        until_states = sorted(self._states(database, until), key=lambda state: state.writer)
        since_states = self._earlier(database, since, None, whole=False)
        return table_changes(
            self.wide,
            self.ambient,
            since_states,
            until_states,
            table,
            columns=columns,
            net=net,
            state_at=lambda writer, revision: self._states(database, {writer: revision})[0],
        )

    # --- Behind them ------------------------------------------------------------------------------

    def _cut(self, database: str, writers: Sequence[str] | None) -> LogsNow:
        from .commit.change_all import LogsNow

        database, names = checked_names(database, writers)

        def states() -> list[State]:
            heads = self._heads(database, None)
            self._picked(heads, database, names)  # raises if one isn't there
            return heads

        return LogsNow(states, self._opened(database), names)

    def _opened(self, database: str) -> Callable[[str], Writer]:
        """Opens the logs of writers as a guest: nobody is fenced. Where the store has no
        put-if-absent there are none, and writers that have a log open are fenced."""

        def opened(name: str) -> Writer:
            try:
                return self.writer(name, database, shared=True)
            except CapabilityMissing:
                return self.writer(name, database)

        return opened

    def _heads(self, database: str, writers: Sequence[str] | None) -> list[State]:
        """Returns the newest states, by writer. Raises `WriterNotFound` if one of these has no
        log."""
        found = [s for s in self._states(database, None, writers) if s.revision >= 0]
        return self._picked(found, database, writers)

    def _picked(
        self, states: Sequence[State], database: str, writers: Sequence[str] | None
    ) -> list[State]:
        """Those of some writers, sorted by these."""
        found = [s for s in states if writers is None or s.writer in writers]
        lost = set(writers or ()) - {state.writer for state in found}
        if lost:
            self._states(database, {min(lost): 0})  # raises the error that fits
        return sorted(found, key=lambda state: state.writer)

    def _earlier(
        self, database: str, as_of: AsOf, writers: Sequence[str] | None, *, whole: bool
    ) -> list[State]:
        """The states at an earlier point; none of writers that had committed nothing by then.

        Raises:
            TimeBeforeFirstCommit: Nobody had, if all of the database is asked for (`whole`).
        """
        try:
            found = self._states(database, as_of, writers)
        except TimeBeforeFirstCommit:
            if whole:
                raise
            return []
        return sorted((s for s in found if s.revision >= 0), key=lambda state: state.writer)

    def _plan(
        self,
        kind: Kind,
        database: str,
        table: str | None,
        prepared: Sequence[Prepared],
        *,
        to: str = "",
        notes: Sequence[str] = (),
    ) -> ChangePlan:
        from .commit.change_plan import ChangePlan

        changes = tuple(each.change for each in prepared)
        return ChangePlan(kind, self.url, database, table, to, changes, tuple(notes))

    def _executed(
        self, plan: ChangePlan, prepared: Sequence[Prepared], execute: bool | ChangePlan
    ) -> ChangePlan:
        """The plan, executed if it is asked for."""
        if execute is False:
            return plan
        if execute is not True and not hasattr(execute, "changes"):
            raise UsageError(
                f"execute= can't be {execute!r:.60}", hint="Give True, or a plan that was looked at"
            )
        if execute is not True and not _same(plan, execute):
            raise PlanOutdated(
                f"The {plan.kind} of {plan.database} would do something else by now than its plan "
                "says",
                key=plan.database,
                hint="Nothing was committed. Plan again, and look at the new plan",
            )
        from .commit.execute_change import Execution

        execution = Execution(plan, self._opened(plan.database), self.wide, self.ambient)
        return replace(plan, changes=tuple(execution.run(prepared)))


def _same(plan: ChangePlan, other: ChangePlan) -> bool:
    """Whether two plans do the same to the same heads."""
    fields = ("kind", "url", "database", "table", "to")
    if any(getattr(plan, name) != getattr(other, name) for name in fields):
        return False
    if len(plan.changes) != len(other.changes):
        return False
    return all(one.same_as(two) for one, two in zip(plan.changes, other.changes, strict=True))


def checked_names(database: str, writers: Sequence[str] | None) -> tuple[str, list[str] | None]:
    """Checks names; returns the writers once each. Raises `UsageError` or `InvalidName`."""
    database = check_id(value_of(database), "database")
    if writers is None:
        return database, None
    if isinstance(writers, str):
        raise UsageError(f"Writers are a list, not {writers!r}", hint=f"Give [{writers!r}]")
    names = {check_id(value_of(name), "writer") for name in writers}
    if not names:
        raise UsageError("No writer is named", hint="Leave writers out for all")
    return database, sorted(names)


def _checked_table(table: str) -> str:
    table = value_of(table)
    escape_name(table, "table")
    return table
