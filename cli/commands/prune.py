"""`lakelog prune`: forget old history."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...errors import UsageError
from .. import options, plans
from ..deletions import show_report

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...gc import Plan, Report

DESCRIPTION: Final = """\
Take away the beginning of a log: transactions and checkpoints that are older than what
you keep. The log will begin with a checkpoint, which is read back and verified first. Points in
time before it can no longer be read. Data files are not touched: `lakelog gc` comes after.

Without --execute nothing is deleted: the plan is shown."""
EXAMPLES: Final = """
lakelog prune s3://lake/catalog weather --keep-days 90
lakelog prune ./catalog weather --writer EWR --keep-revisions 1000 --plan-out plan.json
lakelog prune ./catalog weather --writer EWR --execute plan.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    plans.add_arguments(parser)
    parser.add_argument(
        "--keep-revisions",
        metavar="N",
        type=options.whole_number,
        help="keep the newest N revisions readable",
    )
    parser.add_argument(
        "--keep-days",
        metavar="DAYS",
        type=options.positive,
        help="keep what was the state in the last DAYS days",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, and delete if asked."""
    if args.keep_revisions is None and args.keep_days is None and not args.execute:
        raise UsageError(
            "prune needs to know what to keep",
            hint="--keep-days 90, --keep-revisions 1000, or both (what either keeps stays)",
        )
    make = partial(_plan, keep_revisions=args.keep_revisions, keep_days=args.keep_days)
    done = "nothing was deleted"
    return plans.run(args, plans.Step("prune", done, make, _load, _execute, show_report))


def _plan(catalog: Catalog, writer: str, database: str, progress: Any, **keep: Any) -> Plan:
    from ...gc import plan_prune

    return plan_prune(catalog, writer, database, progress=progress, **keep)


def _load(text: str) -> Plan:
    from ...gc import Plan

    return Plan.from_json(text)


def _execute(catalog: Catalog, plan: Plan, progress: Any) -> Report:
    from ...gc import execute_prune

    return execute_prune(catalog, plan, progress=progress)
