"""`lakelog schema`: the columns of a table, the files that differ, the history of the columns, and
their evolution.
"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ...errors import SchemaConflict, UsageError
from .. import options, output
from ..command_list import Command
from ..errors import dry_run
from ..opening import (
    cut_fields,
    cut_of_history,
    each_writer,
    open_catalog,
    open_snapshot,
    print_commits,
    print_cut,
)
from ..output import Column, columns
from ..text import cell, count, many

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.commit.change_all import Evolved
    from ...catalog.data.file_part import FilePart
    from ...catalog.read.history_table import ColumnsAt
    from ...catalog.snapshot import Snapshot

    # A schema that some live files have, and the number of these files by writer.
    _Variant = tuple[pa.Schema, Counter[str]]

_COLUMNS: Final = (
    *columns("column", "type"),
    Column("nullable", style="yes"),
    Column("files", style="count"),
)
_PLAN: Final = (
    *columns("writer", "before", "after", "key"),
    Column("changes", style="yes"),
    Column("revision", number=True),
)
_HISTORY: Final = (
    Column("writer"),
    Column("revision", number=True),
    *columns("committed_at", "kind", "columns", "key"),
)
_CHANGES: Final = ("add", "drop", "rename", "widen", "order", "key", "no_key")
_NAMED: Final = 5


def _run(args: argparse.Namespace) -> int:
    if args.evolve or args.execute or _changes(args):
        return _evolve(args)
    return _show_history(args) if args.history else _show_columns(args)


# --- Columns and files that differ ----------------------------------------------------------------


def _show_columns(args: argparse.Namespace) -> int:
    snapshot = open_snapshot(args)
    conflict: SchemaConflict | None = None
    key: tuple[str, ...] = ()
    unified: pa.Schema | None = None
    try:
        unified = snapshot.schema(args.table)
        key = snapshot.key(args.table)
    except SchemaConflict as error:
        conflict = error
    variants = _variants(snapshot, args.table)
    rows = _unified_columns(unified, variants)
    differing = [_difference(variant, rows) for variant in variants]
    if args.output == "json":
        output.json_object(
            {
                "table": args.table,
                "conflict": conflict.message if conflict else None,
                "columns": rows,
                "key": key,
                "variants": differing,
                **cut_fields(snapshot),
            }
        )
    else:
        output.rows(args.output, _COLUMNS, rows)
    if args.output == "text":
        if key:
            output.line(f"\nkey: {', '.join(map(cell, key))}")
        _print_differences(differing)
        print_cut(snapshot)
    if conflict:
        raise conflict
    return 0


def _variants(snapshot: Snapshot, table: str) -> list[_Variant]:
    """The distinct schemas of live files, with the number of files by writer; the one with the most
    files first."""
    variants: dict[tuple[bytes, bytes], _Variant] = {}
    for part in snapshot.plain_parts(table):
        _, files = variants.setdefault(part.form, (_schema_of(part), Counter()))
        files[part.key.split("/", 1)[0]] += 1
    return sorted(variants.values(), key=lambda item: (-item[1].total(), sorted(item[1])))


def _schema_of(part: FilePart) -> pa.Schema:
    from ...catalog.data.unify import only

    if part.shown is None:
        return part.schema
    return only(part.shown.schema, {*part.shown.stored, *part.shown.defaults})


def _unified_columns(unified: pa.Schema | None, variants: list[_Variant]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for schema, _ in variants for name in schema.names)
    rows = []
    for name in unified.names if unified is not None else names:
        fields = [(s.field(name), files) for s, files in variants if name in s.names]
        types = list(dict.fromkeys(str(one.type) for one, _ in fields))
        strict = len(fields) == len(variants) and not any(one.nullable for one, _ in fields)
        rows.append(
            {
                "column": name,
                "type": str(unified.field(name).type) if unified is not None else " | ".join(types),
                "nullable": not strict or not fields,
                "files": sum(files.total() for _, files in fields),
            }
        )
    return rows


def _difference(variant: _Variant, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A variant, and its differences from the unified columns."""
    schema, files = variant
    own = {one.name: str(one.type) for one in schema}
    return {
        "files": files.total(),
        "writers": dict(sorted(files.items())),
        "missing": [row["column"] for row in rows if row["column"] not in own],
        "types": {
            name: own[name]
            for name, kind in ((row["column"], row["type"]) for row in rows)
            if own.get(name, kind) != kind
        },
    }


