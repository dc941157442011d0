"""`lakelog remove`: take files out of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import options
from ..change_plans import print_plan
from ..opening import open_catalog

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Take files of one writer out of a table, in one commit: those named by their paths, as
`lakelog files` lists them, or all of a partition. The objects stay until gc finds that no retained
revision names them, so that `lakelog restore` can bring them back; files that lie elsewhere stay
for good.

Without --execute the plan is shown. It is committed beside whoever has the log open, and only if
nobody has committed since the plan was made."""
EXAMPLES: Final = """
lakelog remove s3://lake/catalog weather hourly --writer EWR --partition 2013-01
lakelog remove ./catalog weather hourly --writer EWR data/2013-01/hourly/a.parquet --execute
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    parser.add_argument("paths", metavar="PATH", nargs="*", help="a file, as the log has it")
    options.add_writer(parser, "whose files", required=True)
    parser.add_argument(
        "--partition", metavar="NAME", help="all files of this partition ('': of none)"
    )
    options.add_execute(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, and commit if asked."""
    catalog = open_catalog(args)
    plan = catalog.remove(
        args.database, args.table, writer=args.writer,
        paths=args.paths, partition=args.partition, execute=args.execute,
    )  # fmt: skip
    print_plan(catalog, plan, args.output)
    return 0
