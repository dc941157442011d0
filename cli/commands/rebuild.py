"""`lakelog rebuild`: a lost log from the footers of its data files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...errors import LogExists
from .. import output, plans
from ..text import many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...rebuild import RebuildInfo, RebuildPlan

DESCRIPTION: Final = """\
Make a writer's log again, from nothing but the footers of its Parquet files: each names its
transaction, what that was begun on, and what it replaces. Files that are damaged or belong
elsewhere are left out and named; no data file is ever moved or deleted. The last transactions
may have been written and never committed: they are shown as unproven, and --exclude leaves them
out.

Without --execute nothing is written: the plan is shown."""
EXAMPLES: Final = """
lakelog rebuild s3://lake/catalog weather --writer EWR
lakelog rebuild ./catalog weather --writer EWR --plan-out plan.json
lakelog rebuild ./catalog weather --writer EWR --execute plan.json
lakelog rebuild ./catalog weather --writer EWR --replace --execute
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    plans.add_arguments(parser, one_writer=True)
    parser.add_argument(
        "--replace",
        action="store_true",
        help="also if there is a log: what it holds is copied aside first",
    )
    parser.add_argument(
        "--include-foreign",
        action="store_true",
        help="also take in Parquet files of other origin, by table and partition of their path",
    )
    parser.add_argument(
        "--exclude",
        metavar="TRANSACTION",
        action="append",
        default=[],
        help="leave an unproven transaction out (may be repeated)",
    )


def run(args: argparse.Namespace) -> int:
    """Plan, and write if asked."""
    make = partial(
        _plan,
        replace=args.replace,
        include_foreign=args.include_foreign,
        exclude=args.exclude,
    )
    done = "nothing was written"
    return plans.run(args, plans.Step("rebuild", done, make, _load, _execute, _show))


def _plan(
    catalog: Catalog, writer: str, database: str, progress: Any, **wanted: Any
) -> RebuildPlan:
    from ...rebuild import plan_rebuild

    try:
        return plan_rebuild(catalog, writer, database, progress=progress, **wanted)
    except LogExists as error:
        error.hint = "If it is beyond repair add --replace: what it holds is copied aside first"
        raise


def _load(text: str) -> RebuildPlan:
    from ...rebuild import RebuildPlan

    return RebuildPlan.from_json(text)


def _execute(catalog: Catalog, plan: RebuildPlan, progress: Any) -> RebuildInfo:
    from ...rebuild import execute_rebuild

    return execute_rebuild(catalog, plan, progress=progress)


def _show(plan: RebuildPlan, info: RebuildInfo) -> None:
    live = f"{many(info.files, 'file')}, {many(info.rows, 'row')}, {size(info.size_bytes)}"
    output.line(f"rebuilt {plan.writer}/{plan.database} to revision {info.revision}: {live}")
    for group in plan.describe():
        if group.name != "replaced":
            plans.print_group(group)
    if info.replaced_objects:
        old = many(info.replaced_objects, "object")
        output.line(f"\n{old} of the old log were copied aside to {info.replaced_prefix}")
    output.line(f"\ncheckpoint  {info.checkpoint_key}")
