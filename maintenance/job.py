"""The job of maintenance: compact, checkpoint, prune, gc, a check of a share, publish, over all
databases, tables and writers, by a policy.

Databases come one after the other, another one first each day, so that a time limit that is too
short leaves none out for ever; of what is left of it a compaction takes half at most. What fails
for one log, table or database keeps no other from its turn. The lease makes sure that one job works
at a time, and nothing depends on it.

Source: docs/maintenance.md, "A nightly job".
"""

from __future__ import annotations

import datetime as dt
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import xxhash

from ..catalog.parallel import parallel
from ..errors import CapabilityMissing, LakelogError, RefMoved, it_has
from ..gc.plan import Report
from ..rebuild.check import check
from .database_plan import Lake, Step, each_log, execute_log, plan_log
from .lease import Lease
from .report import Gauge, MaintenanceReport, StepRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..catalog.commit.compacting import CompactGroup, Compaction
    from ..catalog.format.ref import Ref
    from ..catalog.snapshot import Snapshot
    from ..rebuild.findings import Level
    from .database_plan import LogPlan, LogReport
    from .policy import Policy, Settings
    from .report import StepName

_AT_ONCE: Final = 8
_DAY_S: Final = 86_400


class MaintenanceWarning(UserWarning):
    """Something about a job of maintenance that the user should know."""


class WholeLake(Lake, Protocol):
    """What the job needs of a catalog."""

    def databases(self) -> list[str]:
        """Names of all databases."""

    def snapshot(self, database: str) -> Snapshot:
        """The newest state of a database."""

    @property
    def compact(self) -> Callable[..., Compaction]:
        """Rewrites small files."""

    @property
    def publish(self) -> Callable[..., Ref]:
        """Moves a name to a cut."""

    @property
    def tag(self) -> Callable[..., Ref]:
        """Names a cut."""

    def tags(self) -> list[Ref]:
        """All names."""


class _Stopped(Exception):
    """The job was asked to stop while groups were rewritten."""


