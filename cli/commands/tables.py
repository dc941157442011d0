"""`lakelog databases`, `tables`, `files` and `explain`: what a catalog holds, down to the files of
a table, their statistics, and which of them a condition keeps.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptError, SchemaConflict
from .. import options, output
from ..command_list import Command
from ..errors import CommandWarning, as_far_as_readable, note_error
from ..opening import cut_fields, open_catalog, open_snapshot, print_cut, print_rows
from ..output import SIZES, Column, columns
from ..text import count, many, size
from ..values import records

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.snapshot import Snapshot

_TABLES: Final = (
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
            records.append({**dict.fromkeys(column.name for column in _TABLES), "table": table})
    head = cut_fields(snapshot)
    output.rows(args.output, _TABLES, records, empty="(no tables)", head=head, name="tables")
    if args.output == "text":
        print_cut(snapshot)
    return CorruptError.exit_code if failed or not is_whole else 0


def _record(snapshot: Snapshot, table: str) -> dict[str, Any]:
    total = _totals(snapshot.files(table))
    number: int | None = None
    try:
        number = len(snapshot.schema(table))
    except SchemaConflict as error:
        warnings.warn(
            f"{error.message}; `lakelog schema` shows whose files", CommandWarning, stacklevel=2
        )
    return {"table": table, "rows": total["row_count"], **total, "columns": number}


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
    (*options.IN_DATABASE, options.AS_OF, options.writer("only what this writer has committed")),
    _list_tables,
)


_FILES: Final = (
    Column("writer"),
    Column("path", shown=False),
    Column("partition"),
    *SIZES,
    Column("revision", style="count"),
    Column("url", shown=False),
)
_FILES_TEXT: Final = (*(column for column in _FILES if column.shown), Column("path"))
_STATISTICS: Final = (
    *columns("writer", "path"),
    Column("row_group", "GROUP", style="count"),
    *columns("column", "bound_type"),
    Column("null_count", "NULLS", style="count"),
    *columns("min", "max"),
    *columns("min_exact", "max_exact", "no_nan", style="yes"),
    *columns("bloom_offset", "bloom_bytes", number=True),
)
_EXPLAINED: Final = (
    Column("writer"),
    Column("path", whole=True),
    Column("partition", shown=False),
    *SIZES,
    Column("kept", style="yes"),
    Column("reason", whole=True),
    Column("bloom_filters", number=True, shown=False),
    Column("deletes", shown=False),
    Column("key_files", number=True, shown=False),
)
_BY_PATH: Final = [("writer", "ascending"), ("path", "ascending")]


# --- Files ----------------------------------------------------------------------------------------


def _list_files(args: argparse.Namespace) -> int:
    snapshot = open_snapshot(args)
    if args.statistics or args.row_groups:
        return _list_statistics(snapshot, args)
    files = snapshot.files(args.table, where=args.where, partition=args.partition)
    files = files.sort_by(_BY_PATH)
    kept = files if args.limit is None else files.slice(0, args.limit)
    rows = records(kept, [column.name for column in _FILES])

    def print_text() -> None:
        output.rows("text", _FILES_TEXT, rows, empty="(no files)")
        if files.num_rows:
            of = "" if kept.num_rows == files.num_rows else f"{kept.num_rows} of "
            total = _totals(files)
            output.line(
                f"\n{of}{many(total['files'], 'file')}, {many(total['row_count'], 'row')}, "
                f"{size(total['size_bytes'])}"
            )

    print_rows(args, _FILES, rows, snapshot, print_text, name="files")
    return 0


def _list_statistics(snapshot: Snapshot, args: argparse.Namespace) -> int:
    from ..describe import statistics_records

    statistics = snapshot.statistics(
        args.table, partition=args.partition, row_groups=args.row_groups
    )
    if args.where is not None:
        statistics = statistics.filter(
            _of_files(statistics, snapshot.files(args.table, where=args.where))
        )
    kept = statistics if args.limit is None else statistics.slice(0, args.limit)
    rows = statistics_records(kept)

    def print_text() -> None:
        hidden = {"bound_type", "min_exact", "max_exact", "bloom_offset", "bloom_bytes"}
        hidden |= set() if args.row_groups else {"row_group"}
        hidden |= set() if any(row["no_nan"] for row in rows) else {"no_nan"}
        for row in rows:
            row |= {name: _bound(row, name) for name in ("min", "max")}
            row["no_nan"] = row["no_nan"] or None  # what isn't proven is unknown
        shown = [column for column in _STATISTICS if column.name not in hidden]
        output.rows("text", shown, rows, empty="(no statistics)")
        if kept.num_rows < statistics.num_rows:
            output.line(f"\n{kept.num_rows} of {many(statistics.num_rows, 'row')}")

    print_rows(args, _STATISTICS, rows, snapshot, print_text, name="statistics")
    return 0


def _of_files(rows: pa.Table, files: pa.Table) -> pa.Array:
    """A mask of the rows that are about one of these files."""
    import pyarrow as pa

    names = ("writer", "path")
    known = set(zip(*(files.column(name).to_pylist() for name in names)))
    pairs = zip(*(rows.column(name).to_pylist() for name in names))
    return pa.array([pair in known for pair in pairs], pa.bool_())


def _bound(record: dict[str, Any], name: str) -> str | None:
    """A bound as text, with `~` if no row need have that very value."""
    value = record[name]
    return None if value is None else f"{value}{'' if record[f'{name}_exact'] else '~'}"


def _totals(files: pa.Table) -> dict[str, int]:
    import pyarrow.compute as pc

    sums = {name: pc.sum(files.column(name)).as_py() or 0 for name in ("row_count", "size_bytes")}
    return {"files": files.num_rows, **sums}


FILES: Final = Command(
    """\
