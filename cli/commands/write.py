"""`lakelog write`: commit local files to a table, as new rows or in the place of others."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from ...errors import CommitOutcomeUnknown, UsageError
from .. import options, output
from ..command_list import Command
from ..errors import Progress, dry_run
from ..inputs.sources import FORMATS, check_encoding, open_sources
from ..opening import open_catalog, print_one, snapshot_after
from ..output import Column, columns
from ..text import many, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from ...catalog.catalog import Catalog
    from ...catalog.commit.base_transaction import Replaced
    from ...catalog.log.outcomes import CommitInfo
    from ...catalog.snapshot import Snapshot

_COLUMNS: Final = (
    *columns("writer", "database", "table"),
    Column("revision", number=True),
    *columns("committed_at", "transaction_id"),
    Column("skipped", style="yes"),
    *columns("row_count", "size_bytes", number=True),
    *columns("files", "token"),
)
_FIGURES: Final = columns("files_removed", "rows_removed", "rows_rewritten", number=True)
_PLAN: Final = (*columns("writer", "database", "table"), Column("dry_run", style="yes"), *_FIGURES)
_SHOWN: Final = 40


def _run(args: argparse.Namespace) -> int:
    for name in ("where", "execute"):
        if getattr(args, name) and not args.overwrite:
            raise UsageError(
                f"--{name} is for --overwrite",
                hint="Add --overwrite to replace rows; without it rows are added",
            )
    catalog = open_catalog(args)
    try:
        info, paths, replaced = _write(catalog, args)
    except CommitOutcomeUnknown as error:
        error.hint = (
            "Running the same command again is safe: it commits once"
            if args.app_id
            else f"First look for transaction {error.transaction_id} in `lakelog log --output json`"
        )
        raise
    if replaced is not None and not args.execute:
        _print_plan(args, replaced)
    else:
        _print_result(catalog, args, info, paths, replaced)
    return 0


def _write(
    catalog: Catalog, args: argparse.Namespace
) -> tuple[CommitInfo | None, list[str], Replaced | None]:
    import pyarrow as pa

    from ..inputs.csv_files import csv_options, refuse_idle_options
    from ..inputs.read import open_rows
    from ..inputs.resolve import Resolver, known_schema
    from ..inputs.texts import parse_types

    csv, forced = csv_options(args), parse_types(args.type)
    by = options.column_names(args.partition_by) or None
    with open_sources(args.files, args.format, check_encoding(args.encoding)) as sources:
        refuse_idle_options(args, {source.form for source in sources})
        known = known_schema(catalog, args.database, args.table, args.writer)
        with Progress("files read", len(sources)) as progress:
            resolver = Resolver(args.table, known, forced, csv, progress.step)
            schema = resolver.resolve(sources)
        with (
            Progress("files written", len(sources)) as progress,
            catalog.writer(args.writer, args.database, shared=args.shared) as writer,
            writer.transaction(args.app_id, args.app_version) as tx,
        ):
            files = (open_rows(source, schema, csv, forced.keys()) for source in sources)
            if args.overwrite and not args.execute:
                plan = tx.plan_overwrite(args.table, schema, args.where, args.partition or None)
                tx.discard()
                return None, [], plan
            if args.overwrite:
                rows = pa.RecordBatchReader.from_batches(schema, _batches(files, progress.step))
                done = tx.overwrite(
                    args.table, rows, args.where, args.partition or None,
                    partition_by=by, bloom=args.bloom,
                )  # fmt: skip
                return tx.commit(), done.paths, done
            paths: list[str] = []
            for rows in files:
                paths += tx.write(
                    args.table, rows, args.partition, partition_by=by, bloom=args.bloom
                )
                progress.step()
            return tx.commit(), paths, None


def _batches(
    files: Iterable[pa.RecordBatchReader], step: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    for rows in files:
        yield from rows
        step()


# --- Printing -------------------------------------------------------------------------------------


def _figures(replaced: Replaced) -> dict[str, Any]:
    return {
        "files_removed": len(replaced.removed),
        "rows_removed": replaced.rows_removed,
        "rows_rewritten": replaced.rows_rewritten,
    }


def _print_plan(args: argparse.Namespace, plan: Replaced) -> None:
    names = {"writer": args.writer, "database": args.database, "table": args.table}
    record = {"dry_run": True, **names, **_figures(plan)}
    if args.output == "text":
        output.line(
            f"overwrite of table {args.table} of {args.writer}/{args.database} would replace "
            f"{many(plan.rows_removed, 'row')}: {many(len(plan.removed), 'file')} removed, "
            f"{many(plan.rows_rewritten, 'row')} of them rewritten"
        )
        for path in plan.removed[:_SHOWN]:
            kind = "read" if path in set(plan.rewritten) else "whole"
            output.pairs([(kind, path)], indent="  ")
        if len(plan.removed) > _SHOWN:
            output.line(f"  and {len(plan.removed) - _SHOWN:,} more; --output json lists them all")
    else:
        more = {"removed": plan.removed, "read": plan.rewritten}
        output.object_or_rows(args.output, {**record, **more}, _PLAN, [record])
    dry_run("nothing was written")


def _print_result(
    catalog: Catalog,
    args: argparse.Namespace,
    info: CommitInfo | None,
    paths: list[str],
    replaced: Replaced | None,
) -> None:
    snapshot = snapshot_after(catalog, args.database)
    skipped = info is not None and info.skipped
    commit = None if skipped else info
    rows, total = 0, 0
    if commit is not None:
        own = snapshot or catalog.snapshot(args.database, {args.writer: commit.revision})
        rows, total = _sums(own, args, paths)
    record: dict[str, Any] = {
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        "revision": None if commit is None else commit.revision,
        "committed_at": None if commit is None else output.utc_from_us(commit.committed_at_us),
        "transaction_id": None if commit is None else commit.transaction_id,
        "skipped": skipped,
        "row_count": rows,
        "size_bytes": total,
        "files": [] if skipped else paths,
        **({} if replaced is None else _figures(replaced)),
    }
    shown = _COLUMNS if replaced is None else (*_COLUMNS, *_FIGURES)
    print_one(args, shown, record, snapshot, lambda: _print_commit(record, args, replaced))


def _sums(snapshot: Snapshot, args: argparse.Namespace, paths: list[str]) -> tuple[int, int]:
    """Rows and bytes of the new files."""
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


def _print_commit(
    record: dict[str, Any], args: argparse.Namespace, replaced: Replaced | None
) -> None:
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
    if replaced is not None:
        output.line(
            f"{many(len(replaced.removed), 'file')} removed: "
            f"{many(replaced.rows_removed, 'row')} replaced, "
            f"{many(replaced.rows_rewritten, 'row')} rewritten"
        )


_READING: Final = (
    options.argument("--delimiter", "SIGN", "between the fields of a csv, e.g. ';'", default=""),
    options.argument(
        "--header",
        "",
        "whether the first line of a csv names its columns (default), e.g. --no-header "
        "--columns id,price",
        action=argparse.BooleanOptionalAction,
        default=True,
    ),
    options.argument(
        "--columns",
        "A,B,C",
        "the columns of a csv, instead of its header (repeat the option for names with a comma)",
        action="append",
    ),
    options.repeated(
        "--null",
        "WORD",
        "an unquoted field of a csv that means null, as the empty one does, e.g. --null NA; may be "
        "repeated",
    ),
    options.repeated(
        "--type",
        "COLUMN=TYPE",
        "the type of a column of csv or JSON, e.g. zip=string, price='decimal(10,2)', "
        "at=timestamptz; may be repeated",
    ),
    options.argument(
        "--encoding",
        "NAME",
        "the encoding of csv and JSON, e.g. latin-1 (default: utf-8)",
        default="utf-8",
    ),
)
WRITE: Final = Command(
    """\
