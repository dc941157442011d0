"""`lakelog rebuild`: a lost log from the footers of its data files."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import open_catalog
from ..output import Column
from ..plans import say_dry_run
from ..progress import Progress
from ..text import count, many, size
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...rebuild import RebuildInfo, RebuildPlan

DESCRIPTION: Final = """\
Make a writer's log again, from the footers of its Parquet files: each names its transaction, what
that was begun on, and what it replaces. Where the old log can still be read, what it says counts.
Files that are damaged or belong elsewhere are left out and named. Nothing is overwritten, moved or
deleted: the old log is sealed, and the new one stands beside it as the next incarnation. Without
an old log the last transactions may have been written and never committed: they are shown as
unproven, and --exclude leaves them out.

Without --execute nothing is written: the plan is shown."""
EXAMPLES: Final = """
lakelog rebuild s3://lake/catalog weather --writer EWR
lakelog rebuild ./catalog weather --writer EWR --execute
"""
_SHOWN: Final = 40
_CSV: Final = tuple(
    Column(name)
    for name in (
        "revision",
        "transaction_id",
        "proof",
        "original_revision",
        "epoch",
        "operation",
        "committed_at",
        "files_added",
        "files_removed",
        "rows_added",
        "bytes_added",
        "why",
    )
)
_TEXT: Final = (
    Column("revision", style="count"),
    Column("committed_at"),
    Column("operation"),
    Column("files_added", "FILES+", style="count"),
    Column("files_removed", "FILES-", style="count"),
    Column("rows_added", "ROWS", style="count"),
    Column("transaction"),
    Column("proof"),
)
_LEFT_OUT: Final = (
    Column("kind", "LEFT OUT"),
    Column("path"),
    Column("size_bytes", "SIZE", style="size"),
    Column("reason"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_writer(parser, "whose log", required=True)
    parser.add_argument(
        "--include-foreign",
        action="store_true",
        help="also take in Parquet files of other origin, by table and partition of their path",
    )
    parser.add_argument(
        "--exclude",
        metavar="TRANSACTION",
        action="append",
        default=[],
        help="leave an unproven transaction out (may be repeated)",
    )
    parser.add_argument("--execute", action="store_true", help="write the log")


def run(args: argparse.Namespace) -> int:
    """Plan, print, and write if asked."""
    from ...rebuild import execute_rebuild, plan_rebuild

    catalog = open_catalog(args)
    with Progress("footers read") as progress:
        plan = plan_rebuild(
            catalog,
            args.writer,
            args.database,
            include_foreign=args.include_foreign,
            exclude=args.exclude,
            progress=progress.at,
        )
    info = execute_rebuild(plan) if args.execute else None
    if args.output == "json":
        output.json_object(_fields(plan, info))
    elif args.output == "csv":
        output.rows("csv", _CSV, _transactions(plan))
    else:
        _print(plan, info)
    if info is None:
        say_dry_run("nothing was written")
    return 0


def _records(table: pa.Table) -> list[dict[str, Any]]:
    columns = [plain(table.column(name)) for name in table.schema.names]
    return [dict(zip(table.schema.names, row)) for row in zip(*columns)]


def _transactions(plan: RebuildPlan) -> list[dict[str, Any]]:
    from ...rebuild import transactions_table

    return _records(transactions_table(plan))


def _left_out(plan: RebuildPlan) -> list[dict[str, Any]]:
    from ...rebuild import left_out_table

    return _records(left_out_table(plan))


def _fields(plan: RebuildPlan, info: RebuildInfo | None) -> dict[str, Any]:
    return {
        "dry_run": info is None,
        "url": plan.url,
        "writer": plan.writer,
        "database": plan.database,
        "incarnation": plan.incarnation,
        "rebuild_id": plan.rebuild_id,
        "epoch": plan.epoch,
        "objects_seen": plan.objects_seen,
        "bytes_seen": plan.bytes_seen,
        "old_objects": plan.old_objects,
        "transactions": _transactions(plan),
        "left_out": _left_out(plan),
        "notes": list(plan.notes),
        "report": None if info is None else dataclasses.asdict(info),
    }


def _print(plan: RebuildPlan, info: RebuildInfo | None) -> None:
    where = f"{plan.writer}/{plan.database}"
    seen = f"{many(plan.objects_seen, 'object')} ({size(plan.bytes_seen)}) below {where}/data/"
    if info is None:
        output.line(f"from {seen} would come {many(len(plan.transactions), 'transaction')}\n")
    else:
        live = f"{many(info.files, 'file')}, {many(info.rows, 'row')}, {size(info.size_bytes)}"
        output.line(f"rebuilt {where} to revision {info.revision}: {live}\n")
    records = _transactions(plan)
    for record in records:
        record["transaction"] = record["transaction_id"][:8]
    output.rows("text", _TEXT, records[-_SHOWN:], empty="(no transactions)")
    if len(records) > _SHOWN:
        output.line(f"and {count(len(records) - _SHOWN)} before these; --output csv lists them all")
    _print_rest(plan, info)


def _print_rest(plan: RebuildPlan, info: RebuildInfo | None) -> None:
    left_out = _left_out(plan)
    if left_out:
        output.line()
        output.rows("text", _LEFT_OUT, left_out[:_SHOWN])
        if len(left_out) > _SHOWN:
            output.line(f"and {count(len(left_out) - _SHOWN)} more; --output json lists them all")
    if plan.unproven:
        output.note(
            "unproven", "written, but nothing says that it was committed; --exclude leaves it out"
        )
        for item in plan.unproven[:_SHOWN]:
            output.pairs([(f"  {item.transaction_id}", item.why)])
    if plan.old_objects:
        stays = f"{many(plan.old_objects, 'object')} of the old log"
        said = "is sealed" if info or plan.seal.stands else "will be sealed"
        output.line(f"\n{stays} stay; incarnation {plan.seal.log.incarnation} {said}")
    for note in plan.notes:
        output.note("note", note)
    if info is not None:
        output.line(f"\ncheckpoint  {info.checkpoint_key}")
