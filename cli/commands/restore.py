"""`lakelog restore`: go back to an earlier point in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...catalog.points import point_in_time
from .. import options
from ..change_plans import add_writers, print_plan
from ..opening import open_catalog

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Take a database, or one table of it, back to an earlier point in time: files that came since are
taken out of their tables, and those that were live then are added again; rows that were deleted
since come back, rows that were deleted then are deleted again, and columns and keys are what they
were. That is one commit a writer, on top of its log: history stays as it is, so a restore can be
taken back by another one. No data file is written; those of which rows were deleted by a predicate,
then or since, are read.

Without --execute the plan is shown. It is committed beside whoever has the log open, and only if
nobody has committed since the plan was made; on a store without put-if-absent whoever has the log
open is fenced off.

A token or revisions that don't name all writers leave open what becomes of the others: name those
to be taken back with --writer. A writer that the point in time has nothing of loses all its
files."""
EXAMPLES: Final = """
lakelog restore s3://lake/catalog weather --to 2013-06-30T00:00Z
lakelog restore ./catalog weather hourly --to ll1-CgdleGFtcGxl --execute
lakelog restore ./catalog weather hourly --to EWR=3 --writer EWR --execute
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    parser.add_argument(
        "table", metavar="TABLE", nargs="?", help="the only table to take back; else all"
    )
    parser.add_argument(
        "--to",
        metavar="POINT",
        type=point_in_time,
        required=True,
        help="the point in time, as for --as-of: a time with its zone (2013-06-30T00:00Z), a token "
        "(ll1-...), or a revision for each writer (EWR=3,JFK=2)",
    )
    add_writers(parser, "only this writer's log; may be repeated")
    options.add_execute(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, and commit if asked."""
    catalog = open_catalog(args)
    plan = catalog.restore(
        args.database, args.table, to=args.to, writers=args.writer, execute=args.execute
    )
    print_plan(catalog, plan, args.output)
    return 0
