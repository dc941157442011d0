"""`lakelog write`: local files into a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from ...errors import CommitOutcomeUnknown
from .. import options, output
from ..inputs.sources import FORMATS, check_encoding, open_sources
from ..opening import cut_fields, open_catalog, print_cut, snapshot_after
from ..output import Column
from ..overwrites import FIGURES, begun, check_overwriting, figures, overwrite, show_done, show_plan
from ..progress import Progress
from ..text import many, size

if TYPE_CHECKING:
    from ...catalog.catalog import Catalog
    from ...catalog.commit.done import Replaced
    from ...catalog.log.outcome import CommitInfo
    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
Commit local files to a table, all in one transaction: readers see all of them or none. A first
write makes the catalog, the database and the table. Parquet, Arrow, CSV, TSV and JSON files
(.parquet, .arrow, .csv, .tsv, .jsonl, .json; texts also compressed) are read here and written as
Parquet below the writer's prefix. JSON is an object a line, one array of objects, or what
`lakelog scan --output json` printed.

The types of csv and JSON are found over all files together and held against those of the table,
which decide, before anything is written. Nothing is guessed away: 007 makes a column text, an
integer beyond 2^53 doesn't become a double, a time with an offset is the same instant in UTC, and
one column doesn't mix times with and without a zone. What doesn't fit is an error that names file,
line and both types; --type decides otherwise. In csv an empty field is null and "" an empty text;
--null names more words for null. In JSON, NaN and infinities are the texts NaN, Infinity and
-Infinity among numbers; times, decimals and binary values (base64) are texts, as
`lakelog scan --output jsonl` prints them.

A writer id has one owner: if a process commits under this id already, its next commit is
refused. Take a writer id of your own, or commit beside it with --shared.

With --overwrite the files take the place of the rows that are there: of those that meet --where, or
of all, among the files of this writer (and of --partition). It shows what would go, and does
nothing until it is given --execute. The new rows must meet --where, too.

With --app-id and --app-version the same command can be run again after any failure and commits
once."""
EXAMPLES: Final = """
lakelog write ./catalog weather hourly january.csv --writer EWR --partition 2013-01
lakelog write ./catalog weather hourly *.csv --writer EWR --partition-by year,month
lakelog write s3://lake/catalog weather hourly *.parquet --writer EWR --app-id x --app-version 7
lakelog write ./catalog weather hourly - --format csv --writer EWR < rows.csv
lakelog write ./catalog db orders o.txt --format csv --delimiter ';' --encoding latin-1 --writer x
lakelog write ./catalog shop orders o.csv --no-header --columns id,price,at --writer x
lakelog write ./catalog db orders o.csv --null NA --null - --type price='decimal(10,2)' --writer x
lakelog write ./catalog shop orders day.csv --writer x --overwrite --where "day = 4" --execute
lakelog scan ./a db orders -o jsonl | lakelog write ./b db orders - --format jsonl --writer x
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("database"),
    Column("table"),
    Column("revision", number=True),
    Column("committed_at"),
    Column("transaction_id"),
    Column("skipped", style="yes"),
    Column("row_count", number=True),
    Column("size_bytes", number=True),
    Column("files"),
    Column("token"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a file on this machine; - is stdin (then --format says of what)",
    )
    options.add_writer(parser, "the writer id to commit under", required=True)
    parser.add_argument(
        "--partition", metavar="NAME", default="", help="the partition of the new files"
    )
    parser.add_argument(
        "--bloom",
        metavar="COLUMN",
        action="append",
        default=[],
        help="write a bloom filter of this column, so that reads of one value (id = 5) skip files "
        "which don't hold it; may be repeated",
    )
    parser.add_argument(
        "--partition-by",
        metavar="A,B",
        action="append",
        help="split the rows by the values of these columns, into partitions like "
        "year=2026/month=11 (repeat the option for names that hold a comma)",
    )
    parser.add_argument(
        "--format", choices=(*FORMATS, "json"), help="of the files; by their names if not given"
    )
    _add_reading(parser)
    parser.add_argument(
        "--app-id", metavar="ID", help="an application's name, for committing exactly once"
    )
    parser.add_argument(
        "--app-version",
        metavar="N",
        type=options.whole_number,
        help="goes with --app-id: this version is not committed if it or a later one is in the log",
    )
    options.add_shared(parser)
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace rows of this writer's table: a plan, unless --execute is given",
    )
    options.add_where(parser, "with --overwrite: only rows that meet this are replaced")
    parser.add_argument(
        "--execute", action="store_true", help="with --overwrite: do it, instead of showing it"
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """How csv and JSON are read."""
    parser.add_argument(
        "--delimiter", metavar="SIGN", default="", help="between the fields of a csv, e.g. ';'"
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether the first line of a csv names its columns (default), e.g. --no-header "
        "--columns id,price",
    )
    parser.add_argument(
        "--columns",
        metavar="A,B,C",
        action="append",
        help="the columns of a csv, instead of its header (repeat the option for names that hold a "
        "comma)",
    )
    parser.add_argument(
        "--null",
        metavar="WORD",
        action="append",
        default=[],
        help="an unquoted field of a csv that means null, beside the empty one, e.g. --null NA; "
        "may be repeated",
    )
    parser.add_argument(
        "--type",
        metavar="COLUMN=TYPE",
        action="append",
        default=[],
        help="the type of a column of csv or JSON, e.g. zip=string, price='decimal(10,2)', "
        "at=timestamptz; may be repeated",
    )
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        default="utf-8",
        help="of csv and JSON, e.g. latin-1 (default: utf-8)",
    )


def run(args: argparse.Namespace) -> int:
    """Commit, then print where it stands."""
    check_overwriting(args)
    catalog = open_catalog(args)
    done: Replaced | None = None
    try:
        info, paths, done = _written(catalog, args)
    except CommitOutcomeUnknown as error:
        error.hint = (
            "Running the same command again is safe: it commits once"
            if args.app_id
            else f"First look for transaction {error.transaction_id} in `lakelog log --output json`"
        )
        raise
    if done is not None and not args.execute:
        show_plan(args, done)
    else:
        _report(catalog, args, info, paths, done)
    return 0


def _written(
    catalog: Catalog, args: argparse.Namespace
) -> tuple[CommitInfo | None, list[str], Replaced | None]:
    from ..inputs.arguments import csv_options, names_of, refuse_idle_options
    from ..inputs.known import known_schema
    from ..inputs.read import open_rows
    from ..inputs.resolve import Resolver
    from ..inputs.type_names import parse_types

    csv, forced = csv_options(args), parse_types(args.type)
    by = names_of(args.partition_by) or None
    with open_sources(args.files, args.format, check_encoding(args.encoding)) as sources:
        refuse_idle_options(args, {source.form for source in sources})
        known = known_schema(catalog, args.database, args.table, args.writer)
        with Progress("files read", len(sources)) as progress:
            resolver = Resolver(args.table, known, forced, csv, progress.step)
            schema = resolver.resolve(sources)
        paths: list[str] = []
        with (
            Progress("files written", len(sources)) as progress,
            catalog.writer(args.writer, args.database, shared=args.shared) as writer,
            begun(writer, args) as tx,
        ):
            read = (open_rows(source, schema, csv, forced.keys()) for source in sources)
            if args.overwrite:
                done = overwrite(tx, args, schema, read, progress.step)
                return (tx.commit() if args.execute else None), done.paths, done
            for rows in read:
                paths += tx.write(
                    args.table, rows, args.partition, partition_by=by, bloom=args.bloom
                )
                progress.step()
            return tx.commit(), paths, None


def _report(
    catalog: Catalog,
    args: argparse.Namespace,
    info: CommitInfo | None,
    paths: list[str],
    done: Replaced | None,
) -> None:
    snapshot = snapshot_after(catalog, args.database)
    skipped = info is not None and info.skipped
    rows, total = (0, 0)
    if info is not None and not skipped:
        own = snapshot or catalog.snapshot(args.database, {args.writer: info.revision})
        rows, total = _sums(own, args, paths)
    record: dict[str, Any] = {
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        "revision": None if info is None or skipped else info.revision,
        "committed_at": None
        if info is None or skipped
        else output.utc_from_us(info.committed_at_us),
        "transaction_id": None if info is None or skipped else info.transaction_id,
        "skipped": skipped,
        "row_count": rows,
        "size_bytes": total,
        "files": [] if skipped else paths,
        **({} if done is None else figures(done)),
        **cut_fields(snapshot),
    }
    if args.output == "json":
        output.json_object(record)
    elif args.output != "text":
        output.rows(args.output, _COLUMNS if done is None else (*_COLUMNS, *FIGURES), [record])
    else:
        _print(record, args)
        if done is not None and record["revision"] is not None:
            show_done(done)
        print_cut(snapshot)


def _sums(snapshot: Snapshot, args: argparse.Namespace, paths: list[str]) -> tuple[int, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not paths:
        return 0, 0
    files = snapshot.files(args.table)
    mine = pc.and_(
        pc.equal(files.column("writer"), args.writer),
        pc.is_in(files.column("path"), pa.array(paths)),
    )
    files = files.filter(mine)
    return tuple(pc.sum(files.column(name)).as_py() or 0 for name in ("row_count", "size_bytes"))  # type: ignore[return-value]


def _print(record: dict[str, Any], args: argparse.Namespace) -> None:
    where = f"{args.writer}/{args.database}"
    if record["skipped"]:
        app = f"version {args.app_version} of {args.app_id!r}"
        output.line(f"nothing was committed: {app} is in {where} already")
        return
    if record["revision"] is None:
        output.line("nothing was committed: the files hold no rows")
        return
    output.line(f"committed revision {record['revision']} of {where} at {record['committed_at']}")
    amount = many(record["row_count"], "row")
    if record["files"]:
        output.line(f"{many(len(record['files']), 'file')}, {amount}, {size(record['size_bytes'])}")
    else:
        output.line("no rows, only the columns of the table")
    for path in record["files"]:
        output.pairs([("", path)])
