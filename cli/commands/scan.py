"""`lakelog scan`: the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import errors, options
from ..batches import print_batches
from ..opening import cut_fields, open_snapshot

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Print the rows of a table as a stream, writer by writer and as each committed them: memory stays
bounded whatever the size. With --where only rows that meet the condition: files and parts of files
that can't hold any are not read.

jsonl is an object a line; json is one object with the token of what was read and the rows, a row a
line. In csv an empty field is null and "" is an empty text. Times with a zone are printed in UTC,
binary values in base64, NaN and infinities as the texts NaN, Infinity and -Infinity. parquet and
arrow (a stream of Arrow IPC) have all of that in their own types. `lakelog write` takes each of
these back, value by value, into a table that has the same types."""
EXAMPLES: Final = """
lakelog scan s3://lake/catalog weather hourly --limit 10
lakelog scan ./catalog weather hourly --columns time_hour,temp --output csv > temp.csv
lakelog scan ./catalog weather hourly --where "origin = 'JFK' and temp < 15" --output jsonl
lakelog scan ./catalog weather hourly --as-of 2013-06-30T00:00Z --output parquet > june.parquet
lakelog scan ./a db orders -o arrow | lakelog write ./b db orders - --format arrow --writer x
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    parser.add_argument(
        "-c",
        "--columns",
        metavar="A,B,C",
        action="append",
        help="only these columns, in this order (repeat the option for a name that holds a comma)",
    )
    options.add_where(parser, "only rows that meet this")
    options.add_partition(parser, "rows of files")
    options.add_limit(parser, "rows")
    options.add_as_of(parser)
    options.add_writer(parser, "only rows of this writer's files")


def run(args: argparse.Namespace) -> int:
    """Print the rows."""
    snapshot = open_snapshot(args)
    columns = _columns(args.columns, snapshot.column_names(args.table))
    wanted = {"where": args.where, "partition": args.partition}
    with snapshot.scan(args.table, columns, **wanted) as reader:
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
        problem = f"{twice[0]!r} stands twice" if twice else "a name is empty"
        raise errors.usage(f"in --columns {problem}", "scan")
    return names