List the live files of a table, sorted by writer and path. Paths are relative to
<writer>/<database>/; json, csv and the other forms also have the URL of each file, as another
engine opens it. --where leaves out files that can't hold such a row, by the log's statistics alone;
`lakelog explain` says why.

--statistics lists what the log knows of the columns of each file instead: null counts and the
least and greatest value (in text, ~ after a value means that it is only a bound), whether a column
of floats is known to hold no NaN, which the least and greatest value leave open, and in json, csv
and the other forms the places of bloom filters. --row-groups gives that of each row group of files
that have more than one.""",
    """
lakelog files s3://lake/catalog weather hourly
lakelog files ./catalog weather hourly --as-of EWR=3,JFK=2
lakelog files ./catalog weather hourly --partition 2013-01
lakelog files ./catalog weather hourly --where "temp > 95"
lakelog files ./catalog weather hourly --statistics --limit 20
lakelog files ./catalog weather hourly --row-groups --output csv
lakelog files ./catalog weather hourly --output jsonl | jq -r .url
""",
    (
        *options.ON_TABLE,
        options.AS_OF,
        options.writer("only this writer's files"),
        options.where("only files that may hold rows which meet this"),
        options.partition("files"),
        options.limit("files, or rows of statistics"),
        options.flag("--statistics", "the statistics of each column of each file"),
        options.flag(
            "--row-groups", "the statistics of row groups, of files that have more than one"
        ),
    ),
    _list_files,
)


# --- Why files are skipped ------------------------------------------------------------------------


def _explain(args: argparse.Namespace) -> int:
    snapshot = open_snapshot(args)
    explained = snapshot.explain(
        args.table, args.where, partition=args.partition, read_filters=args.read_filters
    )
    explained = explained.sort_by(_BY_PATH)
    kept = explained.filter(explained.column("kept"))
    listed = kept if args.kept else explained
    if args.skipped:
        listed = explained.filter([not value for value in explained.column("kept").to_pylist()])
    shown = listed if args.limit is None else listed.slice(0, args.limit)
    rows = records(shown, [column.name for column in _EXPLAINED])
    if args.output == "text":
        if rows or not listed.num_rows:
            output.rows("text", _EXPLAINED, rows, empty="(no such files)")
        if shown.num_rows < listed.num_rows:
            output.line(f"and {count(listed.num_rows - shown.num_rows)} more")
    head = {"where": args.where, "kept": _totals(kept), "all": _totals(explained)}
    print_rows(
        args, _EXPLAINED, rows, snapshot, lambda: _print_kept(args, explained, kept), name="files",
        head=head,
    )  # fmt: skip
    return 0


def _print_kept(args: argparse.Namespace, explained: pa.Table, kept: pa.Table) -> None:
    few, all_ = _totals(kept), _totals(explained)
    output.line(
        f"\nkept: {count(few['files'])} of {many(all_['files'], 'file')}, "
        f"{count(few['row_count'])} of {many(all_['row_count'], 'row')}, "
        f"{size(few['size_bytes'])} of {size(all_['size_bytes'])}"
    )
    if hidden := sum(bool(words) for words in kept.column("deletes").to_pylist()):
        output.line(f"rows of {many(hidden, 'file')} were deleted, and are left out")
    if keyed := [number for number in kept.column("key_files").to_pylist() if number]:
        among = many(max(keyed), "file")
        output.line(f"keys of {many(len(keyed), 'file')} are resolved, of one among up to {among}")
    if filters := sum(explained.column("bloom_filters").to_pylist()):
        verb = "were asked" if args.read_filters else "can rule out more: lakelog scan asks them"
        output.line(f"bloom filters of {many(filters, 'row group')} {verb}")


EXPLAIN: Final = Command(
    """\
Show which files of a table a condition keeps, and for each other file which part of the condition
none of its rows can meet, by what the log knows of it. No data file is opened. The last line counts
what is kept: the files that `lakelog files` lists and `lakelog scan` reads.

If a column must equal a value, `lakelog scan` also checks bloom filters, which are stored in the
files: their number is shown here, and --read-filters checks them.""",
    """
lakelog explain s3://lake/catalog weather hourly --where "temp > 95"
lakelog explain ./catalog weather hourly --where "origin = 'JFK' and temp < 15" --skipped
lakelog explain ./catalog weather hourly --where "temp is null" --as-of EWR=3,JFK=2
lakelog explain ./catalog weather hourly --where "month = 7" --output json
lakelog explain ./catalog weather hourly --where "origin = 'JFK'" --read-filters
""",
    (
        *options.ON_TABLE,
        options.where("the condition to explain", required=True),
        options.either(
            options.flag("--kept", "list only files that are kept"),
            options.flag("--skipped", "list only files that are skipped"),
        ),
        options.flag("--read-filters", "read bloom filters from files, as a scan does"),
        options.partition("files"),
        options.AS_OF,
        options.writer("only this writer's files"),
        options.limit("files"),
    ),
    _explain,
)
