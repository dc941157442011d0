"""What a job of maintenance did: a row for each step, a summary for people, metrics for Prometheus.

Source: docs/maintenance.md, "A nightly job".
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

StepName = Literal["compact", "checkpoint", "prune", "gc", "check", "publish"]
Status = Literal["planned", "done", "idle", "skipped", "failed", "remaining"]

STEPS: Final[tuple[StepName, ...]] = ("compact", "checkpoint", "prune", "gc", "check", "publish")
_LAST: Final = "lakelog_maintenance_last_success_timestamp_seconds"
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')  # databases and steps need no escapes
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class StepRow:
    """What a step did to a database, or to a table of it.

    Attributes:
        step: compact, checkpoint, prune, gc, check or publish.
        database: Its name; empty for a name that is published of all of them.
        table: Of a compaction; else None.
        status: `planned` where nothing is executed; `done`; `idle`: there was nothing to do;
            `skipped`: the policy says so, or the store can't; `failed`; `remaining`: the time was
            up, or the job was asked to stop.
        files_before: How many files or objects it worked on: files to rewrite, checkpoints to
            write, objects to delete, files that were checked.
        files_after: How many of these there are now; None: not executed, or of no meaning.
        bytes: How large what it rewrote, wrote, deleted or read is.
        rows: Of the files that were rewritten.
        seconds: How long it took.
        remaining: How much of it is left: groups, logs.
        findings: Of a check, how many errors and warnings.
        message: What went wrong, or why it was skipped; the names that were published.
        error: Of which class the error is, as `lakelog.errors` names it.
        exit_code: Of the error, for the command line.
    """

    step: StepName
    database: str
    table: str | None
    status: Status
    files_before: int | None = None
    files_after: int | None = None
    bytes: int | None = None
    rows: int | None = None
    seconds: float = 0.0
    remaining: int = 0
    findings: int | None = None
    message: str = ""
    error: str = ""
    exit_code: int = 0

    def to_json(self) -> str:
        """Returns the row as one line of JSON."""
        record = dataclasses.asdict(self)
        record["seconds"] = round(self.seconds, 3)
        return json.dumps(record, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure for Prometheus, with its labels."""

    name: str
    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What a job of maintenance did, or would do.

    Attributes:
        url: Of the catalog, without secrets.
        executed: Whether anything was done.
        rows: One for each step.
        seconds: How long all of it took.
        finished_at_us: When, in µs since 1970, by this machine's clock.
        warnings: What the user should know.
        gauges: Figures of the tables and logs, where they were asked for.
    """

    url: str
    executed: bool
    rows: tuple[StepRow, ...]
    seconds: float
    finished_at_us: int
    warnings: tuple[str, ...] = ()
    gauges: tuple[Gauge, ...] = field(default=(), repr=False)

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do; a check without findings is nothing."""
        return not any(
            row.status in ("planned", "failed", "remaining") or row.findings for row in self.rows
        ) and all(row.status != "done" or row.step == "check" for row in self.rows)

    @property
    def failed(self) -> tuple[StepRow, ...]:
        """The steps that failed."""
        return tuple(row for row in self.rows if row.status == "failed")

    @property
    def remaining(self) -> int:
        """How much is left to be done, in groups and logs."""
        return sum(row.remaining for row in self.rows)

    @property
    def exit_code(self) -> int:
        """Of the command line: that of the first error, 1 if a check has found problems, else 0."""
        codes = [row.exit_code for row in self.failed if row.exit_code]
        found = any(row.findings for row in self.rows)
        return codes[0] if codes else int(found)

    def describe(self) -> str:
        """Returns a summary of about ten lines."""
        lines = []
        for step in STEPS:
            rows = [row for row in self.rows if row.step == step]
            if rows:
                lines.append(f"{step:<10}  {_summary(rows, executed=self.executed)}")
        failures = [
            f"failed: {row.step} of {row.database or 'all databases'}"
            f"{f', table {row.table}' if row.table else ''}: {row.message}"
            for row in self.failed
        ]
        lines += failures[:3] + ([f"and {len(failures) - 3} more"] if len(failures) > 3 else [])
        lines += [f"warning: {text}" for text in self.warnings[:2]]
        lines.append(self._last_line())
        return "\n".join(lines)

    def _last_line(self) -> str:
        number = len({row.database for row in self.rows if row.database})
        took = f"{number} database{'' if number == 1 else 's'} in {self.seconds:.1f} s"
        if self.is_idle:
            return f"{took}: nothing to do"
        if not self.executed:
            return f"{took}: nothing was done; add --execute"
        left = f", {self.remaining} left for the next run" if self.remaining else ""
        bad = f", {len(self.failed)} failed" if self.failed else ""
        return f"{took}{bad}{left}"


def size_text(size_bytes: int) -> str:
    """Returns a size for people: `31.2 MiB`."""
    value, power = float(size_bytes), 0
    while value >= 1023.95 and power < len(_UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.0f} B" if not power else f"{value:.1f} {_UNITS[power]}"


