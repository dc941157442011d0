"""`lakelog schema --evolve` and `--history`: changing the columns of a table, and how they came
about.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError
from . import output
from .opening import (
    cut_fields,
    cut_of_history,
    each_writer,
    open_catalog,
    print_cut,
    snapshot_after,
)
from .output import Column
from .show_definition import definition_form
from .streams import tell
from .text import cell

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ..catalog.commit.evolve_all import Evolved
    from ..catalog.read.column_history import ColumnsAt
    from ..catalog.snapshot import Snapshot

_CHANGES: Final = ("add", "drop", "rename", "widen", "order", "key", "no_key")
_PLAN: Final = (
    Column("writer"),
    Column("before"),
    Column("after"),
    Column("key"),
    Column("changes", style="yes"),
    Column("revision", number=True),
)
_HISTORY: Final = (
    Column("writer"),
    Column("revision", number=True),
    Column("committed_at"),
    Column("kind"),
    Column("columns"),
    Column("key"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `lakelog schema` takes for both."""
    parser.add_argument("--history", action="store_true", help="how the columns came about")
    group = parser.add_argument_group("changing the columns")
    group.add_argument("--evolve", action="store_true", help="change them as the following say")
    group.add_argument(
        "--add",
        metavar='"NAME TYPE [DEFAULT]"',
        action="append",
        default=[],
        help="a new column, with the value that files have which lack it (else null)",
    )
    group.add_argument("--drop", metavar="NAME", action="append", default=[], help="it goes")
    group.add_argument(
        "--rename", metavar="OLD=NEW", action="append", default=[], help="it is called so"
    )
    group.add_argument(
        "--widen",
        metavar='"NAME TYPE"',
        action="append",
        default=[],
        help="a type that holds every value of the present one",
    )
    group.add_argument(
        "--order", metavar="NAME", action="append", default=[], help="it comes first, or next"
    )
    group.add_argument(
        "--key", metavar="NAME", action="append", default=[], help="it is of the table's key"
    )
    group.add_argument("--no-key", action="store_true", help="the table has no key any more")
    group.add_argument("--execute", action="store_true", help="commit it")


def changes(args: argparse.Namespace) -> dict[str, Any]:
    """What is to become of the columns, as `Catalog.evolve` takes it; empty for nothing."""
    if not any(getattr(args, name) for name in _CHANGES):
        return {}
    added = [_words(text, "--add", 2, 3) for text in args.add]
    wider = [_words(text, "--widen", 2, 2) for text in args.widen]
    types = {words[0]: _type(words[1]) for words in added}
    defaults = {w[0]: _value(w[2], types[w[0]], w[0]) for w in added if len(w) > 2}
    renamed = dict(_pair(text) for text in args.rename)
    return {
        "add": types,
        "default": defaults,
        "drop": args.drop,
        "rename": renamed,
        "widen": {words[0]: _type(words[1]) for words in wider},
        "order": args.order,
        "key": args.key if args.key or args.no_key else None,
    }


def run(args: argparse.Namespace) -> int:
    """Show what would become of the columns, and commit it if asked to."""
    if args.history or args.as_of is not None:
        raise UsageError(
            "Columns are changed from now on: --evolve takes no --as-of and no --history",
            hint="Leave them out",
        )
    if not args.evolve or not (change := changes(args)):
        raise UsageError(
            "Nothing says what is to become of the columns"
            if args.evolve
            else "--evolve is missing",
            hint="Give --evolve with --add, --drop, --rename, --widen, --order or --key",
        )
    catalog = open_catalog(args)
    writers = None if args.writer is None else [args.writer]
    done = catalog.evolve(
        args.database, args.table, writers=writers, execute=args.execute, **change
    )
    committed = any(item.revision is not None for item in done)
    after = snapshot_after(catalog, args.database) if committed else None
    _print_plan(args, [_planned(item) for item in done], after)
    if not args.execute and any(item.changes for item in done):
        sys.stdout.flush()
        tell("\nDRY RUN: nothing was changed; add --execute\n")
    return 0


def _print_plan(
    args: argparse.Namespace, rows: list[dict[str, Any]], after: Snapshot | None
) -> None:
    """Print what becomes of each log, and the cut that came of it."""
    cut = cut_fields(after)
    if args.output == "json":
        head = {"table": args.table, "dry_run": not args.execute, **cut}
        output.rows("json", _PLAN, rows, head=head, name="logs")
        return
    with_token = [{**row, "token": cut["token"]} for row in rows]
    output.rows(args.output, (*_PLAN, Column("token", shown=False)), with_token)
    if args.output == "text":
        print_cut(after)


def run_history(args: argparse.Namespace) -> int:
    """Print each schema and definition with the revision that first said it."""
    from ..catalog.read.column_history import column_history

    if args.as_of is not None:
        raise UsageError(
            "--history tells all that is left of it, and takes no --as-of", hint="Leave one out"
        )
    catalog = open_catalog(args)
    cut = cut_of_history(args, catalog)
    newest = None if cut is None else cut.cut.revisions
    rows = [
        _told(writer, item)
        for writer in each_writer(catalog, args.database, args.writer)
        for item in column_history(catalog.store, writer, args.database, args.table)
        if newest is None or item.revision <= newest.get(writer, -1)
    ]
    if not rows:
        catalog.snapshot(args.database).column_names(args.table)  # says that there is none
    head = {"table": args.table, **cut_fields(cut)}
    output.rows(args.output, _HISTORY, rows, head=head, name="history")
    return 0


def _planned(item: Evolved) -> dict[str, Any]:
    return {
        "writer": item.writer,
        "before": _columns(item.before),
        "after": _columns(item.after),
        "key": ", ".join(item.key),
        "changes": item.changes,
        "revision": item.revision,
    }


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _with_ids(schema: pa.Schema) -> str:
    from ..catalog.format.schema import column_id

    return ", ".join(f"{column_id(field)} {field.name} {field.type}" for field in schema)


def _told(writer: str, item: ColumnsAt) -> dict[str, Any]:
    found: dict[str, Any] = {
        "writer": writer,
        "revision": item.revision,
        "committed_at": None if item.at_us is None else output.utc_from_us(item.at_us),
        "kind": item.kind,
        "columns": None if item.schema is None else _with_ids(item.schema),
        "key": None,
    }
    if item.definition is not None:
        form = definition_form(item.definition)
        found["columns"] = ", ".join(map(_column, form["columns"]))
        found["key"] = ", ".join(form["key"])
    return found


def _column(column: dict[str, Any]) -> str:
    text = f"{column['id']} {column['column']} {column['type']}"
    return text if column["default"] is None else f"{text} default {column['default']}"


def _words(text: str, option: str, least: int, most: int) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not least <= len(words) <= most:
        raise UsageError(
            f"{option} can't be {text[:60]!r}",
            hint='Give "NAME TYPE", and for --add perhaps a value behind; quote what has spaces',
        )
    return words


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise UsageError(f"--rename can't be {text[:60]!r}", hint="Give OLD=NEW")
    return old, new


def _type(text: str) -> pa.DataType:
    from .inputs.type_names import type_named

    return type_named(text)


def _value(text: str, kind: pa.DataType, name: str) -> pa.Scalar:
    import pyarrow as pa

    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowException as error:
        raise UsageError(
            f"{cell(text)} is no {kind}, which column {name!r} is to be",
            key=name,
            hint="Give a value of its type: 5, 1.5, true, 2026-11-20",
        ) from error
