"""`lakelog tables`: what a database holds."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptError, SchemaConflict
from .. import options, output
from ..errors import CommandWarning, as_far_as_told, note_error
from ..opening import cut_fields, open_snapshot, print_cut
from ..output import Column

if TYPE_CHECKING:
    import argparse

    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
List the tables of a database over all its writers, with their live files, rows, size and number
of columns. A table without live files stays in the list, with its columns, once anything was
committed to it, until the log is told to forget it (`Writer.forget` in Python). So does one whose
files can't be told, since something is damaged. Names that can't be told either are warned of. The
command ends with 5 in both cases. text and json also give the token of what was read: with
`--as-of TOKEN` every command reads exactly that again."""
EXAMPLES: Final = """
lakelog tables s3://lake/catalog weather
lakelog tables ./catalog weather --as-of 2013-06-30T00:00Z
lakelog tables ./catalog weather --writer EWR --output json
"""
_COLUMNS: Final = (
    Column("table"),
    Column("files", style="count"),
    Column("rows", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("columns", style="count"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_as_of(parser)
    options.add_writer(parser, "only what this writer has committed")


def run(args: argparse.Namespace) -> int:
    """Print a row a table, sorted by name; one that can't be used has nothing but its name."""
    from ...catalog.read.tables import TablesWarning

    snapshot = open_snapshot(args)
    names, is_whole = as_far_as_told(snapshot.tables, TablesWarning)
    failed: list[CorruptError] = []
    records = []
    for table in names:
        try:
            records.append(_record(snapshot, table))
        except CorruptError as error:  # the others can be used all the same
            note_error(error)
            failed.append(error)
            records.append({**dict.fromkeys(column.name for column in _COLUMNS), "table": table})
    head = cut_fields(snapshot)
    output.rows(args.output, _COLUMNS, records, empty="(no tables)", head=head, name="tables")
    if args.output == "text":
        print_cut(snapshot)
    return CorruptError.exit_code if failed or not is_whole else 0


def _record(snapshot: Snapshot, table: str) -> dict[str, Any]:
    import pyarrow.compute as pc

    files = snapshot.files(table)
    columns: int | None = None
    try:
        columns = len(snapshot.schema(table))
    except SchemaConflict as error:
        warnings.warn(
            f"{error.message}; `lakelog schema` shows whose files", CommandWarning, stacklevel=2
        )
    return {
        "table": table,
        "files": files.num_rows,
        "rows": pc.sum(files.column("row_count")).as_py() or 0,
        "size_bytes": pc.sum(files.column("size_bytes")).as_py() or 0,
        "columns": columns,
    }
