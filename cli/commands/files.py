"""`lakelog files`: the Parquet files of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import open_snapshot, print_cut
from ..output import Column
from ..text import many, size
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

DESCRIPTION: Final = """\
List the live files of a table, sorted by writer and path. Paths are relative to
<writer>/<database>/; json and csv also have the URL of each file, as another engine opens it."""
EXAMPLES: Final = """
lakelog files s3://lake/catalog weather hourly
lakelog files ./catalog weather hourly --as-of EWR=3,JFK=2
lakelog files ./catalog weather hourly --output json | jq -r '.[].url'
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("path", shown=False),
    Column("partition"),
    Column("row_count", "ROWS", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("revision", style="count"),
    Column("url", shown=False),
)
_TEXT: Final = (*(column for column in _COLUMNS if column.shown), Column("path"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_as_of(parser)
    options.add_writer(parser, "only this writer's files")
    options.add_limit(parser, "files")


def run(args: argparse.Namespace) -> int:
    """Print a row a file."""
    snapshot = open_snapshot(args)
    found = snapshot.files(args.table).sort_by([("writer", "ascending"), ("path", "ascending")])
    kept = found if args.limit is None else found.slice(0, args.limit)
    if args.output != "text":
        output.rows(args.output, _COLUMNS, _records(kept))
        return 0
    output.rows("text", _TEXT, _records(kept), empty="(no files)")
    _print_totals(found, kept.num_rows)
    print_cut(snapshot)
    return 0


def _records(found: pa.Table) -> list[dict[str, Any]]:
    columns = [plain(found.column(column.name)) for column in _COLUMNS]
    return [dict(zip((c.name for c in _COLUMNS), row)) for row in zip(*columns)]


def _print_totals(found: pa.Table, shown: int) -> None:
    import pyarrow.compute as pc

    if not found.num_rows:
        return
    of = "" if shown == found.num_rows else f"{shown} of "
    rows = pc.sum(found.column("row_count")).as_py()
    total = size(pc.sum(found.column("size_bytes")).as_py())
    output.line(f"\n{of}{many(found.num_rows, 'file')}, {many(rows, 'row')}, {total}")
