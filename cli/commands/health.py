"""`lakelog check`, `repair` and `doctor`: find and repair damage, and examine the store."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptError, NotACatalog, NotFoundError, ObjectNotFound
from .. import options, output
from ..command_list import Command
from ..errors import Progress, dry_run
from ..opening import existing_log, open_catalog
from ..output import Column, columns
from ..text import many

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.read.health import Finding, LogHealth
    from ...rebuild.findings import CheckReport, RepairPlan, RepairReport

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
  data     the pages of the data files match their checksums, of all files or of a share, and the
           values of those that another program wrote match the bounds and null counts in their
           footers

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
    from ...rebuild.findings import CheckReport
    from ...rebuild.repair import execute_repair, plan_repair

    catalog = open_catalog(args)
    report: CheckReport | None = None
    if args.report:
        try:
            report = CheckReport.from_json(Path(args.report).read_text(encoding="utf-8"))
        except OSError as error:
            problem = f"{args.report} can't be read: {error.strerror}"
            raise ObjectNotFound(problem, key=args.report) from error
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


# --- The store ------------------------------------------------------------------------------------


_LOGS: Final = (
    *columns("database", "writer"),
    Column("head", style="count"),
    Column("committed_at"),
    Column("epoch", style="count"),
    Column("log_id", "LOG"),
    Column("incarnation", style="count"),
    *columns("named_writer", "named_database", "sealed_for", shown=False),
)
_SHORT_ID: Final = 8
_RACES: Final = (
    "Commits race for one name, which only one can win: a log can't fork, "
    "and several processes may share one."
)
_NO_RACES: Final = (
    "Let only one process at a time commit under a writer id: a fork is detected, not prevented, "
    "and --shared is refused."
)


def _examine(args: argparse.Namespace) -> int:
    from ...catalog.ambient import SYSTEM
    from ...catalog.read.health import compare_logs, examine_log, find_case_twins, find_lost_logs

    catalog = open_catalog(args)
    try:
        targets = _targets(catalog, args)
        findings = find_lost_logs(catalog.store, args.writer, args.database, known=targets)
    except NotFoundError:
        targets = []
        findings = find_lost_logs(catalog.store, args.writer, args.database)
        if not any(finding.severity == "problem" for finding in findings):
            raise
    logs = [
        examine_log(catalog.store, writer, database, ambient=SYSTEM) for writer, database in targets
    ]
    for log in logs:
        findings += log.findings
    findings += compare_logs(logs) + find_case_twins(catalog.store)
    prober = args.writer or (targets[0][0] if targets else None)
    writers = {writer for writer, _ in targets}
    probed = _probe(catalog, None if args.no_probe else prober, writers, findings)
    result = {
        "url": catalog.url,
        **probed,
        "logs": [_log_row(log) for log in logs],
        "problems": [_finding_row(item) for item in findings if item.severity == "problem"],
        "notes": [_finding_row(item) for item in findings if item.severity == "note"],
    }
    if args.output == "text":
        _print(result)
    else:
        output.object_or_rows(args.output, result, _LOGS, result["logs"])
    return 1 if result["problems"] else 0


def _targets(catalog: Catalog, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Writers and databases to examine; none for a new place that a writer is given for."""
    if args.writer is not None and args.database is not None:
        with contextlib.suppress(CorruptError):  # damage is reported when the log is examined
            existing_log(catalog, args.writer, args.database)
        return [(args.writer, args.database)]
    try:
        databases = catalog.databases() if args.database is None else [args.database]
        pairs = [(writer, name) for name in databases for writer in catalog.writers(name)]
    except NotACatalog:
        if args.writer is None:
            raise
        return []
    return [pair for pair in pairs if args.writer in (None, pair[0])]


def _log_row(log: LogHealth) -> dict[str, Any]:
    committed_at_us, named = log.committed_at_us, log.named or (None, None)
    row = {column.name: getattr(log, column.name, None) for column in _LOGS}
    return row | {
        "head": None if log.head < 0 else log.head,
        "committed_at": None if committed_at_us is None else output.utc_from_us(committed_at_us),
        "named_writer": named[0],
        "named_database": named[1],
        "sealed_for": log.sealed_for or None,
    }


