"""`lakelog scan` and `lakelog changes`: the rows of a table, and those that were inserted and
deleted between two points in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...catalog.read.points_in_time import point_in_time
from ...errors import TimeBeforeFirstCommit
from .. import errors, options
from ..command_list import Command
from ..opening import cut_fields, open_catalog, open_snapshot
from ..output import print_batches

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.snapshot import Snapshot


def _scan(args: argparse.Namespace) -> int:
    snapshot = open_snapshot(args)
    columns = _columns(args.columns, snapshot.column_names(args.table))
    with snapshot.scan(args.table, columns, where=args.where, partition=args.partition) as reader:
        print_batches(args.output, reader, limit=args.limit, head=cut_fields(snapshot))
    return 0


def _columns(given: list[str] | None, known: list[str]) -> list[str] | None:
    """The names asked for. A value that is a column's whole name is that column, commas or not."""
    if given is None:
        return None
    names = [name for value in given for name in ([value] if value in known else value.split(","))]
    names = [name if name in known else name.strip() for name in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names):
        problem = f"{twice[0]!r} is given twice" if twice else "a name is empty"
        raise errors.usage(f"in --columns {problem}", "scan")
    return names


SCAN: Final = Command(
    """\
Print the rows of a table as a stream, writer by writer and in the order of commits: memory stays
bounded whatever the size. With --where only rows that meet the condition: files and parts of files
that can't hold any are not read.

jsonl is an object a line; json is one object with the token of what was read and the rows, a row a
line. In csv an empty field is null and "" is an empty text. Times with a zone are printed in UTC,
binary values in base64, NaN and infinities as the texts NaN, Infinity and -Infinity. parquet and
arrow (a stream of Arrow IPC) have all of that in their own types. `lakelog write` reads each of
these forms, value by value, into a table that has the same types.""",
    """
lakelog scan s3://lake/catalog weather hourly --limit 10
lakelog scan ./catalog weather hourly --columns time_hour,temp --output csv > temp.csv
lakelog scan ./catalog weather hourly --where "origin = 'JFK' and temp < 15" --output jsonl
lakelog scan ./catalog weather hourly --as-of 2013-06-30T00:00Z --output parquet > june.parquet
lakelog scan ./a db orders -o arrow | lakelog write ./b db orders - --format arrow --writer x
""",
    (
        *options.ON_TABLE,
        options.argument(
            "-c --columns",
            "A,B,C",
            "only these columns, in this order (repeat the option for a name with a comma)",
            action="append",
        ),
        options.where("only rows that meet this"),
        options.partition("rows of files"),
        options.limit("rows"),
        options.AS_OF,
        options.writer("only rows of this writer's files"),
    ),
    _scan,
)


def _print_changes(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    since, until, head = args.since, args.until, None
    if args.output == "json":
        later = catalog.snapshot(args.database, until)
        until, head = later.token, _both_cuts(catalog, args, later)
        since = head["since"] or since
    reader = catalog.changes(
        args.database, args.table, since, until, args.columns, net=not args.every_commit
    )
    with reader:
        print_batches(args.output, reader, limit=args.limit, head=head)
    return 0


def _both_cuts(catalog: Catalog, args: argparse.Namespace, later: Snapshot) -> dict[str, Any]:
    """Both cuts; null for the earlier one if nobody had committed anything by then."""
    since = args.since
    if not isinstance(since, str):
        try:
            since = catalog.snapshot(args.database, since).token
        except TimeBeforeFirstCommit:
            since = None
    return {"since": since, **cut_fields(later)}


_POINT: Final = (
    "point in time, as for --as-of: a time with its zone, a token, or a revision for each writer"
)
CHANGES: Final = Command(
    """\
Print the rows that were inserted into a table, and deleted from it, between two points in time, as
a stream: memory stays bounded. _change is insert or delete; _writer, _revision and _committed_at
name the commit. Commits that only replace files by others with the same rows, as compactions do,
give none; nor do rows that were inserted and deleted again in between, unless --every-commit asks
for what each commit did. The columns are those of the later point in time.

In a table with a key, a row that is superseded by a newer one of the same key counts as deleted;
only --every-commit, which takes longer there, names the commit that did it.

json is one object with the tokens of both points in time, the later one's as `token`: the --since
of the next call. jsonl and csv are the rows alone: get the token first (`lakelog log --limit 0
--output json` prints it), and pass it to --until.

All commits between must still be there: after a prune, rows can't be attributed any more. `lakelog
diff` compares any two points in time by their files.""",
    """
lakelog changes s3://lake/catalog weather hourly --since 2013-06-30T00:00Z
lakelog changes ./catalog weather hourly --since EWR=3,JFK=2 --until EWR=5,JFK=2 --output jsonl
lakelog changes ./catalog weather hourly --since ll1-CgdleGFtcGxl --columns origin,temp
""",
    (
        *options.ON_TABLE,
        options.argument(
            "--since", "POINT", f"the earlier {_POINT}", type=point_in_time, required=True
        ),
        options.argument(
            "--until", "POINT", f"the later {_POINT}. Default: the newest", type=point_in_time
        ),
        options.argument(
            "-c --columns",
            "A,B,C",
            "only these columns of the table, in this order",
            type=options.names,
        ),
        options.flag("--every-commit", "what each commit did, not the net result"),
        options.limit("rows"),
    ),
    _print_changes,
)
