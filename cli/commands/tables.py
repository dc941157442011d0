"""`lakelog databases` and `lakelog tables`: the contents of a catalog and of a database."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptError, SchemaConflict
from .. import options, output
from ..command_list import Command
from ..errors import CommandWarning, as_far_as_readable, note_error
from ..opening import cut_fields, open_catalog, open_snapshot, print_cut
from ..output import Column, columns

if TYPE_CHECKING:
    import argparse

    from ...catalog.snapshot import Snapshot

_COLUMNS: Final = (
    Column("table"),
    *columns("files", "rows", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("columns", style="count"),
)


def _list_databases(args: argparse.Namespace) -> int:
    names = open_catalog(args).databases()
    output.rows(args.output, columns("database"), [{"database": name} for name in names])
    return 0


def _list_tables(args: argparse.Namespace) -> int:
    """Print a row a table, sorted by name; only the name of a table that can't be used."""
    from ...catalog.read.cut_tables import TablesWarning

    snapshot = open_snapshot(args)
    names, is_whole = as_far_as_readable(snapshot.tables, TablesWarning)
    failed: list[CorruptError] = []
    records = []
    for table in names:
        try:
            records.append(_record(snapshot, table))
        except CorruptError as error:  # the other tables can be used all the same
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
    number: int | None = None
    try:
        number = len(snapshot.schema(table))
    except SchemaConflict as error:
        warnings.warn(
            f"{error.message}; `lakelog schema` shows whose files", CommandWarning, stacklevel=2
        )
    return {
        "table": table,
        "files": files.num_rows,
        "rows": pc.sum(files.column("row_count")).as_py() or 0,
        "size_bytes": pc.sum(files.column("size_bytes")).as_py() or 0,
        "columns": number,
    }


DATABASES: Final = Command(
    "List the databases of a catalog: all names under which some writer has committed.",
    """
lakelog databases s3://lake/catalog
lakelog databases ./catalog --output json
""",
    options.CATALOG,
    _list_databases,
)
TABLES: Final = Command(
    """\
List the tables of a database over all its writers, with their live files, rows, size and number
of columns. A table without live files stays in the list, with its columns, once anything was
committed to it, until its log forgets it (`lakelog drop`). A table whose files can't be read
because something is damaged stays in the list, too. Names of tables that can't be read cause a
warning. In both cases the command ends with exit code 5. text and json also give the token of what
was read: with `--as-of TOKEN` every command reads exactly that again.""",
    """
lakelog tables s3://lake/catalog weather
lakelog tables ./catalog weather --as-of 2013-06-30T00:00Z
lakelog tables ./catalog weather --writer EWR --output json
""",
    (
        *options.IN_DATABASE,
        options.AS_OF,
        options.writer("only what this writer has committed"),
    ),
    _list_tables,
)