def _finding_row(finding: Finding) -> dict[str, Any]:
    return {
        "database": finding.database,
        "writer": finding.writer,
        "text": finding.what,
        "key": finding.key,
        "hint": finding.to_do,
    }


def _probe(
    catalog: Catalog, writer: str | None, writers: set[str], findings: list[Finding]
) -> dict[str, Any]:
    """The abilities of the store; findings are added.

    Requests: those of `examine_store`, and 7; none without a writer.
    """
    from ...catalog.read.health import examine_store, name_rules

    result: dict[str, Any] = {
        "backend": catalog.store.backend,
        "put_if_absent": None,
        "probe_prefix": None,
        "probe": "not probed",
        "meaning": None,
        "names": None,
    }
    if writer is None:
        return result
    capabilities, result["probe"], more = examine_store(catalog.store, writer, writers)
    findings += more
    result["probe_prefix"] = f"{writer}/_probe/"
    if capabilities is not None:
        works = capabilities.put_if_absent
        result |= {"put_if_absent": works, "meaning": _RACES if works else _NO_RACES}
        result["names"] = name_rules(catalog.store, writer)
    return result


def _print(result: dict[str, Any]) -> None:
    words = {True: "works", False: "does not work", None: "unknown"}
    below = f"objects of its own below {result['probe_prefix']}" if result["meaning"] else ""
    output.pairs(
        [
            ("catalog", result["url"]),
            ("backend", result["backend"]),
            ("put-if-absent", words[result["put_if_absent"]]),
            ("probe", result["probe"]),
            ("names", result["names"] or "unknown"),
            ("probed with", below),
        ]
    )
    if result["meaning"]:
        output.note("meaning", result["meaning"])
    output.line()
    logs = [
        {**log, "log_id": log["log_id"] and log["log_id"][:_SHORT_ID]} for log in result["logs"]
    ]
    output.rows("text", _LOGS, logs, empty="no logs yet")
    for heading, items in (("problem", result["problems"]), ("note", result["notes"])):
        for item in items:
            where = f"{item['writer']}/{item['database']}: " if item["writer"] else ""
            about = f" [{item['key']}]" if item["key"] and item["key"] not in item["text"] else ""
            hint = f". {item['hint']}" if item["hint"] else ""
            output.note(heading, where + item["text"] + about + hint)
    output.line()
    number = len(result["problems"])
    output.line(f"{many(number, 'problem')} found" if number else "no problems found")
    output.line("what the logs hold was not read: lakelog check does")


DOCTOR: Final = Command(
    """\
Examine the place: what the store really does (put-if-absent above all), how it treats names, and
which logs exist: each with its head, time, epoch, log id and incarnation, as its newest state says.
It is a problem if a log can't be read, was lost or has lost its end, states another name than its
folder has, exists in two folders, or was sealed for a rebuild that is not done. Ids that differ
only in case and a clock that is ahead are notes.

`lakelog check` reads every object and says whether all that a log names is there and sound.

The only things ever written are small probe objects below <writer>/_probe/, of --writer or else of
the first writer, that threads race for; they are removed again. Where a writer was opened as if
put-if-absent worked, and it doesn't, what it kept there is put right. --no-probe writes nothing.

The exit code is 1 when there are problems.""",
    """
lakelog doctor s3://lake/catalog
lakelog doctor ./catalog weather --writer EWR
lakelog doctor s3://lake/new-place --writer EWR
lakelog doctor s3://lake/catalog --no-probe --output json
""",
    (
        *options.CATALOG,
        options.ONE_DATABASE,
        options.writer(
            "only this writer's logs, and probe below its prefix (it need not exist yet)"
        ),
        options.flag("--no-probe", "write nothing, not even the probe objects"),
    ),
    _examine,
)
