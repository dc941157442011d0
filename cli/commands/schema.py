"""`lakelog schema`: the columns of a table, and which files differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import SchemaConflict
from .. import evolve, options, output
from ..opening import cut_fields, open_snapshot, print_cut
from ..output import Column
from ..text import cell, count, many

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.data.file_part import FilePart
    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
Show the columns that rows of a table have: the schemas of all its live files, unified. Where
files differ (a column missing, another type), it says whose
files and how many.

With --evolve it changes them: no file is written anew, but all are read so from then on, in
the logs of all writers, or of --writer. Shown is what would become of the columns; with
--execute it is committed, in one commit a log. With --history it tells how they came about.

Types with no safe common type are a conflict: the columns are shown all the same, and the exit
code is 4."""
EXAMPLES: Final = """
lakelog schema s3://lake/catalog weather hourly
lakelog schema ./catalog weather hourly --output json
lakelog schema ./catalog weather hourly --evolve --add "gust double" --add "ok bool true"
lakelog schema ./catalog weather hourly --evolve --rename wind=wind_speed --drop visib --execute
lakelog schema ./catalog weather hourly --evolve --key station --key hour --execute
lakelog schema ./catalog weather hourly --history
"""
_COLUMNS: Final = (
    Column("column"),
    Column("type"),
    Column("nullable", style="yes"),
    Column("files", style="count"),
)

_NAMED: Final = 5


@dataclass(slots=True)
class _Variant:
    """A schema that some live files have.

    Attributes:
        schema: Of the columns that the files have, or that have a default there.
        files: Number of files by writer.
    """

    schema: pa.Schema
    files: Counter[str] = field(default_factory=Counter)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_as_of(parser)
    options.add_writer(parser, "only this writer's files, or log")
    evolve.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the columns, then what differs; or change them."""
    if args.evolve or args.execute or evolve.changes(args):
        return evolve.run(args)
    if args.history:
        return evolve.run_history(args)
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
    columns = _columns(unified, variants)
    differing = [_difference(variant, columns) for variant in variants]
    if args.output == "json":
        output.json_object(
            {
                "table": args.table,
                "conflict": conflict.message if conflict else None,
                "columns": columns,
                "key": key,
                "variants": differing,
                **cut_fields(snapshot),
            }
        )
    else:
        output.rows(args.output, _COLUMNS, columns)
    if args.output == "text":
        if key:
            output.line(f"\nkey: {', '.join(map(cell, key))}")
        _print_differences(differing)
        print_cut(snapshot)
    if conflict:
        raise conflict
    return 0


def _variants(snapshot: Snapshot, table: str) -> list[_Variant]:
    """The distinct schemas of live files, the one with the most files first."""
    found: dict[tuple[bytes, bytes], _Variant] = {}
    for part in snapshot.plain_parts(table):
        variant = found.setdefault(part.form, _Variant(_held(part)))
        variant.files[part.key.split("/", 1)[0]] += 1
    return sorted(found.values(), key=lambda item: (-item.files.total(), sorted(item.files)))


def _held(part: FilePart) -> pa.Schema:
    from ...catalog.data.unify import only

    if part.shown is None:
        return part.schema
    there = {*part.shown.stored, *part.shown.defaults}
    return only(part.shown.schema, there)


def _columns(unified: pa.Schema | None, variants: list[_Variant]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for variant in variants for name in variant.schema.names)
    columns = []
    for name in unified.names if unified is not None else names:
        holding = [variant for variant in variants if name in variant.schema.names]
        types = list(dict.fromkeys(str(variant.schema.field(name).type) for variant in holding))
        kind = str(unified.field(name).type) if unified is not None else " | ".join(types)
        everywhere = len(holding) == len(variants)
        strict = everywhere and not any(v.schema.field(name).nullable for v in holding)
        columns.append(
            {
                "column": name,
                "type": kind,
                "nullable": not strict or not holding,
                "files": sum(variant.files.total() for variant in holding),
            }
        )
    return columns


def _difference(variant: _Variant, columns: list[dict[str, Any]]) -> dict[str, Any]:
    """A variant, and how it differs from the unified columns."""
    missing, types = [], {}
    for column in columns:
        index = variant.schema.get_field_index(column["column"])
        if index < 0:
            missing.append(column["column"])
        elif str(variant.schema.field(index).type) != column["type"]:
            types[column["column"]] = str(variant.schema.field(index).type)
    return {
        "files": variant.files.total(),
        "writers": dict(sorted(variant.files.items())),
        "missing": missing,
        "types": types,
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
    output.table(
        ["FILES", "WRITERS", "DIFFERENCE"],
        [[count(item["files"]), _writers(item["writers"]), _changes(item)] for item in odd],
        [True, False, False],
    )


def _writers(files: dict[str, int]) -> str:
    names = list(files)
    return (
        ", ".join(names)
        if len(names) <= _NAMED
        else f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    )


def _changes(item: dict[str, Any]) -> str:
    changes = [f"no {', '.join(item['missing'])}"] if item["missing"] else []
    changes += [f"{name} is {kind}" for name, kind in item["types"].items()]
    return cell("; ".join(changes))
