"""`lakelog delete`, `restore`, `remove` and `drop`: commits that change tables, and their plans."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ...errors import some_names
from .. import options, output
from ..command_list import Command
from ..errors import dry_run
from ..opening import cut_fields, open_catalog, print_commits, print_cut, snapshot_after
from ..output import Column, columns
from ..text import many
from ..values import records
from .history import FILES, print_files

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.commit.change_plan import ChangePlan, WriterChange


# --- Rows -----------------------------------------------------------------------------------------

_DELETED: Final = (
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
    rows = [asdict(item) for item in done]
    print_commits(
        args,
        _DELETED,
        rows,
        catalog=catalog,
        head={"table": args.table, "where": args.where, "mode": args.mode},
        print_text=lambda: _print_deleted(args, rows),
    )
    return 0


def _print_deleted(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    if not rows:
        output.line(f"no row of {args.table} meets the condition: nothing to delete")
        return
    for row in rows:
        _print_log(args, row)
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
Delete the rows of a table for which a condition is true, of all writers; rows for which it is NULL
stay. Each log that holds such rows gets a commit of its own, without fencing off its owner.
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


# --- Files ----------------------------------------------------------------------------------------

_DELETES: Final = (
    *columns("writer", "table"),
    Column("row_count", "ROWS", style="count"),
    *columns("deleted_now", "deleted_then", style="count"),
    *columns("added_again", "path"),
)
_BY_WRITER: Final = (
    Column("writer"),
    *columns("head", "files_removed", "rows_removed", "files_added", "rows_added", style="count"),
    *columns("rows_back", "rows_deleted", style="count"),
    Column("size_bytes", "SIZE ADDED", style="size"),
    Column("revision", "COMMITTED AS", style="count"),
)


def _restore(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    plan = catalog.restore(
        args.database, args.table, to=args.to, writers=args.writer, execute=args.execute
    )
    return _print_plan(catalog, plan, args.output)


def _remove(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    plan = catalog.remove(
        args.database, args.table, writer=args.writer,
        paths=args.paths, partition=args.partition, execute=args.execute,
    )  # fmt: skip
    return _print_plan(catalog, plan, args.output)


def _drop(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    plan = catalog.drop(args.database, args.table, writers=args.writer, execute=args.execute)
    return _print_plan(catalog, plan, args.output)


RESTORE: Final = Command(
    """\
Take a database, or one of its tables, back to an earlier point in time: files that were added since
are removed from their tables, and those that were live then are added again; rows that were deleted
since come back, rows that were deleted then are deleted again, and columns and keys are what they
were. This is one commit in each writer's log: history stays as it is, so another restore can undo
it. No data file is written; files with rows deleted by a predicate, then or since, are read.

Without --execute the plan is shown. It is committed without fencing off the owner of the log, and
only if nobody has committed since the plan was made; on a store without put-if-absent the owner is
fenced off.

A token or revisions that don't name all writers leave the others open: choose those to take back
with --writer. A writer that has nothing at that point in time loses all its files.""",
    """
lakelog restore s3://lake/catalog weather --to 2013-06-30T00:00Z
lakelog restore ./catalog weather hourly --to ll1-CgdleGFtcGxl --execute
lakelog restore ./catalog weather hourly --to EWR=3 --writer EWR --execute
""",
    (
        *options.IN_DATABASE,
        options.argument("table", "TABLE", "restore only this table; else all", nargs="?"),
        options.argument(
            "--to",
            "POINT",
            "the point in time, as for --as-of: a time with its zone (2013-06-30T00:00Z), a "
            "token (ll1-...), a tag (@name), or a revision for each writer (EWR=3,JFK=2)",
            type=options.point,
            required=True,
        ),
        options.writers("only this writer's log; may be repeated"),
        options.execute(),
    ),
    _restore,
)
REMOVE: Final = Command(
    """\
Remove files of one writer from a table, in one commit: those named by their paths, as
`lakelog files` lists them (of an external file its URL or absolute path will do), or all of a
partition. The objects stay until gc finds that no retained revision names them, so that `lakelog
restore` can bring them back; gc deletes no external files.

Without --execute the plan is shown. It is committed without fencing off the owner of the log, and
only if nobody has committed since the plan was made.""",
    """
