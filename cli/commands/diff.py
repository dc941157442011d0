"""`lakelog diff`: what differs between two points in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..change_plans import FILES, file_records, print_files
from ..opening import open_catalog
from ..output import Column
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.read.diff import Diff

DESCRIPTION: Final = """\
Compare a database, or one table of it, at two points in time: which files came and went, how many
rows and bytes these hold, which tables and columns came, went or changed; and where rows of files
were deleted, columns redefined, or a key set. The logs alone tell it: no data file is read.
`lakelog changes` gives the rows themselves.

The numbers of rows are exact unless a commit between replaced files by others with the same rows,
as compactions do; text marks those with a ~. json has all parts; jsonl, csv and parquet have a row
for each file."""
EXAMPLES: Final = """
lakelog diff s3://lake/catalog weather 2013-06-30T00:00Z 2013-07-01T00:00Z
lakelog diff ./catalog weather hourly EWR=3,JFK=2 now
lakelog diff ./catalog weather ll1-CgdleGFtcGxl now --output json
"""
_TABLES: Final = (Column("change"), Column("table"))
_SCHEMAS: Final = (*_TABLES, Column("column"), Column("before"), Column("after"))
_IN_PLACE: Final = (Column("table"), Column("writer"), Column("what", title="read otherwise by"))
_ROWS: Final = (
    *(Column("table"), Column("writer")),
    *(Column("files_added", style="count"), Column("files_removed", style="count")),
    *(Column("rows_added"), Column("rows_removed")),
    *(Column("bytes_added", style="size"), Column("bytes_removed", style="size")),
)
_HELP: Final = "as for --as-of, or now for the newest"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    parser.add_argument(
        "table", metavar="TABLE", nargs="?", help="the only table to compare; else all"
    )
    options.add_point(parser, "before", f"the earlier point in time, {_HELP}")
    options.add_point(parser, "after", f"the later one, {_HELP}")


def run(args: argparse.Namespace) -> int:
    """Print what differs."""
    catalog = open_catalog(args)
    before = catalog.snapshot(args.database, args.before)
    found = before.diff(catalog.snapshot(args.database, args.after), args.table)
    if args.output == "json":
        parts = ("tables", "schemas", "rows", "in_place")
        told = {name: _records(getattr(found, name)) for name in parts}
        head = {"before": found.before, "after": found.after, **told}
        output.json_array(file_records(found.files), head, "files")
    elif args.output == "text":
        _print(found)
    else:
        output.rows(args.output, FILES, file_records(found.files))
    return 0


def _records(table: pa.Table) -> list[dict[str, Any]]:
    names = table.schema.names
    columns = [plain(table.column(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _print(found: Diff) -> None:
    if found.is_empty:
        output.line("nothing differs")
    parts = [
        (columns, _records(getattr(found, name)))
        for name, columns in (
            ("tables", _TABLES),
            ("schemas", _SCHEMAS),
            ("in_place", _IN_PLACE),
            ("rows", _ROWS),
        )
    ]
    for record in parts[-1][1]:
        mark = "" if record["exact"] else "~"
        record |= {n: f"{record[n]:,}{mark}" for n in ("rows_added", "rows_removed")}
    shown = [(columns, records) for columns, records in parts if records]
    for number, (columns, records) in enumerate(shown):
        if number:
            output.line()
        output.rows("text", columns, records)
    print_files(file_records(found.files))
    output.line()
    output.pairs([("before", found.before), ("after", found.after)])