Commit local files to a table, all in one transaction: readers see all of them or none. A first
write makes the catalog, the database and the table. Parquet, Arrow, CSV, TSV and JSON files
(.parquet, .arrow, .csv, .tsv, .jsonl, .json; texts also compressed) are read here and written as
Parquet below the writer's prefix. JSON is an object a line, one array of objects, or the output of
`lakelog scan --output json`.

The types of csv and JSON are inferred from all files together and compared with those of the table,
which win, before anything is written. Nothing is lost by a guess: 007 makes a column text, an
integer beyond 2^53 doesn't become a double, a time with an offset is the same instant in UTC, and
one column doesn't mix times with and without a zone. A value that doesn't fit is an error that
names file, line and both types; --type chooses another type. In csv an empty field is null and ""
an empty text; --null names more words for null. In JSON, NaN and infinities are the texts NaN,
Infinity and -Infinity among numbers; times, decimals and binary values (base64) are texts, as
`lakelog scan --output jsonl` prints them.

A writer id has one owner: if another process commits under this id, its next commit is refused.
Choose a writer id of your own, or commit as a guest with --shared.

With --overwrite the files replace existing rows: those that meet --where, or all, among the files
of this writer (and of --partition). The plan is shown, and nothing is done without --execute. The
new rows must meet --where, too.

With --app-id and --app-version the same command can be run again after any failure and commits
once.""",
    """
lakelog write ./catalog weather hourly january.csv --writer EWR --partition 2013-01
lakelog write ./catalog weather hourly *.csv --writer EWR --partition-by year,month
lakelog write s3://lake/catalog weather hourly *.parquet --writer EWR --app-id x --app-version 7
lakelog write ./catalog weather hourly - --format csv --writer EWR < rows.csv
lakelog write ./catalog db orders o.txt --format csv --delimiter ';' --encoding latin-1 --writer x
lakelog write ./catalog shop orders o.csv --no-header --columns id,price,at --writer x
lakelog write ./catalog db orders o.csv --null NA --null - --type price='decimal(10,2)' --writer x
lakelog write ./catalog shop orders day.csv --writer x --overwrite --where "day = 4" --execute
lakelog scan ./a db orders -o jsonl | lakelog write ./b db orders - --format jsonl --writer x
""",
    (
        *options.ON_TABLE,
        options.argument(
            "files",
            "FILE",
            "a file on this machine; - is stdin (then --format gives its format)",
            nargs="+",
        ),
        options.writer("the writer id to commit under", required=True),
        options.argument("--partition", "NAME", "the partition of the new files", default=""),
        options.repeated(
            "--bloom",
            "COLUMN",
            "write a bloom filter of this column, so that reads of one value (id = 5) skip files "
            "which don't hold it; may be repeated",
        ),
        options.argument(
            "--partition-by",
            "A,B",
            "split the rows by the values of these columns, into partitions like "
            "year=2026/month=11 (repeat the option for names with a comma)",
            action="append",
        ),
        options.choice(
            "--format", (*FORMATS, "json"), "the format of the files; by their names if not given"
        ),
        *_READING,
        options.argument("--app-id", "ID", "an application's name, for committing exactly once"),
        options.argument(
            "--app-version",
            "N",
            "with --app-id: commit nothing if this version or a later one is in the log",
            type=options.whole_number,
        ),
        options.SHARED,
        options.flag(
            "--overwrite", "replace rows of this writer's table: a plan, unless --execute is given"
        ),
        options.where("with --overwrite: only rows that meet this are replaced"),
        options.execute("with --overwrite: execute the plan"),
    ),
    _run,
)
