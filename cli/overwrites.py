"""`lakelog write --overwrite`: a plan first, and what was done."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..errors import UsageError
from . import output
from .output import Column
from .streams import tell
from .text import many

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from ..catalog.commit.done import Replaced
    from ..catalog.commit.transaction import Transaction
    from ..catalog.commit.writer import Writer

FIGURES: Final = (
    Column("files_removed", number=True),
    Column("rows_removed", number=True),
    Column("rows_rewritten", number=True),
)
_COLUMNS: Final = (
    Column("writer"),
    Column("database"),
    Column("table"),
    Column("dry_run", style="yes"),
    *FIGURES,
)
_SHOWN: Final = 40


def check_overwriting(args: argparse.Namespace) -> None:
    """Refuse options that don't go together.

    Raises:
        UsageError: They don't.
    """
    for name in ("where", "execute"):
        if getattr(args, name) and not args.overwrite:
            raise UsageError(
                f"--{name} is for --overwrite",
                hint="Add --overwrite to replace rows; without it rows are added",
            )


@contextmanager
def begun(writer: Writer, args: argparse.Namespace) -> Iterator[Transaction]:
    """The transaction of a command; given up where only a plan is asked for."""
    with writer.transaction(args.app_id, args.app_version) as tx:
        yield tx
        if args.overwrite and not args.execute:
            tx.discard()


def overwrite(
    tx: Transaction,
    args: argparse.Namespace,
    schema: pa.Schema,
    files: Iterable[pa.RecordBatchReader],
    step: Callable[[], None],
) -> Replaced:
    """Put the rows of files in the place of others; or look what would go, if only that is asked.

    Args:
        step: Called for each file.
    """
    from .inputs.arguments import names_of

    partition = args.partition or None
    if not args.execute:
        return tx.plan_overwrite(args.table, schema, args.where, partition)

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in files:
            yield from rows
            step()

    return tx.overwrite(
        args.table,
        pa.RecordBatchReader.from_batches(schema, batches()),
        args.where,
        partition,
        partition_by=names_of(args.partition_by) or None,
        bloom=args.bloom,
    )


def figures(done: Replaced) -> dict[str, Any]:
    """What an overwrite took out, for programs."""
    return {
        "files_removed": len(done.removed),
        "rows_removed": done.rows_removed,
        "rows_rewritten": done.rows_rewritten,
    }


def show_done(done: Replaced) -> None:
    """Print what an overwrite took out."""
    output.line(
        f"{many(len(done.removed), 'file')} taken out: {many(done.rows_removed, 'row')} replaced, "
        f"{many(done.rows_rewritten, 'row')} written anew"
    )


def show_plan(args: argparse.Namespace, done: Replaced) -> None:
    """Print what would go."""
    found = {
        "dry_run": True,
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        **figures(done),
    }
    read = set(done.rewritten)
    if args.output == "json":
        output.json_object({**found, "removed": done.removed, "read": done.rewritten})
    elif args.output != "text":
        output.rows(args.output, _COLUMNS, [found])
    else:
        where = f"table {args.table} of {args.writer}/{args.database}"
        output.line(
            f"overwrite of {where} would replace {many(done.rows_removed, 'row')}: "
            f"{many(len(done.removed), 'file')} taken out, "
            f"{many(done.rows_rewritten, 'row')} of them written anew"
        )
        for path in done.removed[:_SHOWN]:
            output.pairs([("read" if path in read else "whole", path)], indent="  ")
        if len(done.removed) > _SHOWN:
            output.line(f"  and {len(done.removed) - _SHOWN:,} more; --output json lists them all")
    sys.stdout.flush()
    tell("\nDRY RUN: nothing was written; add --execute\n")
