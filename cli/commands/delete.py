"""`lakelog delete`: rows out of a table, by a condition."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import cut_fields, open_catalog, print_cut, snapshot_after
from ..output import Column
from ..streams import tell
from ..text import many

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Delete the rows of a table for which a condition is true, whoever wrote them; where it is NULL they
stay. Each log that holds such rows gets a commit of its own, beside whoever has it open. Files of
which the log's statistics say that every row goes are taken out of the table; of others the rows
are hidden from all readers, and the files stay as they are.

Rows are hidden in one of two ways (--mode): by a predicate, a tombstone in the log, which each
reader decides (nothing is read now), or by rows: the files are read now, and the log points to the
numbers of their rows. "auto" takes a predicate while the table has fewer than 8.

Without --execute nothing is deleted: what would be done is shown. A log then needs readers that
know the features "tombstones" and "row_deletes"."""
EXAMPLES: Final = """
lakelog delete ./catalog weather hourly --where "temp IS NULL AND hour < 3"
lakelog delete ./catalog weather hourly --where "month = 2" --count
lakelog delete ./catalog weather hourly --where "month = 2" --execute
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --mode rows --execute
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("files_removed", style="count"),
    Column("files_touched", style="count"),
    Column("tombstones", style="count"),
    Column("rows", style="count"),
    Column("revision", number=True),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_where(parser, "the condition that rows to be deleted meet", required=True)
    options.add_writer(parser, "only rows of this writer's files (default: of all)")
    parser.add_argument(
        "--mode",
        choices=("auto", "predicate", "rows"),
        default="auto",
        help="how rows are hidden (default: auto)",
    )
    parser.add_argument(
        "--count",
        action="store_true",
        help="read the files and count the rows, for the plan; of a table with a key also those "
        "that newer ones of their keys hide",
    )
    options.add_execute(parser, "delete them")


def run(args: argparse.Namespace) -> int:
    """Show what would be done, or do it."""
    catalog = open_catalog(args)
    done = catalog.delete(
        args.database,
        args.table,
        args.where,
        mode=args.mode,
        writers=None if args.writer is None else [args.writer],
        count=args.count,
        execute=args.execute,
    )
    records = [asdict(item) for item in done]
    committed = any(item.revision is not None for item in done)
    after = snapshot_after(catalog, args.database) if committed else None
    if args.output == "text":
        _print(args, records)
        print_cut(after)
        return 0
    cut = cut_fields(after)
    if args.output == "json":
        head = {"table": args.table, "where": args.where, "mode": args.mode}
        head |= {"dry_run": not args.execute, **cut}
        output.rows("json", _COLUMNS, records, head=head, name="logs")
        return 0
    with_token = [{**record, "token": cut["token"]} for record in records]
    output.rows(args.output, (*_COLUMNS, Column("token", shown=False)), with_token)
    return 0


def _print(args: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    if not records:
        output.line(f"no row of {args.table} meets the condition: nothing is to be deleted")
        return
    for record in records:
        _print_log(args, record)
    if not args.execute:
        sys.stdout.flush()
        tell("\nDRY RUN: nothing was deleted; add --execute\n")


def _print_log(args: argparse.Namespace, record: dict[str, Any]) -> None:
    removed, touched = record["files_removed"], record["files_touched"]
    where = f"{args.table} of {record['writer']}/{args.database}"
    if record["revision"] is None:
        output.line(f"from {where} this would be deleted:")
    else:
        output.line(f"deleted from {where}, in revision {record['revision']}:")
    if removed:
        output.line(f"  {many(removed, 'file')} as a whole")
    if touched:
        way = "by a predicate, which may be true of rows" if record["tombstones"] else "rows"
        if not args.execute and not record["tombstones"]:
            way = "by number, the rows that meet it"
        output.line(f"  {way} of {many(touched, 'file')}")
    if record["rows"] is not None:
        output.line(f"  {many(record['rows'], 'row')} in all")
