"""`lakelog changes`: the rows that came and went between two points in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...catalog.points import point_in_time
from ...errors import TimeBeforeFirstCommit
from .. import options
from ..batches import print_batches
from ..opening import cut_fields, open_catalog

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
Print the rows that were inserted into a table, and deleted from it, between two points in time, as
a stream: memory stays bounded. _change says insert or delete; _writer, _revision and _committed_at
say by which commit. Commits that only replace files by others with the same rows, as compactions
do, give none; rows that came and went again between give none either, unless --every-commit asks
for what each commit did. Columns are those of the later point in time.

Of a table with a key, rows that newer ones of their keys take the place of are deleted; which
commit did that is told only by --every-commit, which takes longer there.

json is one object with the tokens of both points in time, the later one's as `token`: the --since
of the next call. jsonl and csv are the rows alone: ask for the token first (`lakelog log --limit 0
--output json` gives it), and give it to --until.

All commits between must still be there: what was pruned can't be told row by row. `lakelog diff`
compares any two points in time by their files."""
EXAMPLES: Final = """
lakelog changes s3://lake/catalog weather hourly --since 2013-06-30T00:00Z
lakelog changes ./catalog weather hourly --since EWR=3,JFK=2 --until EWR=5,JFK=2 --output jsonl
lakelog changes ./catalog weather hourly --since ll1-CgdleGFtcGxl --columns origin,temp
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    for name, text in (("--since", "the earlier"), ("--until", "the later")):
        parser.add_argument(
            name,
            metavar="POINT",
            type=point_in_time,
            required=name == "--since",
            help=f"{text} point in time, as for --as-of: a time with its zone, a token, or a "
            f"revision for each writer{'' if name == '--since' else '. Default: the newest'}",
        )
    parser.add_argument(
        "-c",
        "--columns",
        metavar="A,B,C",
        type=lambda text: [name.strip() for name in text.split(",")],
        help="only these columns of the table, in this order",
    )
    parser.add_argument(
        "--every-commit", action="store_true", help="what each commit did, not what is left of it"
    )
    options.add_limit(parser, "rows")


def run(args: argparse.Namespace) -> int:
    """Print the rows."""
    catalog = open_catalog(args)
    since, until, head = args.since, args.until, None
    if args.output == "json":
        later = catalog.snapshot(args.database, until)
        until, head = later.token, _head(catalog, args, later)
        since = head["since"] or since
    reader = catalog.changes(
        args.database, args.table, since, until, args.columns, net=not args.every_commit
    )
    with reader:
        print_batches(args.output, reader, limit=args.limit, head=head)
    return 0


def _head(catalog: Catalog, args: argparse.Namespace, later: Snapshot) -> dict[str, Any]:
    """Both cuts; null for the earlier one where nobody had committed anything by then."""
    since = args.since
    if not isinstance(since, str):
        try:
            since = catalog.snapshot(args.database, since).token
        except TimeBeforeFirstCommit:
            since = None
    return {"since": since, **cut_fields(later)}