class Job:
    """One run of the job.

    Args:
        policy: What is done.
        time_limit_s: Nothing is begun later than so many seconds after the beginning.
        execute: Do it; else only look.
        on_row: Called with each row as soon as it is known.
        stop: Asked now and then whether to stop.
        with_gauges: Whether to read the figures of tables and logs at the end.
    """

    def __init__(
        self,
        catalog: WholeLake,
        policy: Policy,
        *,
        time_limit_s: float | None,
        execute: bool,
        on_row: Callable[[StepRow], None] | None = None,
        stop: Callable[[], bool] | None = None,
        with_gauges: bool = False,
    ) -> None:
        self._catalog = catalog
        self._policy = policy
        self._execute = execute
        self._on_row = on_row
        self._stop = stop
        self._with_gauges = with_gauges
        self._began_s = self._now_s()
        self._end_s = None if time_limit_s is None else self._began_s + time_limit_s
        self._day = catalog.ambient.now_us() // 1_000_000 // _DAY_S
        self._lease: Lease | None = None
        self._rows: list[StepRow] = []
        self._standing: dict[str, Ref] = {}
        self._warnings: list[str] = []
        self._cuts: dict[str, str] = {}
        self._writers: dict[str, list[str]] = {}
        self._behind: dict[tuple[str, str], int] = {}

    def run(self, database: str | None) -> MaintenanceReport:
        """Does all of it for a database, or for all.

        Raises:
            MaintenanceRunning: Another job has the lease. Nothing was done.
            DatabaseNotFound, NotACatalog: There is nothing to maintain.
        """
        names = self._catalog.databases()
        if database is not None:
            self._catalog.writers(database)  # raises if there is none
            names = [database]
        else:
            self._warn_of_unknown(names)
        first = self._day % len(names)
        with span("lakelog.maintain", {"url": self._catalog.url, "execute": self._execute}):
            if self._execute:
                self._run_alone([*names[first:], *names[:first]], whole=database is None)
            else:
                self._run_all([*names[first:], *names[:first]], whole=database is None)
        return MaintenanceReport(
            self._catalog.url, self._execute, tuple(self._rows), self._now_s() - self._began_s,
            self._catalog.ambient.now_us(), tuple(self._warnings),
            tuple(self._gauges()) if self._with_gauges else (),
        )  # fmt: skip

    def _run_alone(self, names: Sequence[str], *, whole: bool) -> None:
        lease = Lease(self._catalog)
        try:
            lease.__enter__()
        except CapabilityMissing:
            self._warn(
                "This store has no put-if-absent, so nothing keeps a second job from running at "
                "the same time, and nothing can be compacted or published"
            )
            self._run_all(names, whole=whole)
            return
        self._lease = lease
        try:
            self._run_all(names, whole=whole)
        finally:
            lease.__exit__(None, None, None)

    def _run_all(self, names: Sequence[str], *, whole: bool) -> None:
        of_all = [self._policy.lake, *map(self._policy.of_database, names)]
        if any(settings.publish or settings.tag for settings in of_all):
            # Before any cut is taken: what others publish meanwhile is newer, and stays.
            self._standing = {ref.name: ref for ref in self._catalog.tags()}
        for name in names:
            self._run_database(name)
        settings = self._policy.lake
        if not (settings.publish or settings.tag):
            return
        if whole:
            self._step("publish", "", partial(self._publish, "", settings, list(names)))
        else:
            self._add(_skipped("publish", "", "a name of all databases waits for a run on all"))

    def _run_database(self, database: str) -> None:
        settings = self._policy.of_database(database)
        self._compact(database)
        checkpoint = Step("checkpoint", {"min_commits": settings.checkpoint_after})
        keep = {"keep_days": settings.keep_days, "keep_revisions": settings.keep_revisions}
        self._step("checkpoint", database, partial(self._logs, database, checkpoint))
        if any(value is not None for value in keep.values()):
            self._step("prune", database, partial(self._logs, database, Step("prune", keep)))
        else:
            self._add(_skipped("prune", database, "the policy keeps the whole history"))
        if settings.gc:
            self._step("gc", database, partial(self._logs, database, Step("gc", {"strays": ()})))
        else:
            self._add(_skipped("gc", database, "the policy says so"))
        level = settings.check_level
        if level == "none":
            self._add(_skipped("check", database, "the policy says so"))
        else:
            self._step("check", database, partial(self._check, database, settings, level))
        if settings.publish or settings.tag:
            self._step("publish", database, partial(self._publish, database, settings, [database]))

    # --- Rows -------------------------------------------------------------------------------------

    def _step(self, step: StepName, database: str, work: Callable[[], StepRow]) -> None:
        """Does a step; what fails becomes a row."""
        if self._is_over():
            self._add(StepRow(step, database, None, "remaining", remaining=1))
            return
        began_s = self._now_s()
        with span(f"lakelog.{step}", {"database": database}) as current:
            try:
                row = work()
            except LakelogError as error:
                row = _failed(step, database, None, error)
            row = replace(row, seconds=self._now_s() - began_s)
            finish(current, {"status": row.status, "files_before": row.files_before})
        self._add(row)

    def _add(self, row: StepRow) -> None:
        self._rows.append(row)
        if self._on_row is not None:
            self._on_row(row)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        warnings.warn(text, MaintenanceWarning, stacklevel=4)

    def _warn_of_unknown(self, names: Sequence[str]) -> None:
        for name in self._policy.databases.keys() - set(names):
            self._warn(f"The policy names a database {name!r}: {it_has(name, names)}")

    # --- Time -------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        return self._catalog.ambient.monotonic_s()

    def _is_over(self) -> bool:
        late = self._end_s is not None and self._now_s() >= self._end_s
        lost = self._lease is not None and self._lease.is_lost
        return late or lost or (self._stop is not None and self._stop())

    # --- Compaction -------------------------------------------------------------------------------

    def _compact(self, database: str) -> None:
        """Adds a row for each table with something to rewrite, or one for the database."""
        tables: list[str | None] = [None]
        own = [table for name, table in self._policy.tables if name == database]
        if own and not self._is_over():
            try:
                known = self._catalog.snapshot(database).tables()
            except LakelogError as error:
                self._add(_failed("compact", database, None, error))
                return
            for lost in set(own) - set(known):
                what = f"The policy names a table {lost!r} of {database!r}"
                self._warn(f"{what}: {it_has(lost, known)}")
            tables = list(known)
        rows: list[StepRow] = []
        for table in tables:
            rows += self._compact_tables(database, table)
        busy = [row for row in rows if row.status not in ("idle", "skipped")]
        for row in busy or rows[:1]:
            self._add(row)

    def _compact_tables(self, database: str, table: str | None) -> list[StepRow]:
        policy = self._policy
        settings = policy.of_database(database)
        if table is not None:
            settings = policy.of_table(database, table)
        if not settings.compact:
            return [replace(_skipped("compact", database, "the policy says so"), table=table)]
        if self._is_over():
            return [StepRow("compact", database, table, "remaining", remaining=1)]
        began_s = self._now_s()
        with span("lakelog.compact", {"database": database, "table": table}) as current:
            try:
                rows = self._compacted(database, table, settings)
            except CapabilityMissing as error:
                rows = [StepRow("compact", database, table, "skipped", message=error.message)]
            except LakelogError as error:
                rows = [_failed("compact", database, table, error)]
            finish(current, {"status": rows[0].status, "files_before": rows[0].files_before})
        seconds = (self._now_s() - began_s) / len(rows)
        return [replace(row, seconds=seconds) for row in rows]

    def _compacted(self, database: str, table: str | None, settings: Settings) -> list[StepRow]:
        progress: list[tuple[int, int]] = []

        def step(done: int, total: int) -> None:
            progress.append((done, total))
            if done < total and self._is_over_besides_time():
                raise _Stopped

        left_s = None if self._end_s is None else max(0.0, self._end_s - self._now_s()) / 2
        options = {**settings.compaction, "sort_by": settings.sort_by or None}
        try:
            found = self._catalog.compact(
                database, table, **options,
                time_limit_s=left_s, execute=self._execute, step=step,
            )  # fmt: skip
        except _Stopped:
            done, total = progress[-1]
            text = f"stopped after {done} of {total} groups"
            return [
                StepRow(
                    "compact", database, table, "remaining", remaining=total - done, message=text
                )
            ]
        groups: dict[str, list[CompactGroup]] = {}
        for group in found.groups:
            groups.setdefault(group.table, []).append(group)
        rows = [self._row_of(database, name, groups[name]) for name in sorted(groups)]
        return rows or [StepRow("compact", database, table, "idle", 0, 0, 0, 0)]

    def _is_over_besides_time(self) -> bool:
        lost = self._lease is not None and self._lease.is_lost
        return lost or (self._stop is not None and self._stop())

    def _row_of(self, database: str, table: str, groups: Sequence[CompactGroup]) -> StepRow:
        if not self._execute:
            chosen, status, left = groups, "planned", 0
        else:
            chosen = [group for group in groups if group.status == "done"]
            left = len(groups) - len(chosen)
            status = "remaining" if left else "done"
        return StepRow(
            "compact", database, table, status,  # type: ignore[arg-type]
            files_before=sum(len(group.paths) for group in chosen),
            files_after=sum(group.files_after for group in chosen) if self._execute else None,
            bytes=sum(group.size_bytes for group in chosen),
            rows=sum(group.row_count for group in chosen),
            remaining=left,
        )  # fmt: skip

    # --- Checkpoints, prune and gc ----------------------------------------------------------------

    def _names(self, database: str) -> list[str]:
        """The writers of a database, asked for once."""
        if database not in self._writers:
            self._writers[database] = self._catalog.writers(database)
        return self._writers[database]

    def _logs(self, database: str, step: Step) -> StepRow:
        """Plans a step for several logs at once, and executes the plans one after the other."""
        writers = self._names(database)
        plan = partial(plan_log, self._catalog, database, step)
        found = parallel(lambda name: _outcome(partial(plan, name)), writers, at_once=_AT_ONCE)
        plans: list[LogPlan] = [one for one in found if not isinstance(one, LakelogError)]
        errors = [one for one in found if isinstance(one, LakelogError)]
        busy = [one for one in plans if one.effect.number]
        if step.kind == "checkpoint":
            self._behind |= {(database, one.writer): _commits_behind(one) for one in plans}
        done: dict[str, LogReport] = {}
        skipped = 0
        for one in busy if self._execute else ():
            if self._is_over():
                skipped += 1
                continue
            reports, failed = each_log({one.writer: partial(execute_log, self._catalog, one)})
            done |= reports
            errors += failed.values()
        row = _row_of_logs(step.kind, database, busy, done, executed=self._execute)
        if errors:
            more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
            failure = _failed(step.kind, database, None, errors[0])
            row = replace(
                row, status="failed", message=failure.message + more, error=failure.error,
                exit_code=failure.exit_code,
            )  # fmt: skip
        elif skipped:
            row = replace(row, status="remaining")
        return replace(row, remaining=skipped)

    # --- Check ------------------------------------------------------------------------------------

    def _check(self, database: str, settings: Settings, level: Level) -> StepRow:
        if settings.publish or settings.tag or self._policy.lake.publish or self._policy.lake.tag:
            self._cuts[database] = self._catalog.snapshot(database).token  # what is checked
        part, parts = self._day % settings.check_parts, settings.check_parts
        chosen = [
            name
            for name in self._names(database)
            if xxhash.xxh64_intdigest(f"{name}/{database}".encode()) % parts == part
        ]
        if not self._execute:
            status: Any = "planned" if chosen else "idle"
            return StepRow("check", database, None, "idle" if status else status, len(chosen))
        data_parts = settings.check_data_parts
        share = None
        if level == "data" and data_parts > 1:
            share = f"{self._day // parts % data_parts + 1}/{data_parts}"
        files = size = problems = left = 0
        worst = ""
        for name in chosen:
            if self._is_over():
                left += 1
                continue
            report = check(
                self._catalog, database, writer=name,
                level=level,
                read_data_subset=share,
            )  # fmt: skip
            files += report.files
            size += report.bytes_read
            bad = [one for one in report.findings if one.severity != "note"]
            problems += len(bad)
            worst = worst or (f"{bad[0].object} {bad[0].problem}" if bad else "")
        status = "failed" if problems else "remaining" if left else "done" if chosen else "idle"
        hint = f"{worst}; `lakelog check` shows all" if worst else ""
        return StepRow(
            "check", database, None, status, files, files, size,
            remaining=left, findings=problems, message=hint, exit_code=int(bool(problems)),
        )  # fmt: skip

    # --- Publish ----------------------------------------------------------------------------------

    def _publish(self, database: str, settings: Settings, names: list[str]) -> StepRow:
        """Moves the name of a policy to the cut that was checked, and tags it."""
        bad = [row for row in self._rows if row.database in names and row.status == "failed"]
        if bad:
            return _skipped("publish", database, f"{bad[0].step} of {bad[0].database} failed")
        cuts = {name: self._cuts.get(name) or self._catalog.snapshot(name).token for name in names}
        day = dt.datetime.fromtimestamp(self._catalog.ambient.now_us() / 1e6, dt.UTC)
        tag = day.strftime(settings.tag) if settings.tag else ""
        known = self._standing
        standing = known.get(settings.publish)
        same = standing is not None and cuts == {
            name: cut.token for name, cut in standing.cuts.items()
        }
        names_due = [f"@{settings.publish}"] * bool(settings.publish and not same)
        names_due += [f"@{tag}"] * bool(tag and tag not in known)
        text = ", ".join(names_due)
        if not text:
            return StepRow("publish", database, None, "idle", 0)
        if not self._execute:
            return StepRow("publish", database, None, "planned", len(names_due), message=text)
        try:
            if settings.publish and not same:
                number = standing.number if standing is not None else 0
                moved = self._catalog.publish(
                    settings.publish, cuts, expect=number,
                    keep_days=settings.publish_keep_days, message="lakelog maintain",
                )  # fmt: skip
                text = text.replace(f"@{moved.name}", f"@{moved.name} (move {moved.number})")
            if tag and tag not in known:
                expires = dt.timedelta(days=settings.tag_keep_days)
                self._catalog.tag(tag, cuts, expires=expires, message="lakelog maintain")
        except CapabilityMissing as error:
            return _skipped("publish", database, error.message)
        except RefMoved:
            text = f"@{settings.publish} was moved by somebody else since this run began"
            return _skipped("publish", database, text)
        return StepRow("publish", database, None, "done", len(names_due), message=text)

    # --- Figures ----------------------------------------------------------------------------------

    def _gauges(self) -> list[Gauge]:
        """The figures of tables and logs after the job; what can't be read has none."""
        found: list[Gauge] = []
        for database in dict.fromkeys(row.database for row in self._rows if row.database):
            try:
                found += self._gauges_of(database)
            except LakelogError as error:
                self._warnings.append(f"No figures of {database}: {error.message}")
        return found

    def _gauges_of(self, database: str) -> list[Gauge]:
        from ..catalog.commit.compacting import deleted_rows

        snapshot, found = self._catalog.snapshot(database), []
        for table in snapshot.tables():
            files = snapshot.files(table).select(["size_bytes", "row_count"]).to_pydict()
            limit = self._policy.of_table(database, table).target_file_size_bytes * 0.75
            labels = {"database": database, "table": table}
            small = sum(size < limit for size in files["size_bytes"])
            rows = sum(files["row_count"])
            gone = sum(deleted_rows(snapshot._states, table).values())
            found += [
                Gauge("lakelog_live_files", len(files["size_bytes"]), labels),
                Gauge("lakelog_small_files", small, labels),
                Gauge("lakelog_deleted_rows_ratio", gone / rows if rows else 0.0, labels),
            ]
        now_us = self._catalog.ambient.now_us()
        for state in snapshot._states:
            labels = {"database": database, "writer": state.writer}
            age_s = max(0.0, (now_us - state.committed_at_us) / 1e6)
            found.append(Gauge("lakelog_head_age_seconds", round(age_s, 3), labels))
        for (of, writer), commits in self._behind.items():
            if of == database:
                labels = {"database": database, "writer": writer}
                found.append(Gauge("lakelog_commits_behind_checkpoint", commits, labels))
        return found


