"""`lakelog drop`: a table that nobody wants any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import options
from ..change_plans import add_writers, print_plan
from ..opening import open_catalog

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Take all files out of a table and forget the table, so that it is listed no more: two commits for
each writer that knows it. The files stay until gc finds that no retained revision names them, and
until then `lakelog restore` brings the table back as it was.

Without --execute the plan is shown. It is committed beside whoever has the log open, and only if
nobody has committed since the plan was made."""
EXAMPLES: Final = """
lakelog drop s3://lake/catalog weather hourly
lakelog drop ./catalog weather hourly --writer EWR --execute
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    add_writers(parser, "only from this writer's log; may be repeated")
    options.add_execute(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, and commit if asked."""
    catalog = open_catalog(args)
    plan = catalog.drop(args.database, args.table, writers=args.writer, execute=args.execute)
    print_plan(catalog, plan, args.output)
    return 0
