"""`lakelog repair`: put a damaged log back to what it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import ObjectNotFound
from .. import options, output
from ..opening import open_catalog
from ..output import Column
from ..progress import Progress
from ..streams import tell
from ..text import many

if TYPE_CHECKING:
    import argparse

    from ...rebuild.findings import CheckReport
    from ...rebuild.repair import RepairPlan, RepairReport

DESCRIPTION: Final = """\
Put back what is missing or damaged, from the findings of a check. Each log is stored twice: what
one place still has is copied to the other, byte for byte, so that revisions and tokens stay the
same. A checkpoint that neither has is computed from the transactions below it. A data file that is
gone for good is removed from its table by a commit, and the plan says how many rows that costs.

Transactions that are lost in both places are a matter for `lakelog rebuild`.

Without --execute nothing is changed: the plan is shown."""
EXAMPLES: Final = """
lakelog repair s3://lake/catalog weather
lakelog repair s3://lake/catalog weather --writer EWR --execute
lakelog repair ./catalog weather --from findings.json --execute
"""
_COLUMNS: Final = (
    Column("remedy"),
    Column("writer"),
    Column("database"),
    Column("object", whole=True),
    Column("table", shown=False),
    Column("rows", style="count"),
    Column("problem", whole=True),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    parser.add_argument("database", metavar="DATABASE", nargs="?", help="only this database")
    options.add_writer(parser, "only this writer's logs")
    parser.add_argument(
        "--from",
        dest="report",
        metavar="REPORT",
        help="use the findings that `lakelog check --report` saved, instead of checking now",
    )
    parser.add_argument("--execute", action="store_true", help="do what the plan says")


def run(args: argparse.Namespace) -> int:
    """Plan, and repair if asked. The exit code is 1 if something can't be repaired."""
    from ...rebuild.repair import execute_repair, plan_repair

    catalog = open_catalog(args)
    report = _load(args.report) if args.report else None
    with Progress("objects checked") as progress:
        plan = plan_repair(
            catalog, args.database, writer=args.writer, report=report, progress=progress.step
        )
    done: RepairReport | None = None
    if args.execute and plan.steps:
        with Progress("steps done", len(plan.steps)) as progress:
            done = execute_repair(catalog, plan, progress=progress.step)
    if args.output == "json":
        output.json_object(_as_json(plan, done))
    elif args.output != "text":
        output.rows(args.output, _COLUMNS, _as_json(plan, done)["steps"])
    else:
        _print(plan, done)
    if done is None and plan.steps:
        tell("\nDRY RUN: nothing was repaired; add --execute\n")
    return 1 if (plan.left if done is None else done.left) else 0


def _load(path: str) -> CheckReport:
    from ...rebuild.findings import CheckReport

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ObjectNotFound(f"{path} can't be read: {error.strerror}", key=path) from error
    return CheckReport.from_json(text)


def _as_json(plan: RepairPlan, done: RepairReport | None) -> dict[str, Any]:
    steps = [
        {column.name: getattr(finding, column.name) for column in _COLUMNS}
        for finding in (*plan.steps, *plan.left)
    ]
    report = None
    if done is not None:
        names = ("copied", "checkpoints", "removed", "rows_lost", "left")
        report = {name: getattr(done, name) for name in names}
    return {"url": plan.url, "steps": steps, "report": report}


def _print(plan: RepairPlan, done: RepairReport | None) -> None:
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
