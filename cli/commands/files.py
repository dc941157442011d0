"""`lakelog files`: the Parquet files of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .. import options, output
from ..opening import cut_fields, open_snapshot, print_cut
from ..output import Column
from ..text import many, size
from ..values import plain

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
List the live files of a table, sorted by writer and path. Paths are relative to
<writer>/<database>/; json, csv and the like also have the URL of each file, as another engine opens
it. With --where those are left out that can't hold such a row, by the log's statistics alone;
`lakelog explain` says why.

With --statistics list what the log knows of the columns of each file instead: null counts and the
least and greatest value (in text, ~ behind a value says that it is a bound only), whether a column
of floats is known to hold no NaN, which least and greatest say nothing of, and in json, csv and the
like where bloom filters lie. --row-groups gives that of each row group of files that have more than
one."""
EXAMPLES: Final = """
lakelog files s3://lake/catalog weather hourly
lakelog files ./catalog weather hourly --as-of EWR=3,JFK=2
lakelog files ./catalog weather hourly --partition 2013-01
lakelog files ./catalog weather hourly --where "temp > 95"
lakelog files ./catalog weather hourly --statistics --limit 20
lakelog files ./catalog weather hourly --row-groups --output csv
lakelog files ./catalog weather hourly --output jsonl | jq -r .url
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("path", shown=False),
    Column("partition"),
    Column("row_count", "ROWS", style="count"),
    Column("size_bytes", "SIZE", style="size"),
    Column("revision", style="count"),
    Column("url", shown=False),
)
_TEXT: Final = (*(column for column in _COLUMNS if column.shown), Column("path"))

_STATISTICS: Final = (
    Column("writer"),
    Column("path"),
    Column("row_group", "GROUP", style="count"),
    Column("column"),
    Column("bound_type"),
    Column("null_count", "NULLS", style="count"),
    *(Column("min"), Column("max")),
    *(Column("min_exact", style="yes"), Column("max_exact", style="yes")),
    Column("no_nan", style="yes"),
    *(Column("bloom_offset", number=True), Column("bloom_bytes", number=True)),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    options.add_as_of(parser)
    options.add_writer(parser, "only this writer's files")
    options.add_where(parser, "only files that may hold rows which meet this")
    options.add_partition(parser, "files")
    options.add_limit(parser, "files, or rows of statistics")
    parser.add_argument(
        "--statistics", action="store_true", help="the statistics of each column of each file"
    )
    parser.add_argument(
        "--row-groups",
        action="store_true",
        help="the statistics of row groups, of files that have more than one",
    )


def run(args: argparse.Namespace) -> int:
    """Print a row a file."""
    snapshot = open_snapshot(args)
    if args.statistics or args.row_groups:
        return _print_statistics(snapshot, args)
    found = snapshot.files(args.table, where=args.where, partition=args.partition)
    found = found.sort_by([("writer", "ascending"), ("path", "ascending")])
    kept = found if args.limit is None else found.slice(0, args.limit)
    if args.output != "text":
        head = cut_fields(snapshot)
        output.rows(args.output, _COLUMNS, _records(kept), head=head, name="files")
        return 0
    output.rows("text", _TEXT, _records(kept), empty="(no files)")
    _print_totals(found, kept.num_rows)
    print_cut(snapshot)
    return 0


def _print_statistics(snapshot: Snapshot, args: argparse.Namespace) -> int:
    """Print a row a file (or row group) and column."""
    from ..show_statistics import decoded

    found = snapshot.statistics(args.table, partition=args.partition, row_groups=args.row_groups)
    if args.where is not None:
        found = found.filter(_of_files(found, snapshot.files(args.table, where=args.where)))
    kept = found if args.limit is None else found.slice(0, args.limit)
    records = decoded(kept)
    if args.output != "text":
        head = cut_fields(snapshot)
        output.rows(args.output, _STATISTICS, records, head=head, name="statistics")
        return 0
    hidden = {"bound_type", "min_exact", "max_exact", "bloom_offset", "bloom_bytes"}
    hidden |= set() if args.row_groups else {"row_group"}
    hidden |= set() if any(record["no_nan"] for record in records) else {"no_nan"}
    shown = [column for column in _STATISTICS if column.name not in hidden]
    for record in records:
        record |= {name: _bound(record, name) for name in ("min", "max")}
        record["no_nan"] = record["no_nan"] or None  # what isn't proven is unknown
    output.rows("text", shown, records, empty="(no statistics)")
    if kept.num_rows < found.num_rows:
        output.line(f"\n{kept.num_rows} of {many(found.num_rows, 'row')}")
    print_cut(snapshot)
    return 0


def _of_files(rows: pa.Table, files: pa.Table) -> pa.Array:
    """Which rows are about one of these files."""
    import pyarrow as pa

    names = ("writer", "path")
    known = set(zip(*(files.column(name).to_pylist() for name in names)))
    asked = zip(*(rows.column(name).to_pylist() for name in names))
    return pa.array([pair in known for pair in asked], pa.bool_())


def _bound(record: dict[str, Any], name: str) -> str | None:
    """A bound as text; `~` says that no row need have that very value."""
    value = record[name]
    return None if value is None else f"{value}{'' if record[f'{name}_exact'] else '~'}"


def _records(found: pa.Table) -> list[dict[str, Any]]:
    columns = [plain(found.column(column.name)) for column in _COLUMNS]
    return [dict(zip((c.name for c in _COLUMNS), row)) for row in zip(*columns)]


def _print_totals(found: pa.Table, shown: int) -> None:
    import pyarrow.compute as pc

    if not found.num_rows:
        return
    of = "" if shown == found.num_rows else f"{shown} of "
    rows = pc.sum(found.column("row_count")).as_py()
    total = size(pc.sum(found.column("size_bytes")).as_py())
    output.line(f"\n{of}{many(found.num_rows, 'file')}, {many(rows, 'row')}, {total}")