def _summary(rows: list[StepRow], *, executed: bool) -> str:
    step = rows[0].step
    busy = [row for row in rows if row.status in ("planned", "done", "remaining")]
    before = sum(row.files_before or 0 for row in busy)
    after = sum(row.files_after or 0 for row in busy)
    size = size_text(sum(row.bytes or 0 for row in busy))
    would = "" if executed else "would "
    parts = []
    if all(row.status == "skipped" for row in rows):
        return "skipped: " + "; ".join(dict.fromkeys(row.message for row in rows))
    if step == "publish":
        parts = [row.message for row in rows if row.message] or ["nothing to publish"]
    elif step == "check":
        found = sum(row.findings or 0 for row in rows)
        problems = f"{found} problem{'' if found == 1 else 's'}" if found else "no problems"
        verb = "checked" if executed else "would check"
        parts = [f"{verb} {before:,} files: {problems}" if executed else f"{verb} {before:,} logs"]
    elif not before and not any(row.status == "failed" for row in rows):
        parts = ["nothing to do"]
    elif step == "compact":
        into = f" into {after:,}" if executed else ""
        parts = [f"{would}rewrite {before:,} files{into}, {size}"]
    elif step == "checkpoint":
        parts = [f"{would}write {before:,} checkpoints"]
    else:
        number = before - after if executed else before
        parts = [f"{would}delete {number:,} objects, {size}"]
    for status in ("failed", "remaining", "skipped"):
        number = sum(row.status == status for row in rows)
        parts += [f"{number} {status}"] if number else []
    return ", ".join(parts)


# --- Prometheus -----------------------------------------------------------------------------------


_HELP: Final = {
    _LAST: "When a step last succeeded, by the clock of the job.",
    "lakelog_maintenance_duration_seconds": "How long a step took.",
    "lakelog_maintenance_remaining": "What a step left undone, in groups and logs.",
    "lakelog_maintenance_failed": "1 if a step failed, else 0.",
    "lakelog_live_files": "Files of the newest cut.",
    "lakelog_small_files": "Files of the newest cut that a compaction would call small.",
    "lakelog_deleted_rows_ratio": "Share of the stored rows that are deleted by number.",
    "lakelog_orphan_bytes": "Bytes of files that gc was about to delete.",
    "lakelog_head_age_seconds": "How long ago the newest commit of a log was.",
    "lakelog_commits_behind_checkpoint": "Commits since the newest checkpoint of a log.",
    "lakelog_check_findings": "Errors and warnings of the last check.",
}


def prometheus_text(report: MaintenanceReport, before: str = "") -> str:
    """Returns the figures of a job in the text format of Prometheus, without times, as node
    exporter's textfile collector wants them.

    Args:
        before: The text of the job before: a step that didn't succeed now keeps the time at which
            it last did.
    """
    gauges = [*_of_steps(report), *report.gauges]
    new = {_labels(one.labels) for one in gauges if one.name == _LAST}
    kept = [
        line
        for line in before.splitlines()
        if line.startswith(_LAST + "{") and _labels(dict(_LABEL.findall(line))) not in new
    ]
    lines: list[str] = []
    for name, text in _HELP.items():
        own = [
            f"{name}{_labels(one.labels)} {one.value:.15g}" for one in gauges if one.name == name
        ]
        own += kept if name == _LAST else []
        if own:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", *own]
    return "\n".join(lines) + "\n"


def _of_steps(report: MaintenanceReport) -> Iterable[Gauge]:
    if not report.executed:
        return
    by_step: dict[tuple[str, str], list[StepRow]] = {}
    for row in report.rows:
        by_step.setdefault((row.database, row.step), []).append(row)
    for (database, step), rows in by_step.items():
        labels = {"database": database, "step": step}
        bad = any(row.status == "failed" for row in rows)
        left = sum(row.remaining for row in rows)
        good = all(row.status in ("done", "idle") for row in rows) and not left
        if good:
            yield Gauge(_LAST, report.finished_at_us / 1e6, labels)
        seconds = sum(row.seconds for row in rows)
        yield Gauge("lakelog_maintenance_duration_seconds", round(seconds, 3), labels)
        yield Gauge("lakelog_maintenance_remaining", left, labels)
        yield Gauge("lakelog_maintenance_failed", int(bad), labels)
        if step == "check":
            found = sum(row.findings or 0 for row in rows)
            yield Gauge("lakelog_check_findings", found, {"database": database})
        if step == "gc":
            size = sum(row.bytes or 0 for row in rows)
            yield Gauge("lakelog_orphan_bytes", size, {"database": database})


def _labels(labels: Mapping[str, str]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    inner = ",".join(f'{name}="{escaped(value)}"' for name, value in sorted(labels.items()))
    return "{" + inner + "}"


def write_metrics(path: str, report: MaintenanceReport) -> None:
    """Writes the figures of a job to a file, which is replaced as a whole.

    Raises:
        UsageError: It can't be written.
    """
    target = Path(path)
    try:
        before = target.read_text(encoding="utf-8") if target.is_file() else ""
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.absolute().parent, prefix=f".{target.name}.",
            delete=False,
        ) as file:  # fmt: skip
            file.write(prometheus_text(report, before))
        os.chmod(file.name, 0o644)  # another user's node exporter reads it
        os.replace(file.name, target)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", key=path) from error
