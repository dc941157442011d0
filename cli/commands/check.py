"""`lakelog check` and `lakelog repair`: find damage of logs and files, and repair it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import ObjectNotFound
from .. import options, output
from ..command_list import Command
from ..errors import Progress, dry_run
from ..opening import open_catalog
from ..output import Column, columns
from ..text import many

if TYPE_CHECKING:
    import argparse

    from ...rebuild.findings import CheckReport
    from ...rebuild.repair import RepairPlan, RepairReport

_FINDINGS: Final = (
    Column("severity"),
    *columns("object", "problem", whole=True),
    *columns("revision", "rows", style="count"),
    *columns(
        "writer", "database", "table", "remedy", "first_at", "last_at", "command", shown=False
    ),
)
_STEPS: Final = (
    *columns("remedy", "writer", "database"),
    Column("object", whole=True),
    Column("table", shown=False),
    Column("rows", style="count"),
    Column("problem", whole=True),
)


# --- Check ----------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    from ...rebuild.check import check

    catalog = open_catalog(args)
    with Progress("objects checked") as progress:
        report = check(
            catalog,
            args.database,
            writer=args.writer,
            level=args.level,
            read_data_subset=args.read_data_subset,
            progress=progress.step,
        )
    if args.report:
        Path(args.report).write_text(report.to_json(), encoding="utf-8")
    if args.output == "text":
        _print_report(report)
    else:
        rows = [
            {c.name: getattr(finding, c.name) for c in _FINDINGS} for finding in report.findings
        ]
        for row in rows:
            row |= {name: output.utc(row[name]) for name in ("first_at", "last_at")}
        output.rows(args.output, _FINDINGS, rows)
    return 0 if report.is_sound else 1


def _print_report(report: CheckReport) -> None:
    for finding in report.findings:
        rows = f"; {many(finding.rows, 'row')} at stake" if finding.rows else ""
        output.line(f"{finding.severity}: {finding.object} {finding.problem}{rows}")
    if report.findings:
        output.line()
    for command in dict.fromkeys(f.command for f in report.findings if f.command):
        output.line(f"to repair: {command}")
    files = f" and {many(report.files, 'data file')}" if report.level != "log" else ""
    problems = [finding for finding in report.findings if finding.severity != "note"]
    outcome = f"{many(len(problems), 'problem')} found" if problems else "no problems found"
    output.line(f"checked {many(report.objects, 'object')} of logs{files}: {outcome}")


CHECK: Final = Command(
    """\
Check the logs and data files of a database, or of all, and change nothing. Every object of a log is
read in both places, the log and its mirror; the chain of transactions is replayed, and every
checkpoint is computed again and compared. Then, by level:

  log      nothing more
  files    each data file that a retained revision names exists, with its size (the default)
  footers  each footer is the one that the log knows; the deletion vectors can be read
  data     the pages of the data files match their checksums, of all files or of a share

A finding names the object, the problem, the rows at stake, and the command that repairs it.

The exit code is 1 when there are errors or warnings.""",
    """
lakelog check s3://lake/catalog
lakelog check ./catalog weather --writer EWR --level log
lakelog check ./catalog weather --level data --read-data-subset 1/7
lakelog check ./catalog weather --report findings.json
""",
    (
        *options.CATALOG,
        options.ONE_DATABASE,
        options.writer("only this writer's logs"),
        options.choice(
            "--level",
            ("log", "files", "footers", "data"),
            "how far to look; each level includes the ones before it (files)",
            default="files",
        ),
        options.argument(
            "--read-data-subset",
            "SHARE",
            "with --level data, of which files: 5%%, 1/7 (the first of seven parts), 10GiB",
        ),
        options.argument("--report", "FILE", "save the findings, for `lakelog repair --from FILE`"),
    ),
    _check,
)


# --- Repair ---------------------------------------------------------------------------------------


def _repair(args: argparse.Namespace) -> int:
    """Plan, and repair if asked. The exit code is 1 if something can't be repaired."""
    from ...rebuild.repair import execute_repair, plan_repair

    catalog = open_catalog(args)
    report = _load_report(args.report) if args.report else None
    with Progress("objects checked") as progress:
        plan = plan_repair(
            catalog, args.database, writer=args.writer, report=report, progress=progress.step
        )
    done: RepairReport | None = None
    if args.execute and plan.steps:
        with Progress("steps done", len(plan.steps)) as progress:
            done = execute_repair(catalog, plan, progress=progress.step)
    findings = (*plan.steps, *plan.left)
    steps = [{c.name: getattr(finding, c.name) for c in _STEPS} for finding in findings]
    if args.output == "text":
        _print_repair(plan, done)
    else:
        names = ("copied", "checkpoints", "removed", "rows_lost", "left")
        fields = None if done is None else {name: getattr(done, name) for name in names}
        value = {"url": plan.url, "steps": steps, "report": fields}
        output.object_or_rows(args.output, value, _STEPS, steps)
    if done is None and plan.steps:
        dry_run("nothing was repaired")
    return 1 if (plan.left if done is None else done.left) else 0


def _load_report(path: str) -> CheckReport:
    from ...rebuild.findings import CheckReport

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ObjectNotFound(f"{path} can't be read: {error.strerror}", key=path) from error
    return CheckReport.from_json(text)


def _print_repair(plan: RepairPlan, done: RepairReport | None) -> None:
    output.line(plan.describe())
    if done is None:
        return
    output.line()
    output.line(
        f"copied {many(done.copied, 'object')}, computed {many(done.checkpoints, 'checkpoint')}, "
        f"removed {many(done.removed, 'data file')} ({many(done.rows_lost, 'row')} lost)"
    )
    for text in done.left:
        output.line(f"left: {text}")


REPAIR: Final = Command(
    """\
Restore what is missing or damaged, from the findings of a check. Each log is stored twice: what is
intact in one place is copied to the other, byte for byte, so that revisions and tokens stay the
same. A checkpoint that is lost in both is computed from the transactions below it. A data file that
is gone for good is removed from its table by a commit, and the plan says how many rows that costs.

If transactions are lost in both places, use `lakelog rebuild`.

Without --execute nothing is changed: the plan is shown.""",
    """
lakelog repair s3://lake/catalog weather
lakelog repair s3://lake/catalog weather --writer EWR --execute
lakelog repair ./catalog weather --from findings.json --execute
""",
    (
        *options.CATALOG,
        options.ONE_DATABASE,
        options.writer("only this writer's logs"),
        options.argument(
            "--from",
            "REPORT",
            "use the findings that `lakelog check --report` saved, instead of checking now",
            dest="report",
        ),
        options.execute("execute the plan"),
    ),
    _repair,
)
