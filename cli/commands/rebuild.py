"""`lakelog rebuild`: a lost log from the footers of its data files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import engines, output, plans
from ..progress import Progress
from ..text import many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.parallel import Engine
    from ...rebuild import RebuildInfo, RebuildPlan

DESCRIPTION: Final = """\
Make a writer's log again where both copies of something are lost: from what can still be read of
either copy, and from the footers of the Parquet files. No row that is in the store is lost; rows
that had been removed may come back, and the plan says which. Nothing is overwritten, moved or
deleted: the old log is sealed, and the new one stands beside it as the next incarnation. Of some
transactions nothing may say whether they were committed: they are shown as unproven, and --exclude
leaves them out.

Without --execute nothing is written: the plan is shown."""
EXAMPLES: Final = """
lakelog rebuild s3://lake/catalog weather --writer EWR
lakelog rebuild ./catalog weather --writer EWR --plan-out plan.json
lakelog rebuild ./catalog weather --writer EWR --execute plan.json
lakelog rebuild ./catalog weather --writer EWR --execute
lakelog rebuild s3://lake/catalog weather --writer EWR --engine spark --spark spark.master=yarn
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    plans.add_arguments(parser, one_writer=True)
    parser.add_argument(
        "--exclude",
        metavar="TRANSACTION",
        action="append",
        default=[],
        help="leave an unproven transaction out (may be repeated)",
    )
    engines.add_arguments(parser, "the reading of footers")


def run(args: argparse.Namespace) -> int:
    """Plan, and write if asked."""
    engine = engines.engine_of(args, "rebuild")
    make = partial(_plan, exclude=args.exclude, engine=engine)

    def planning(what: str) -> Progress:
        progress = Progress(what, asked=engine is not None)
        if engine is not None:
            engine.shown = progress
        return progress

    done = "nothing was written"
    step = plans.Step("rebuild", done, make, _load, _execute, _show, planning, makes_state=True)
    try:
        return plans.run(args, step)
    finally:
        if engine is not None:
            engine.close()


def _plan(
    catalog: Catalog,
    writer: str,
    database: str,
    progress: Any,
    *,
    engine: Engine | None,
    **wanted: Any,
) -> RebuildPlan:
    from ...rebuild import plan_rebuild

    return plan_rebuild(catalog, writer, database, engine=engine, progress=progress, **wanted)


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
        if group.name != "incarnations":
            plans.print_group(group)
    old = plan.seal.log.incarnation
    if plan.old_objects:
        stays = many(plan.old_objects, "object")
        output.line(f"\n{stays} of the old log stay; incarnation {old} is sealed")
    output.line(f"\ncheckpoint  {info.checkpoint_key}")
