"""`lakelog write`: local files into a table."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ...errors import CommitOutcomeUnknown, LakelogError
from .. import options, output
from ..errors import CommandWarning
from ..inputs import FORMATS, input_format, read_input
from ..opening import cut_fields, open_catalog, print_cut
from ..output import Column
from ..progress import Progress
from ..text import many, size

if TYPE_CHECKING:
    import argparse

    from ...catalog.catalog import Catalog
    from ...catalog.commit.transaction import Transaction
    from ...catalog.log.outcome import CommitInfo
    from ...catalog.snapshot import Snapshot

DESCRIPTION: Final = """\
Commit local files to a table, all in one transaction: readers see all of them or none. A first
write makes the catalog, the database and the table. Parquet, CSV and JSON files (.parquet,
.csv, .jsonl, .json, also compressed) are read here and written as Parquet below the writer's
prefix. In csv an empty field is null, "" is an empty text, and no word means null. JSON is an
object a line, or one array of objects.

A writer id has one owner: if a process commits under this id already, its next commit is
refused. Take a writer id of your own, or commit beside it with --shared.

With --app-id and --app-version the same command can be run again after any failure and commits
once."""
EXAMPLES: Final = """
lakelog write ./catalog weather hourly january.csv --writer EWR --partition 2013-01
lakelog write s3://lake/catalog weather hourly *.parquet --writer EWR --app-id x --app-version 7
lakelog write ./catalog weather hourly - --format csv --writer EWR < rows.csv
lakelog write ./catalog weather hourly data/2013-01/hourly/extra.parquet --writer EWR --add
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("database"),
    Column("table"),
    Column("revision"),
    Column("committed_at"),
    Column("transaction_id"),
    Column("skipped"),
    Column("row_count"),
    Column("size_bytes"),
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
        "--format", choices=FORMATS, help="of the files; by their names if not given"
    )
    parser.add_argument(
        "--app-id", metavar="ID", help="an application's name, for committing exactly once"
    )
    parser.add_argument(
        "--app-version",
        metavar="N",
        type=options.whole_number,
        help="goes with --app-id: this version is not committed if it or a later one is in the log",
    )
    parser.add_argument(
        "--shared", action="store_true", help="commit as a guest, beside the owner of the writer id"
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="FILEs are Parquet files in the store already, named relative to <writer>/<database>/ "
        "and below data/; they are taken in as they are",
    )


def run(args: argparse.Namespace) -> int:
    """Commit, then print where it stands."""
    formats = [] if args.add else [input_format(name, args.format) for name in args.files]
    catalog = open_catalog(args)
    try:
        info, paths = _commit(catalog, args, formats)
    except CommitOutcomeUnknown as error:
        error.hint = (
            "Running the same command again is safe: it commits once"
            if args.app_id
            else f"First look for transaction {error.transaction_id} in `lakelog log --output json`"
        )
        raise
    _report(catalog, args, info, paths)
    return 0


def _commit(
    catalog: Catalog, args: argparse.Namespace, formats: list[str]
) -> tuple[CommitInfo | None, list[str]]:
    paths: list[str] = []
    with (
        Progress("files written", len(args.files)) as progress,
        catalog.writer(args.writer, args.database, shared=args.shared) as writer,
        writer.transaction(args.app_id, args.app_version) as tx,
    ):
        for number, name in enumerate(args.files):
            paths += _one(tx, args, name, None if args.add else formats[number])
            progress.step()
        info = tx.commit()
    return info, paths


def _one(tx: Transaction, args: argparse.Namespace, name: str, form: str | None) -> list[str]:
    if form is None:
        tx.add(args.table, name, args.partition)
        return [name]
    return tx.write(args.table, read_input(name, form), args.partition)


def _report(
    catalog: Catalog, args: argparse.Namespace, info: CommitInfo | None, paths: list[str]
) -> None:
    snapshot = _snapshot(catalog, args.database)
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
        **({"as_of": None, "token": None} if snapshot is None else cut_fields(snapshot)),
    }
    if args.output == "json":
        output.json_object(record)
    elif args.output == "csv":
        output.rows("csv", _COLUMNS, [record])
    else:
        _print(record, args)
        if snapshot is not None:
            print_cut(snapshot)


def _snapshot(catalog: Catalog, database: str) -> Snapshot | None:
    """The database after the commit. That it can't be read (another writer's log is broken) undoes
    nothing.
    """
    try:
        return catalog.snapshot(database)
    except LakelogError as error:
        warnings.warn(f"no token: {error.message}", CommandWarning, stacklevel=2)
        return None


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