def _print_differences(differing: list[dict[str, Any]]) -> None:
    odd = [item for item in differing if item["missing"] or item["types"]]
    total = sum(item["files"] for item in differing)
    if not odd:
        output.line(
            f"\nall {many(total, 'file')} agree" if total > 1 else f"\n{many(total, 'file')}"
        )
        return
    output.line(f"\n{count(sum(item['files'] for item in odd))} of {many(total, 'file')} differ\n")
    cells = []
    for item in odd:
        names = list(item["writers"])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        parts = [f"no {', '.join(item['missing'])}"] if item["missing"] else []
        parts += [f"{name} is {kind}" for name, kind in item["types"].items()]
        cells.append(
            [count(item["files"]), ", ".join(names[:_NAMED]) + more, cell("; ".join(parts))]
        )
    output.table(["FILES", "WRITERS", "DIFFERENCE"], cells, [True, False, False])


# --- History --------------------------------------------------------------------------------------


def _show_history(args: argparse.Namespace) -> int:
    """Print each schema and definition with the revision that introduced it."""
    from ...catalog.read.history_table import column_history

    if args.as_of is not None:
        raise UsageError(
            "--history shows all that is left of it, and takes no --as-of", hint="Leave one out"
        )
    catalog = open_catalog(args)
    cut = cut_of_history(args, catalog)
    newest = None if cut is None else cut.cut.revisions
    rows = [
        _history_row(writer, item)
        for writer in each_writer(catalog, args.database, args.writer)
        for item in column_history(catalog.store, writer, args.database, args.table)
        if newest is None or item.revision <= newest.get(writer, -1)
    ]
    if not rows:
        catalog.snapshot(args.database).column_names(args.table)  # raises if there is no such table
    head = {"table": args.table, **cut_fields(cut)}
    output.rows(args.output, _HISTORY, rows, head=head, name="history")
    return 0


def _history_row(writer: str, item: ColumnsAt) -> dict[str, Any]:
    from ...catalog.format.schema import column_id
    from ..describe import column_text, definition_form

    names, key = None, None
    if item.schema is not None:
        names = ", ".join(f"{column_id(one)} {one.name} {one.type}" for one in item.schema)
    if item.definition is not None:
        form = definition_form(item.definition)
        names = ", ".join(map(column_text, form["columns"]))
        key = ", ".join(form["key"])
    return {
        "writer": writer,
        "revision": item.revision,
        "committed_at": None if item.at_us is None else output.utc_from_us(item.at_us),
        "kind": item.kind,
        "columns": names,
        "key": key,
    }


# --- Evolution ------------------------------------------------------------------------------------


def _evolve(args: argparse.Namespace) -> int:
    if args.history or args.as_of is not None:
        raise UsageError(
            "Columns are changed from now on: --evolve takes no --as-of and no --history",
            hint="Leave them out",
        )
    if not args.evolve or not (changes := _changes(args)):
        raise UsageError(
            "No change of the columns is given" if args.evolve else "--evolve is missing",
            hint="Give --evolve with --add, --drop, --rename, --widen, --order or --key",
        )
    catalog = open_catalog(args)
    writers = None if args.writer is None else [args.writer]
    done = catalog.evolve(
        args.database, args.table, writers=writers, execute=args.execute, **changes
    )
    rows = [_plan_row(item) for item in done]
    print_commits(
        args,
        _PLAN,
        rows,
        catalog=catalog,
        head={"table": args.table},
        print_text=lambda: output.rows("text", _PLAN, rows),
    )
    if not args.execute and any(item.changes for item in done):
        dry_run("nothing was changed")
    return 0


