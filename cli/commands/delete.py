"""`lakelog delete`: delete the rows of a table that meet a condition."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..command_list import Command
from ..errors import dry_run
from ..opening import open_catalog, print_commits
from ..output import Column, columns
from ..text import many

if TYPE_CHECKING:
    import argparse

_COLUMNS: Final = (
    Column("writer"),
    *columns("files_removed", "files_touched", "tombstones", "rows", style="count"),
    Column("revision", number=True),
)


def _delete(args: argparse.Namespace) -> int:
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
    print_commits(
        args,
        _COLUMNS,
        records,
        catalog=catalog,
        head={"table": args.table, "where": args.where, "mode": args.mode},
        print_text=lambda: _print(args, records),
    )
    return 0


def _print(args: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    if not records:
        output.line(f"no row of {args.table} meets the condition: nothing to delete")
        return
    for record in records:
        _print_log(args, record)
    if not args.execute:
        dry_run("nothing was deleted")


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


DELETE: Final = Command(
    """\
Delete the rows of a table for which a condition is true, whoever wrote them; rows for which it is
NULL stay. Each log that holds such rows gets a commit of its own, without fencing off its owner.
If the log's statistics prove that all rows of a file meet the condition, the file is removed from
the table; in other files the rows are hidden from all readers, and the files stay as they are.

Rows are hidden in one of two ways (--mode): by predicate, a tombstone in the log that is evaluated
on each read (no file is read now), or by rows: the files are read now, and the log stores the
numbers of their rows. "auto" uses a predicate while the table has fewer than 8.

Without --execute nothing is deleted: the plan is shown. The log then needs readers that know the
features "tombstones" and "row_deletes".""",
    """
lakelog delete ./catalog weather hourly --where "temp IS NULL AND hour < 3"
lakelog delete ./catalog weather hourly --where "month = 2" --count
lakelog delete ./catalog weather hourly --where "month = 2" --execute
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --mode rows --execute
""",
    (
        *options.ON_TABLE,
        options.where("the condition that rows to be deleted meet", required=True),
        options.writer("only rows of this writer's files (default: of all)"),
        options.choice(
            "--mode",
            ("auto", "predicate", "rows"),
            "how rows are hidden (default: auto)",
            default="auto",
        ),
        options.flag(
            "--count",
            "read the files and count the rows, for the plan; of a table with a key also those "
            "that newer rows with their keys hide",
        ),
        options.execute("delete them"),
    ),
    _delete,
)
