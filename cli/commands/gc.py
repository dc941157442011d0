"""`lakelog gc`: delete data files that nobody needs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import plans
from ..deletions import show_report

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...gc import Plan, Report

DESCRIPTION: Final = """\
Delete data files that no retained revision names: files removed from their tables before the
oldest readable revision, and leftovers of attempts that never committed. Files that could still be
committed are left alone for a grace period of a week by the store's clock. Files that lakelog did
not name (strays) stay unless a pattern asks for them (--strays).

gc stops where the log is another's, was sealed, was set back, or has lost its end.

Without --execute nothing is deleted: the plan is shown, with the reason for each file."""
EXAMPLES: Final = """
lakelog gc s3://lake/catalog weather
lakelog gc ./catalog weather --writer EWR --plan-out plan.json
lakelog gc ./catalog weather --writer EWR --execute plan.json
lakelog gc ./catalog weather --writer EWR --strays 'data/in/*.csv'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    plans.add_arguments(parser)
    parser.add_argument(
        "--strays",
        metavar="PATTERN",
        action="append",
        default=[],
        help="also delete files of more than a week that lakelog didn't name and whose path in the "
        "plan matches (* stands for any characters, / too); repeatable",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, and delete if asked."""
    done = "nothing was deleted"
    make = partial(_plan, strays=args.strays)
    return plans.run(args, plans.Step("gc", done, make, _load, _execute, show_report))


def _plan(
    catalog: Catalog, writer: str, database: str, progress: Any, *, strays: list[str]
) -> Plan:
    from ...gc import plan_gc

    return plan_gc(catalog, writer, database, strays=strays, progress=progress)


def _load(text: str) -> Plan:
    from ...gc import Plan

    return Plan.from_json(text)


def _execute(catalog: Catalog, plan: Plan, progress: Any) -> Report:
    from ...gc import execute_gc

    return execute_gc(catalog, plan, progress=progress)
