"""`lakelog maintain` and `lakelog policy`: the job that keeps a lake in order, and what it does."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from ...errors import UsageError
from .. import errors, options, output
from ..command_list import Command
from ..errors import Progress, dry_run
from ..opening import open_catalog
from ..output import Column, columns

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from ...maintenance.report import MaintenanceReport, StepRow

_ROWS: Final = (
    *columns("step", "database", "table", "status"),
    *columns("files_before", "files_after", style="count"),
    Column("bytes", style="size"),
    Column("rows", style="count"),
    Column("seconds"),
    *columns("remaining", "findings", "exit_code", style="count"),
    Column("message", whole=True),
    Column("error"),
)
_ACTIONS: Final = ("show", "set")


# --- The job --------------------------------------------------------------------------------------


def _maintain(args: argparse.Namespace) -> int:
    """Run the job, and write its rows as they come. An error of one step stops no other."""
    from ...maintenance.report import write_metrics

    catalog, redact = open_catalog(args), errors.running().redact
    with ExitStack() as stack:
        asked = stack.enter_context(_asked_to_stop())
        file = None if args.report is None else stack.enter_context(_opened(args.report))
        progress = stack.enter_context(Progress("steps of maintenance"))

        def on_row(row: StepRow) -> None:
            progress.step(1)
            if file is not None:
                file.write(replace(row, message=redact(row.message)).to_json() + "\n")
                file.flush()

        report = catalog.maintain(
            args.database,
            policy=None if args.policy is None else Path(args.policy),
            time_limit_s=args.time_limit,
            execute=args.execute,
            on_row=on_row,
            stop=lambda: bool(asked),
            with_gauges=args.metrics_file is not None,
        )
    if args.metrics_file is not None:
        write_metrics(args.metrics_file, report)
    _print(args, report, redact)
    if args.execute and report.is_idle and not report.exit_code:
        return int(args.idle_exit_code)
    if not args.execute and not report.is_idle:
        dry_run("nothing was done")
    return report.exit_code


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """A list that holds SIGTERM once it has come: the job ends its piece of work, and reports."""
    asked: list[int] = []
    try:
        before = signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    except ValueError:  # in another thread than the first no signal can be taken
        yield asked
        return
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    try:
        file = open(name, "w", encoding="utf-8")  # noqa: SIM115 - only opening is excused
    except OSError as error:
        raise UsageError(f"{name} can't be written: {error.strerror}", key=name) from error
    with file:
        yield file


def _print(
    args: argparse.Namespace, report: MaintenanceReport, redact: Callable[[str], str]
) -> None:
    if args.output == "text":
        output.line(redact(report.describe()))
        return
    records = [_record(row, redact) for row in report.rows]
    head = {
        "url": report.url,
        "dry_run": not report.executed,
        "idle": report.is_idle,
        "seconds": round(report.seconds, 3),
        "remaining": report.remaining,
        "warnings": list(report.warnings),
    }
    output.rows(args.output, _ROWS, records, head=head, name="steps")


def _record(row: StepRow, redact: Callable[[str], str]) -> dict[str, Any]:
    return asdict(row) | {"message": redact(row.message), "seconds": round(row.seconds, 3)}


MAINTAIN: Final = Command(
    """\
Do all that is due, over all databases, tables and writers, or in one database: compact, checkpoint,
prune, gc, check a share of the logs, publish. A policy sets the details: a file, or the one stored
in the lake (`lakelog policy`). Without any, no history is deleted.

Meant to be run every night. One job works at a time on a lake; a second one ends with exit code 4.
A failure in one log, table or database stops no other. At --time-limit, and on SIGTERM, it finishes
its current piece of work, reports what remains, and exits with 0; the next run goes on.

Without --execute nothing is done: the plan is shown.""",
    """
lakelog maintain s3://lake/catalog
lakelog maintain s3://lake/catalog --time-limit 45m --execute
lakelog maintain ./catalog weather --policy policy.toml --execute -o json
lakelog maintain ./catalog --execute --report run.jsonl --metrics-file /var/lib/node/lakelog.prom
lakelog maintain ./catalog --execute --idle-exit-code 99
""",
    (
        *options.CATALOG,
        options.ONE_DATABASE,
        options.argument("--policy", "FILE", "what to do, in TOML; else the one kept in the lake"),
        options.argument(
            "--time-limit",
            "TIME",
            "begin nothing later than this: 90s, 45m, 2h",
            type=options.duration_s,
        ),
        options.argument(
            "--report", "FILE", "write a line of JSON for each step as soon as it is done"
        ),
        options.argument(
            "--metrics-file",
            "FILE",
            "write figures for Prometheus (node exporter's textfile collector), as a whole",
        ),
        options.argument(
            "--idle-exit-code",
            "N",
            "the exit code where there was nothing to do (default 0; 99: skipped, for Airflow)",
            type=int,
            default=0,
        ),
        options.execute("do it"),
    ),
    _maintain,
)


# --- The policy -----------------------------------------------------------------------------------


def _policy(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    if args.action == "show":
        if args.file is not None:
            raise UsageError("show takes no file", hint="`lakelog policy set URL FILE` stores one")
        found = catalog.policy()
    elif args.file is None:
        raise UsageError("set needs a file", hint="Give its name, or - for stdin")
    else:
        found = catalog.set_policy(sys.stdin.read() if args.file == "-" else Path(args.file))
    if args.output == "text":
        empty = "# no policy: the whole history is kept"
        output.line(found.text.rstrip("\n") or empty)
        return 0
    rows = [_settings("", None, found.lake)]
    rows += [_settings(name, None, one) for name, one in found.databases.items()]
    rows += [_settings(name, table, one) for (name, table), one in found.tables.items()]
    output.rows(args.output, columns(*rows[0]), rows)
    return 0


def _settings(database: str, table: str | None, settings: Any) -> dict[str, Any]:
    record = {"database": database or None, "table": table, **asdict(settings)}
    return record | {"sort_by": list(settings.sort_by)}


POLICY: Final = Command(
    """\
Show the policy of maintenance that is kept in a lake, or keep another one there: what `lakelog
maintain` does, wherever it runs. It is TOML, and checked before it is stored:

  keep_days = 30                         # prune; without it the whole history is kept

  [databases.weather]
  keep_days = 90
  publish = "weather-nightly"            # moved to the newest cut if nothing failed

  [databases.weather.tables.hourly]
  target_file_size_bytes = "128MiB"
  sort_by = ["time_hour"]""",
    """
lakelog policy show ./catalog
lakelog policy set ./catalog policy.toml
lakelog policy set s3://lake/catalog - < policy.toml
""",
    (
        options.argument("action", "ACTION", "show or set", choices=_ACTIONS),
        *options.CATALOG,
        options.argument("file", "FILE", "set: the new policy; - for stdin", nargs="?"),
    ),
    _policy,
)
