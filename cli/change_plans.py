"""How `restore`, `remove` and `drop` show their plans, before and after these are executed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from ..errors import some_names
from . import output
from .opening import cut_fields, print_cut, snapshot_after
from .output import Column
from .streams import tell
from .text import many
from .values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ..catalog.catalog import Catalog
    from ..catalog.commit.change_plan import ChangePlan, WriterChange

FILES: Final = (
    Column("change"),
    Column("writer"),
    Column("table"),
    Column("partition"),
    Column("row_count", "ROWS", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("revision", style="count"),
    Column("path"),
)
_DELETES: Final = (
    Column("writer"),
    Column("table"),
    Column("row_count", "ROWS", style="count"),
    Column("deleted_now", style="count"),
    Column("deleted_then", style="count"),
    Column("added_again"),
    Column("path"),
)
_BY_WRITER: Final = (
    Column("writer"),
    Column("head", style="count"),
    Column("files_removed", style="count"),
    Column("rows_removed", style="count"),
    Column("files_added", style="count"),
    Column("rows_added", style="count"),
    Column("rows_back", style="count"),
    Column("rows_deleted", style="count"),
    Column("size_bytes", "SIZE ADDED", style="size"),
    Column("revision", "COMMITTED AS", style="count"),
)
_SHOWN: Final = 40


def add_writers(parser: argparse.ArgumentParser, text: str) -> None:
    """`--writer`, which may be repeated."""
    parser.add_argument("--writer", metavar="WRITER", action="append", help=text)


def print_plan(catalog: Catalog, plan: ChangePlan, form: str) -> None:
    """Print a plan, and what became of it."""
    after = snapshot_after(catalog, plan.database) if plan.is_done else None
    files = [row for change in plan.changes for row in file_records(change.files)]
    if form == "json":
        deletes = [row for change in plan.changes for row in file_records(change.deletes)]
        cut = cut_fields(after)
        output.json_object({**_head(plan), **cut, "files": files, "deletes": deletes})
        return
    if form != "text":
        output.rows(form, FILES, files)
        return
    _print_text(plan, files)
    print_cut(after)
    if not plan.is_done and not plan.is_empty:
        sys.stdout.flush()
        tell("\nDRY RUN: nothing was committed; add --execute\n")


def file_records(files: pa.Table) -> list[dict[str, Any]]:
    """Rows of `FILE_CHANGES`, or of `DELETE_CHANGES`, as records."""
    columns = [plain(files.column(name)) for name in files.schema.names]
    return [dict(zip(files.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def print_files(files: list[dict[str, Any]]) -> None:
    """Print files that come and go, as far as there is room."""
    if not files:
        return
    output.line()
    output.rows("text", FILES, files[:_SHOWN])
    if len(files) > _SHOWN:
        output.line(f"and {len(files) - _SHOWN:,} more; --output json lists them all")


def _head(plan: ChangePlan) -> dict[str, Any]:
    return {
        "dry_run": not plan.is_done,
        "kind": plan.kind,
        "url": plan.url,
        "database": plan.database,
        "table": plan.table,
        "to": plan.to or None,
        "changes": [_record(change) for change in plan.changes],
        "notes": list(plan.notes),
    }


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


def _print_text(plan: ChangePlan, files: list[dict[str, Any]]) -> None:
    what = f"{plan.database}/{plan.table}" if plan.table is not None else plan.database
    if plan.is_empty:
        output.line(f"{plan.kind} of {what}: nothing to do")
    else:
        forgotten = [change.writer for change in plan.changes if change.forgets]
        would = "" if plan.is_done else "would "
        done = "removed" if plan.is_done else "remove"
        text = f"{plan.kind} of {what}: {would}{done} {many(plan.files_removed, 'file')}"
        if plan.kind == "restore":
            again = "added" if plan.is_done else "add"
            text += f", and {again} {many(plan.files_added, 'file')} again"
            text += _told_rows(plan)
        if forgotten:
            text += f", and {'forgot' if plan.is_done else 'forget'} the table"
        output.line(text)
        shown = [column for column in _BY_WRITER if _is_told(column.name, plan)]
        output.line()
        output.rows("text", shown, [_record(change) for change in plan.changes])
        print_files(files)
        _print_deletes(plan)
    if plan.to:
        output.line()
        output.pairs([("to", plan.to)])
    for note in plan.notes:
        output.note("note", note)


def _told_rows(plan: ChangePlan) -> str:
    """What becomes of rows of files that stay, and of columns."""
    would = "" if plan.is_done else "would "
    text = ""
    if plan.rows_back:
        come = "would come" if would else "came"
        text += f"; {many(plan.rows_back, 'deleted row')} {come} back"
    if plan.rows_deleted:
        be = "would be" if would else "were"
        text += f"; {many(plan.rows_deleted, 'row')} {be} deleted again"
    tables = sorted({table for change in plan.changes for table in change.columns})
    if tables:
        go = "would go" if would else "went"
        text += f"; columns and keys of {some_names(tables)} {go} back"
    return text


def _print_deletes(plan: ChangePlan) -> None:
    """Print of which files other rows are deleted by then, as far as there is room."""
    rows = [row for change in plan.changes for row in file_records(change.deletes)]
    if rows:
        output.line()
        output.rows("text", _DELETES, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        output.line(f"and {len(rows) - _SHOWN:,} more; --output json lists them all")


def _is_told(name: str, plan: ChangePlan) -> bool:
    if name == "revision":
        return plan.is_done
    if name in ("rows_back", "rows_deleted"):
        return any(change.deletes.num_rows for change in plan.changes)
    return plan.kind == "restore" or name not in ("files_added", "rows_added", "size_bytes")
