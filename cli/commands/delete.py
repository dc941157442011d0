"""`lakelog delete`: rows out of a table, by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import cut_fields, existing_log, open_catalog, print_cut, snapshot_after
from ..output import Column
from ..text import many

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.read.delete_plan import DeletePlan
    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
Delete the rows of one writer's files for which a condition is true; where it is NULL they stay.
Files of which the log's statistics say that every row goes are taken out of the table; of others
the rows are hidden from all readers, and the files stay as they are.

Rows are hidden in one of two ways (--mode): by a predicate, a tombstone in the log, which each
reader decides (nothing is read now), or by rows: the files are read now, and the log points to the
numbers of their rows. "auto" takes a predicate while the table has fewer than 8.

With --all-writers the rows of all writers' files go, as the files are now; with --cut those of the
files that a cut has. That is always a predicate, in the log of --writer. Files that come later keep
their rows, also those into which their writer writes old rows anew; and who reads a cut without
this writer reads them all.

Without --execute nothing is deleted: what would be done is shown. The log then needs readers that
know the features "tombstones" and "row_deletes"."""
EXAMPLES: Final = """
lakelog delete ./catalog weather hourly --writer EWR --where "temp IS NULL AND hour < 3"
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --count
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --mode rows --execute
lakelog delete ./catalog weather hourly --writer EWR --where "month = 2" --all-writers --execute
"""
_COLUMNS: Final = (
    Column("dry_run", style="yes"),
    Column("writer"),
    Column("database"),
    Column("table"),
    Column("where"),
    Column("mode"),
    Column("cut"),
    Column("revision", number=True),
    Column("transaction_id"),
    Column("files_removed", number=True),
    Column("files_touched", number=True),
    Column("tombstones", number=True),
    Column("rows", number=True),
    Column("token"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_writer(parser, "whose rows are deleted, and whose log says so", required=True)
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
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--all-writers", action="store_true", help="delete the rows of all writers' files"
    )
    options.add_point(whose, "--cut", "delete the rows of the files that this cut has")
    options.add_execute(parser, "delete them")
    options.add_shared(parser)


def run(args: argparse.Namespace) -> int:
    """Show what would be done, or do it."""
    catalog = open_catalog(args)
    existing_log(catalog, args.writer, args.database)
    cut = _cut(catalog, args)
    if args.execute:
        record = _deleted(catalog, args, cut)
    else:
        record = _planned(catalog, args) if cut is None else _planned_of(catalog, args, cut)
    committed = record["revision"] is not None
    after = snapshot_after(catalog, args.database) if committed else None
    record |= cut_fields(after)

    def show() -> None:
        _print(record)
        print_cut(after)

    output.one(args.output, _COLUMNS, record, show)
    return 0


def _cut(catalog: Catalog, args: argparse.Namespace) -> Snapshot | None:
    """Of whose files rows go; None: of the writer's alone."""
    if not args.all_writers and args.cut is None:
        return None
    return catalog.snapshot(args.database, None if args.all_writers else args.cut)


def _record(args: argparse.Namespace, cut: Snapshot | None = None) -> dict[str, Any]:
    return {
        "dry_run": not args.execute,
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        "where": args.where,
        "mode": args.mode,
        "cut": None if cut is None else cut.token,
        "revision": None,
        "transaction_id": None,
    }


def _deleted(catalog: Catalog, args: argparse.Namespace, cut: Snapshot | None) -> dict[str, Any]:
    with (
        catalog.writer(args.writer, args.database, shared=args.shared) as writer,
        writer.transaction() as tx,
    ):
        done = tx.delete(args.table, args.where, mode=args.mode, cut=cut)
    info = tx.commit_info
    return _record(args, cut) | {
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

    tables = catalog.snapshot(args.database)._tables
    (state,) = tables.of_writer(args.writer)
    plan = plan_delete(state, args.table, args.where)
    definitions = (each.definitions.of(args.table) for each in tables.states)
    if any(found.key for found in definitions if found is not None):
        plan = plan.without_whole()  # older rows would be read again
    by_rows = args.mode == "rows" or (args.mode == "auto" and plan.live >= MOST_TOMBSTONES)
    return _record(args) | {
        "files_removed": len(plan.whole),
        "files_touched": len(plan.touched),
        "tombstones": int(bool(plan.touched) and not by_rows),
        "rows": _counted(catalog, plan) if args.count or not plan.touched else None,
    }


def _planned_of(catalog: Catalog, args: argparse.Namespace, cut: Snapshot) -> dict[str, Any]:
    from ...catalog.commit.deleting import refuse_rows
    from ...catalog.read.delete_of_cut import plan_delete_of_cut
    from ...catalog.read.delete_plan import matching_rows

    refuse_rows(args.table, args.mode)
    tables = cut._tables
    plan = plan_delete_of_cut(tables, args.table, args.where)
    rows = None
    if args.count or not plan.tombstones:
        rows = sum(
            sum(map(len, matching_rows(catalog.wide, parts, tombstone)))
            for tombstone, parts in plan.parts(tables, args.table)
        )
    return _record(args, cut) | {
        "files_removed": 0,
        "files_touched": plan.files,
        "tombstones": len(plan.tombstones),
        "rows": rows,
    }


def _counted(catalog: Catalog, plan: DeletePlan) -> int:
    from ...catalog.read.delete_plan import matching_rows, visible_rows

    whole = visible_rows(catalog.wide, [plan.parts[path] for path in plan.whole])
    parts = [plan.parts[path] for path in plan.touched]
    return whole + sum(map(len, matching_rows(catalog.wide, parts, plan.tombstone)))


def _print(record: dict[str, Any]) -> None:
    removed, touched = record["files_removed"], record["files_touched"]
    where = f"{record['table']} of {record['writer']}/{record['database']}"
    if record["cut"] is not None:
        where = f"{record['table']} of all writers in the cut, by {where.partition(' of ')[2]}"
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
        if record["dry_run"] and not record["tombstones"]:
            way = "by number, the rows that meet it"
        output.line(f"  {way} of {many(touched, 'file')}")
    if record["rows"] is not None:
        output.line(f"  {many(record['rows'], 'row')} in all")
