"""The maintenance of a catalog, over all writers: each step alone, and the job that does all.

One rule for all of them: a plan, unless `execute=True`.

Source: docs/maintenance.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from ..errors import UsageError
from .changing import checked_names
from .format.names import check_id
from .scalars import value_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..maintenance.database_plan import DatabasePlan, Lake
    from ..maintenance.job import WholeLake
    from ..maintenance.policy import Policy
    from ..maintenance.report import MaintenanceReport, StepRow
    from ..plans import Place, Progress


class Upkeep:
    """The part of a catalog that maintains it."""

    def checkpoint(
        self: Lake,
        database: str,
        *,
        writers: Sequence[str] | None = None,
        min_commits: int = 1,
        execute: bool = False,
    ) -> DatabasePlan:
        """Write a checkpoint of the newest revision of each log, so that opening it needs no
        replay. Writers do it by themselves. Nobody is fenced.

        Args:
            writers: Only of these logs.
            min_commits: Only of logs with so many commits since their newest checkpoint.
            execute: Do it; else only say what it would do.
        Returns:
            The plan, and where it was executed the reports; `describe()` says it in words.
        Raises:
            DatabaseNotFound, WriterNotFound: There is no such log.
            ForeignLog, StorageError, and the like: The first error, after every log had its turn.
        Requests: Those of `writers`; for each log 1 LIST, and for each that gets a checkpoint those
            of opening a writer, 1 PUT, and 1 for each new segment.
        """
        options = {"min_commits": min_commits}
        return _step(self, "checkpoint", database, options, writers=writers, execute=execute)

    def prune(
        self: Lake,
        database: str,
        *,
        keep_days: float | None = None,
        keep_revisions: int | None = None,
        writers: Sequence[str] | None = None,
        execute: bool = False,
        progress: Progress | None = None,
    ) -> DatabasePlan:
        """Forget the beginning of each log, up to a checkpoint. What is younger than a day by the
        store's clock stays. No row of the newest state goes, and no data file: see `gc`.

        Args:
            keep_days: Every point in time within the last so many days stays readable.
            keep_revisions: So many of the newest revisions of each log stay readable. With both
                given, what either asks for stays.
            writers: Only of these logs.
            execute: Do it; else only say what it would do.
            progress: Called with (done, total, what).
        Returns:
            The plan, and where it was executed the reports; `describe()` says it in words.
        Raises:
            UsageError: Neither retention is given, or one is out of range.
            DatabaseNotFound, WriterNotFound: There is no such log.
            LostTail, ForkError, and the like: The first error, after every log had its turn. Of a
                log in doubt nothing is deleted.
        Requests: Those of `writers`; for each log those of `gc.prune.plan_prune`, and of
            `execute_prune` if there is something to delete.
        """
        keep = {"keep_days": keep_days, "keep_revisions": keep_revisions}
        return _step(
            self, "prune", database, keep, writers=writers, execute=execute, progress=progress
        )

    def gc(
        self: Lake,
        database: str,
        *,
        strays: Iterable[str] = (),
        writers: Sequence[str] | None = None,
        execute: bool = False,
        progress: Progress | None = None,
    ) -> DatabasePlan:
        """Delete the data files that no revision names that can still be read, once they are a week
        old by the store's clock.

        Args:
            strays: Patterns of paths below `<writer>/<database>/`, as of `fnmatch`: files that
                lakelog didn't name go too if one matches.
            writers: Only of these logs.
            execute: Do it; else only say what it would do.
            progress: Called with (done, total, what).
        Returns:
            The plan, and where it was executed the reports; `describe()` says it in words.
        Raises:
            UsageError: A pattern can't be.
            DatabaseNotFound, WriterNotFound: There is no such log.
            LostTail, ForkError, and the like: The first error, after every log had its turn. Of a
                log in doubt nothing is deleted.
        Requests: Those of `writers`; for each log those of `gc.collect.plan_gc`, and of
            `execute_gc` if there is something to delete.
        """
        patterns = (strays,) if isinstance(strays, str) else tuple(strays)
        options = {"strays": patterns}
        return _step(
            self, "gc", database, options, writers=writers, execute=execute, progress=progress
        )

    def maintain(
        self,
        database: str | None = None,
        *,
        policy: Policy | str | os.PathLike[str] | None = None,
        time_limit_s: float | None = None,
        execute: bool = False,
        on_row: Callable[[StepRow], None] | None = None,
        stop: Callable[[], bool] | None = None,
        with_gauges: bool = False,
    ) -> MaintenanceReport:
        """Do all that is due: compact, checkpoint, prune, gc, check a share of the logs, publish,
        for all tables and writers of a database, or of all. Of several such jobs one works at a
        time, by a lease. What fails for one log, table or database keeps no other from its turn.

        Args:
            policy: What is done: its text (TOML), a file's path, or a `Policy`; None: the one that
                is kept in the lake (`set_policy`), else the default, which prunes nothing.
            time_limit_s: Begin nothing later than this; the next run goes on.
            execute: Do it; else only say what it would do.
            on_row: Called with each row of the report as soon as it is known.
            stop: Asked between pieces of work; True ends the job as a time limit does.
            with_gauges: Also read the figures of tables and logs, for metrics.
        Returns:
            A row for each step; `describe()` is a summary. Errors are rows, too.
        Raises:
            MaintenanceRunning: Another job has the lease. Nothing was done.
            InvalidPolicy: The policy can't be read. Nothing was done.
            DatabaseNotFound, NotACatalog: There is nothing to maintain.
        Warns:
            MaintenanceWarning: The policy names what isn't there, or the store has no leases.
        Requests: Those of the steps; with `execute` those of a lease (3 PUT, 2 LIST, 1 GET), and 1
            PUT every 200 s; 1 LIST and 1 GET for the policy.
        """
        from ..maintenance.job import Job
        from ..maintenance.policy import policy_of, stored_policy

        _check_execute(execute)
        if time_limit_s is not None and not time_limit_s >= 0:
            raise UsageError(f"time_limit_s= is a number from 0 on, not {time_limit_s!r:.60}")
        lake = cast("WholeLake", self)
        job = Job(
            lake, policy_of(policy) or stored_policy(lake), time_limit_s=time_limit_s,
            execute=execute, on_row=on_row, stop=stop, with_gauges=with_gauges,
        )  # fmt: skip
        return job.run(None if database is None else check_id(value_of(database), "database"))

    def policy(self: Place) -> Policy:
        """The policy of maintenance that is kept in this lake; the default one if none is.

        Raises:
            InvalidPolicy: A newer lakelog knows more.
        Requests: 1 LIST; 1 GET if there is one.
        """
        from ..maintenance.policy import stored_policy

        return stored_policy(self)

    def set_policy(self: Place, policy: Policy | str | os.PathLike[str]) -> Policy:
        """Keep a policy of maintenance in this lake, so that every job finds it.

        Raises:
            InvalidPolicy: It can't be read; the old one stays.
            RefMoved: Somebody else has set one at the same time.
            CapabilityMissing: The store has no put-if-absent: give each job the file instead.
        Requests: 1 LIST, 1 PUT, and those of `probe` once.
        """
        from ..maintenance.policy import policy_of, store_policy

        found = policy_of(policy)
        if found is None:
            raise UsageError("There is no policy to set", hint="An empty text is the default")
        store_policy(self, found)
        return found


def _step(
    catalog: Lake,
    kind: Literal["checkpoint", "prune", "gc"],
    database: str,
    options: Mapping[str, Any],
    *,
    writers: Sequence[str] | None,
    execute: bool,
    progress: Progress | None = None,
) -> DatabasePlan:
    from ..maintenance.database_plan import Step, run_step

    _check_execute(execute)
    database, names = checked_names(database, writers)
    return run_step(
        catalog, database, Step(kind, options), writers=names, execute=execute, progress=progress
    )


def _check_execute(execute: object) -> None:
    if not isinstance(execute, bool):
        raise UsageError(f"execute= is True or False, not {execute!r:.60}")