lakelog remove s3://lake/catalog weather hourly --writer EWR --partition 2013-01
lakelog remove ./catalog weather hourly --writer EWR data/2013-01/hourly/a.parquet --execute
""",
    (
        *options.ON_TABLE,
        options.argument("paths", "PATH", "a file: its path, URL or absolute path", nargs="*"),
        options.writer("the writer whose files are removed", required=True),
        options.argument("--partition", "NAME", "all files of this partition ('': of none)"),
        options.execute(),
    ),
    _remove,
)
DROP: Final = Command(
    """\
Remove all files of a table and forget the table, so that it is listed no more: two commits for
each writer that knows it. The files stay until gc finds that no retained revision names them, and
until then `lakelog restore` brings the table back as it was.

Without --execute the plan is shown. It is committed without fencing off the owner of the log, and
only if nobody has committed since the plan was made.""",
    """
lakelog drop s3://lake/catalog weather hourly
lakelog drop ./catalog weather hourly --writer EWR --execute
""",
    (
        *options.ON_TABLE,
        options.writers("only from this writer's log; may be repeated"),
        options.execute(),
    ),
    _drop,
)


# --- Printing -------------------------------------------------------------------------------------


def _print_plan(catalog: Catalog, plan: ChangePlan, form: str) -> int:
    after = snapshot_after(catalog, plan.database) if plan.is_done else None
    files = [row for change in plan.changes for row in records(change.files)]
    deletes = [row for change in plan.changes for row in records(change.deletes)]
    if form != "text":
        value = {
            "dry_run": not plan.is_done,
            "kind": plan.kind,
            "url": plan.url,
            "database": plan.database,
            "table": plan.table,
            "to": plan.to or None,
            "changes": [_record(change) for change in plan.changes],
            "notes": list(plan.notes),
            **cut_fields(after),
            "files": files,
            "deletes": deletes,
        }
        output.object_or_rows(form, value, FILES, files)
    else:
        _print_text(plan, files, deletes)
        print_cut(after)
        if not plan.is_done and not plan.is_empty:
            dry_run("nothing was committed")
    return 0


def _record(change: WriterChange) -> dict[str, Any]:
    return {
        "writer": change.writer,
        "head": change.head,
        "to": change.to or None,
        "files_removed": change.total("removed"),
        "rows_removed": change.total("removed", "row_count"),
        "files_added": change.total("added"),
        "rows_added": change.total("added", "row_count"),
        "size_bytes": change.total("added", "size_bytes"),
        "rows_back": change.deleted(back=True),
        "rows_deleted": change.deleted(back=False),
        "schemas": list(change.schemas),
        "columns": list(change.columns),
        "forgets": change.forgets or None,
        "revision": None if change.commit is None else change.commit.revision,
    }


def _print_text(
    plan: ChangePlan, files: list[dict[str, Any]], deletes: list[dict[str, Any]]
) -> None:
    what = f"{plan.database}/{plan.table}" if plan.table is not None else plan.database
    if plan.is_empty:
        output.line(f"{plan.kind} of {what}: nothing to do")
    else:
        output.line(f"{plan.kind} of {what}: {_summary(plan)}")
        shown = [column for column in _BY_WRITER if _is_shown(column.name, plan)]
        output.line()
        output.rows("text", shown, [_record(change) for change in plan.changes])
        print_files(FILES, files)
        print_files(_DELETES, deletes)
    if plan.to:
        output.line()
        output.pairs([("to", plan.to)])
    for note in plan.notes:
        output.note("note", note)


def _summary(plan: ChangePlan) -> str:
    """The plan in one sentence: what it would do, or did."""
    done = plan.is_done
    text = f"{'removed' if done else 'would remove'} {many(plan.files_removed, 'file')}"
    if plan.kind == "restore":
        text += f", and {'added' if done else 'add'} {many(plan.files_added, 'file')} again"
        if plan.rows_back:
            text += (
                f"; {many(plan.rows_back, 'deleted row')} {'came' if done else 'would come'} back"
            )
        if plan.rows_deleted:
            be = "were" if done else "would be"
            text += f"; {many(plan.rows_deleted, 'row')} {be} deleted again"
        tables = sorted({table for change in plan.changes for table in change.columns})
        if tables:
            go = "went" if done else "would go"
            text += f"; columns and keys of {some_names(tables)} {go} back"
    if any(change.forgets for change in plan.changes):
        text += f", and {'forgot' if done else 'forget'} the table"
    return text


def _is_shown(name: str, plan: ChangePlan) -> bool:
    if name == "revision":
        return plan.is_done
    if name in ("rows_back", "rows_deleted"):
        return any(change.deletes.num_rows for change in plan.changes)
    return plan.kind == "restore" or name not in ("files_added", "rows_added", "size_bytes")
