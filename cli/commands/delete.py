"""`lakelog delete`: rows out of a table, by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import open_catalog
from ..output import Column
from ..text import many

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.read.delete_plan import DeletePlan

DESCRIPTION: Final = """\
Delete the rows of one writer's files for which a condition is true; where it is NULL they stay.
Files of which the log's statistics say that every row goes are taken out of the table; of others
the rows are hidden from all readers, and the files stay as they are.

Rows are hidden in one of two ways (--mode): by a predicate, a tombstone in the log, which each
reader decides (nothing is read now), or by rows: the files are read now, and the log points to the
numbers of their rows. "auto" takes a predicate while the table has fewer than 8.

Without --execute nothing is deleted: what would be done is shown. The log then needs readers that
know the features "tombstones" and "row_deletes"."""
EXAMPLES: Final = """
lakelog delete ./catalog weather hourly --writer EWR --where "temp IS NULL AND hour < 3"
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --count
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --mode rows --execute
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("database"),
    Column("table"),
    Column("where"),
    Column("mode"),
    Column("revision", number=True),
    Column("transaction_id"),
    Column("files_removed", number=True),
    Column("files_touched", number=True),
    Column("tombstones", number=True),
    Column("rows", number=True),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_writer(parser, "the writer id whose rows are deleted", required=True)
    options.add_where(parser, "the condition that rows to be deleted meet", required=True)
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
    parser.add_argument("--execute", action="store_true", help="delete them")
    parser.add_argument(
        "--shared", action="store_true", help="commit as a guest, beside the owner of the writer id"
    )


def run(args: argparse.Namespace) -> int:
    """Show what would be done, or do it."""
    catalog = open_catalog(args)
    record = _deleted(catalog, args) if args.execute else _planned(catalog, args)
    if args.output == "json":
        output.json_object(record)
    elif args.output != "text":
        output.rows(args.output, _COLUMNS, [record])
    else:
        _print(record)
    return 0


def _record(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        "where": args.where,
        "mode": args.mode,
        "revision": None,
        "transaction_id": None,
    }


def _deleted(catalog: Catalog, args: argparse.Namespace) -> dict[str, Any]:
    with (
        catalog.writer(args.writer, args.database, shared=args.shared) as writer,
        writer.transaction() as tx,
    ):
        done = tx.delete(args.table, args.where, mode=args.mode)
    info = tx.commit_info
    return _record(args) | {
        "revision": None if info is None else info.revision,
        "transaction_id": None if info is None else info.transaction_id,
        "files_removed": done.files_removed,
        "files_touched": done.files_touched,
        "tombstones": done.tombstones,
        "rows": done.rows,
    }


def _planned(catalog: Catalog, args: argparse.Namespace) -> dict[str, Any]:
    from ...catalog.commit.deleting import MOST_TOMBSTONES
    from ...catalog.read.delete_plan import plan_delete

    (state,) = catalog.snapshot(args.database)._tables.of_writer(args.writer)
    plan = plan_delete(state, args.table, args.where)
    by_rows = args.mode == "rows" or (args.mode == "auto" and plan.live >= MOST_TOMBSTONES)
    return _record(args) | {
        "files_removed": len(plan.whole),
        "files_touched": len(plan.touched),
        "tombstones": int(bool(plan.touched) and not by_rows),
        "rows": _counted(catalog, plan) if args.count or not plan.touched else None,
    }


def _counted(catalog: Catalog, plan: DeletePlan) -> int:
    from ...catalog.read.delete_plan import matching_rows, visible_rows

    whole = visible_rows(catalog.wide, [plan.parts[path] for path in plan.whole])
    parts = [plan.parts[path] for path in plan.touched]
    return whole + sum(map(len, matching_rows(catalog.wide, parts, plan.tombstone)))


def _print(record: dict[str, Any]) -> None:
    removed, touched = record["files_removed"], record["files_touched"]
    where = f"{record['table']} of {record['writer']}/{record['database']}"
    if not removed and not touched:
        output.line(f"no row of {where} meets the condition: nothing is to be deleted")
        return
    if record["revision"] is None:
        output.line(f"from {where} this would be deleted (--execute does it):")
    else:
        output.line(f"deleted from {where}, in revision {record['revision']}:")
    if removed:
        output.line(f"  {many(removed, 'file')} as a whole")
    if touched:
        way = "by a predicate, which may be true of rows" if record["tombstones"] else "rows"
        output.line(f"  {way} of {many(touched, 'file')}")
    if record["rows"] is not None:
        output.line(f"  {many(record['rows'], 'row')} in all")