def _outcome(call: Callable[[], LogPlan]) -> LogPlan | LakelogError:
    try:
        return call()
    except LakelogError as error:
        return error


def _commits_behind(plan: LogPlan) -> int:
    revision, checkpoint = getattr(plan, "revision", 0), getattr(plan, "checkpoint", None)
    return int(revision - (-1 if checkpoint is None else checkpoint))


def _skipped(step: StepName, database: str, why: str) -> StepRow:
    return StepRow(step, database, None, "skipped", message=why)


def _failed(step: StepName, database: str, table: str | None, error: LakelogError) -> StepRow:
    code = getattr(error, "exit_code", 70)
    return StepRow(
        step, database, table, "failed",
        message=str(error), error=type(error).__name__, exit_code=code,
    )  # fmt: skip


def _row_of_logs(
    kind: StepName,
    database: str,
    busy: Sequence[LogPlan],
    done: Mapping[str, LogReport],
    *,
    executed: bool,
) -> StepRow:
    before = sum(plan.effect.number for plan in busy)
    if not executed:
        size = sum(plan.effect.size_bytes for plan in busy)
        return StepRow(kind, database, None, "planned" if busy else "idle", before, None, size)
    size = deleted = 0
    for report in done.values():
        if isinstance(report, Report):
            deleted += report.deleted_objects + report.gone_objects
            size += report.deleted_bytes
        else:
            size += report.size_bytes
    after = before - deleted if kind != "checkpoint" else len(done)
    return StepRow(kind, database, None, "done" if busy else "idle", before, after, size)


# --- Spans of OpenTelemetry, where its API is installed -------------------------------------------


@contextmanager
def span(name: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
    """A span around a piece of work; yields it, or None where there is no OpenTelemetry."""
    try:
        from opentelemetry import trace
    except ImportError:
        yield None
        return
    known = {f"lakelog.{key}": value for key, value in attributes.items() if value is not None}
    with trace.get_tracer("lakelog").start_as_current_span(name, attributes=known) as current:
        yield current


def finish(current: Any, attributes: Mapping[str, Any]) -> None:
    """Adds what is known at the end of a span."""
    if current is not None:
        for key, value in attributes.items():
            if value is not None:
                current.set_attribute(f"lakelog.{key}", value)