def _plan_row(item: Evolved) -> dict[str, Any]:
    before, after = (
        ", ".join(f"{one.name} {one.type}" for one in schema)
        for schema in (item.before, item.after)
    )
    return {
        "writer": item.writer,
        "before": before,
        "after": after,
        "key": ", ".join(item.key),
        "changes": item.changes,
        "revision": item.revision,
    }


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    """The changes, as `Catalog.evolve` takes them; empty if none is given."""
    if not any(getattr(args, name) for name in _CHANGES):
        return {}
    from ..inputs.texts import type_named

    added = [_words(text, "--add", 2, 3) for text in args.add]
    wider = [_words(text, "--widen", 2, 2) for text in args.widen]
    types = {words[0]: type_named(words[1]) for words in added}
    renamed = {}
    for text in args.rename:
        old, _, new = text.partition("=")
        if not (old and new):
            raise UsageError(f"--rename can't be {text[:60]!r}", hint="Give OLD=NEW")
        renamed[old] = new
    return {
        "add": types,
        "default": {w[0]: _value(w[2], types[w[0]], w[0]) for w in added if len(w) > 2},
        "drop": args.drop,
        "rename": renamed,
        "widen": {words[0]: type_named(words[1]) for words in wider},
        "order": args.order,
        "key": args.key if args.key or args.no_key else None,
    }


def _words(text: str, option: str, least: int, most: int) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not least <= len(words) <= most:
        raise UsageError(
            f"{option} can't be {text[:60]!r}",
            hint='Give "NAME TYPE", and for --add optionally a value; quote what has spaces',
        )
    return words


def _value(text: str, kind: pa.DataType, name: str) -> pa.Scalar:
    import pyarrow as pa

    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowException as error:
        raise UsageError(
            f"{cell(text)} is no {kind}, the type of column {name!r}",
            key=name,
            hint="Give a value of its type: 5, 1.5, true, 2026-11-20",
        ) from error


SCHEMA: Final = Command(
    """\
Show the columns of the rows of a table: the schemas of all its live files, unified. If files differ
(a missing column, another type), their number and writers are shown.

--evolve changes the columns: no file is rewritten, but all are read that way from then on, in the
logs of all writers, or of --writer. The resulting columns are shown; --execute commits them, in one
commit a log. --history shows how the columns changed.

Types without a safe common type are a conflict: the columns are shown all the same, and the exit
code is 4.""",
    """
lakelog schema s3://lake/catalog weather hourly
lakelog schema ./catalog weather hourly --output json
lakelog schema ./catalog weather hourly --evolve --add "gust double" --add "ok bool true"
lakelog schema ./catalog weather hourly --evolve --rename wind=wind_speed --drop visib --execute
lakelog schema ./catalog weather hourly --evolve --key station --key hour --execute
lakelog schema ./catalog weather hourly --history
""",
    (
        *options.ON_TABLE,
        options.AS_OF,
        options.writer("only this writer's files, or log"),
        options.flag("--history", "show how the columns changed"),
        options.group(
            "changing the columns",
            options.flag("--evolve", "change the columns as the following options say"),
            options.repeated(
                "--add",
                '"NAME TYPE [DEFAULT]"',
                "add a column; DEFAULT (else null) applies to existing files",
            ),
            options.repeated("--drop", "NAME", "drop a column"),
            options.repeated("--rename", "OLD=NEW", "rename a column"),
            options.repeated(
                "--widen",
                '"NAME TYPE"',
                "change the type to one that holds every value of the present one",
            ),
            options.repeated("--order", "NAME", "put this column first, or next (repeatable)"),
            options.repeated("--key", "NAME", "make this column part of the key (repeatable)"),
            options.flag("--no-key", "remove the key of the table"),
            options.execute("commit it"),
        ),
    ),
    _run,
)
