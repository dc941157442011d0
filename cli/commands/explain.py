"""`lakelog explain`: which files a condition leaves, and why each other one is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import cut_fields, open_snapshot, print_cut
from ..output import Column
from ..text import count, many, size
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

DESCRIPTION: Final = """\
Say which files of a table a condition leaves to be read, and for each other one which part of the
condition none of its rows can meet, by what the log knows of it. No data file is opened. The last
line counts what is kept: the files that `lakelog files` gives and `lakelog scan` reads.

Where a column must equal a value, `lakelog scan` asks bloom filters too, which lie in the files:
how many is said here, and --read-filters asks them."""
EXAMPLES: Final = """
lakelog explain s3://lake/catalog weather hourly --where "temp > 95"
lakelog explain ./catalog weather hourly --where "origin = 'JFK' and temp < 15" --skipped
lakelog explain ./catalog weather hourly --where "temp is null" --as-of EWR=3,JFK=2
lakelog explain ./catalog weather hourly --where "month = 7" --output json
lakelog explain ./catalog weather hourly --where "origin = 'JFK'" --read-filters
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("path", whole=True),
    Column("partition", shown=False),
    Column("row_count", "ROWS", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("kept", style="yes"),
    Column("reason", whole=True),
    Column("bloom_filters", number=True, shown=False),
    Column("deletes", shown=False),
    Column("key_files", number=True, shown=False),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_where(parser, "the condition to explain", required=True)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--kept", action="store_true", help="list only files that are kept")
    which.add_argument("--skipped", action="store_true", help="list only files that are skipped")
    parser.add_argument(
        "--read-filters", action="store_true", help="read bloom filters from files, as a scan does"
    )
    options.add_partition(parser, "files")
    options.add_as_of(parser)
    options.add_writer(parser, "only this writer's files")
    options.add_limit(parser, "files")


def run(args: argparse.Namespace) -> int:
    """Print a row a file, then what is kept of all."""
    snapshot = open_snapshot(args)
    found = snapshot.explain(
        args.table, args.where, partition=args.partition, read_filters=args.read_filters
    )
    found = found.sort_by([("writer", "ascending"), ("path", "ascending")])
    kept = found.filter(found.column("kept"))
    listed = kept if args.kept else found
    if args.skipped:
        listed = found.filter([not value for value in found.column("kept").to_pylist()])
    shown = listed if args.limit is None else listed.slice(0, args.limit)
    if args.output != "text":
        head = {
            "where": args.where,
            "kept": _totals(kept),
            "all": _totals(found),
            **cut_fields(snapshot),
        }
        output.rows(args.output, _COLUMNS, _records(shown), head=head, name="files")
        return 0
    if shown.num_rows or not listed.num_rows:
        output.rows("text", _COLUMNS, _records(shown), empty="(no such files)")
    if shown.num_rows < listed.num_rows:
        output.line(f"and {count(listed.num_rows - shown.num_rows)} more")
    output.line(f"\n{_summary(_totals(kept), _totals(found))}")
    if hidden := sum(bool(words) for words in kept.column("deletes").to_pylist()):
        output.line(f"rows of {many(hidden, 'file')} were deleted, and are left out")
    if keyed := [number for number in kept.column("key_files").to_pylist() if number]:
        among = many(max(keyed), "file")
        output.line(f"keys of {many(len(keyed), 'file')} are resolved, of one among up to {among}")
    if filters := sum(found.column("bloom_filters").to_pylist()):
        verb = "were asked" if args.read_filters else "can rule out more: lakelog scan asks them"
        output.line(f"bloom filters of {many(filters, 'row group')} {verb}")
    print_cut(snapshot)
    return 0


def _totals(files: pa.Table) -> dict[str, int]:
    return {
        "files": files.num_rows,
        "row_count": sum(files.column("row_count").to_pylist()),
        "size_bytes": sum(files.column("size_bytes").to_pylist()),
    }


def _summary(kept: dict[str, int], of: dict[str, int]) -> str:
    return (
        f"kept: {count(kept['files'])} of {many(of['files'], 'file')}, "
        f"{count(kept['row_count'])} of {many(of['row_count'], 'row')}, "
        f"{size(kept['size_bytes'])} of {size(of['size_bytes'])}"
    )


def _records(found: pa.Table) -> list[dict[str, Any]]:
    names = [column.name for column in _COLUMNS]
    columns = [plain(found.column(name)) for name in names]
    return [dict(zip(names, row)) for row in zip(*columns)]
