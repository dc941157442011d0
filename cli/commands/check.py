"""`lakelog check`: what is wrong with the logs and files, without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import open_catalog
from ..output import Column
from ..progress import Progress
from ..text import many

if TYPE_CHECKING:
    import argparse

    from ...rebuild.findings import CheckReport, Finding

DESCRIPTION: Final = """\
Check the logs and data files of a database, or of all, and change nothing. Every object of a log is
read in both places, the log and its mirror; the chain of transactions is replayed, and every
checkpoint is computed again and compared. Then, by level:

  log      only that
  files    each data file that a retained revision has exists, with its size (the default)
  footers  each footer is the one that the log knows; the deletion vectors can be read
  data     the pages of the data files match their checksums, of all or of a share

A finding names the object, what is wrong, the rows at stake, and the command that repairs it.

The exit code is 1 when there are errors or warnings."""
EXAMPLES: Final = """
lakelog check s3://lake/catalog
lakelog check ./catalog weather --writer EWR --level log
lakelog check ./catalog weather --level data --read-data-subset 1/7
lakelog check ./catalog weather --report findings.json
"""
COLUMNS: Final = (
    Column("severity"),
    Column("object", whole=True),
    Column("problem", whole=True),
    Column("revision", style="count"),
    Column("rows", style="count"),
    Column("writer", shown=False),
    Column("database", shown=False),
    Column("table", shown=False),
    Column("remedy", shown=False),
    Column("first_at", shown=False),
    Column("last_at", shown=False),
    Column("command", shown=False),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    parser.add_argument("database", metavar="DATABASE", nargs="?", help="only this database")
    options.add_writer(parser, "only this writer's logs")
    parser.add_argument(
        "--level",
        choices=("log", "files", "footers", "data"),
        default="files",
        help="how far to look; each level includes the ones before it (files)",
    )
    parser.add_argument(
        "--read-data-subset",
        metavar="SHARE",
        help="with --level data, of which files: 5%%, 1/7 (the first of seven parts), 10GiB",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="save the findings, for `lakelog repair --from FILE`"
    )


def run(args: argparse.Namespace) -> int:
    """Check, and print the findings."""
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
    records = [finding_row(finding) for finding in report.findings]
    if args.output == "text":
        _print(report)
    else:
        output.rows(args.output, COLUMNS, records)
    return 0 if report.is_sound else 1


def finding_row(finding: Finding) -> dict[str, Any]:
    """Returns a finding as a row of the output."""
    row = {column.name: getattr(finding, column.name) for column in COLUMNS}
    return row | {name: output.utc(row[name]) for name in ("first_at", "last_at")}


def _print(report: CheckReport) -> None:
    for finding in report.findings:
        rows = f"; {many(finding.rows, 'row')} at stake" if finding.rows else ""
        output.line(f"{finding.severity}: {finding.object} {finding.problem}{rows}")
    if report.findings:
        output.line()
    for command in dict.fromkeys(f.command for f in report.findings if f.command):
        output.line(f"to repair: {command}")
    files = f" and {many(report.files, 'data file')}" if report.level != "log" else ""
    found = [finding for finding in report.findings if finding.severity != "note"]
    outcome = f"{many(len(found), 'problem')} found" if found else "no problems found"
    output.line(f"checked {many(report.objects, 'object')} of logs{files}: {outcome}")
