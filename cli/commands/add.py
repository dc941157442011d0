"""`lakelog add`: Parquet files into a table, where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import CommitOutcomeUnknown, SchemaConflict
from .. import options, output
from ..opening import cut_fields, open_catalog, print_cut, snapshot_after
from ..output import Column
from ..progress import Progress
from ..text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ...catalog.catalog import Catalog
    from ...catalog.commit.spots import Added, NewFile
    from ..inputs.patterns import Listed

DESCRIPTION: Final = """\
Take Parquet files in as they are, wherever they lie: nothing is copied, and lakelog never changes
or deletes them. A PATTERN is a file, a folder (the .parquet files at any depth in it, without names
that begin with . or _), or a pattern with *, ** or ?; on this machine or in an object store. All
are committed in one transaction, after every footer was read: readers see all of them or none.

Folders like year=2026/month=11 right above a file are its partition, under that name, and columns
of the table that the file itself lacks: integers (without leading zeros: month=01 is text) or dates
where all folders say such, else text.
(The log then needs readers that know the feature "partition_columns".) Files that are live already
are left out, so that running the command again adds nothing but what is new. A file that isn't
sound Parquet, or whose columns don't fit the table, is an error that names it, and nothing is
committed; --skip-bad leaves out the former, and says which.

The log names the places where the files lie, and so needs readers that know the feature
"locations". Credentials of other places are taken from the environment variable
LAKELOG_LOCATION_OPTIONS, a JSON object of storage options by URL; where it has none, a place of the
catalog's own kind is opened as the catalog is. Whoever deletes or changes one of the files later
makes reading it an error."""
EXAMPLES: Final = """
lakelog add ./catalog weather hourly /data/hourly --writer EWR
lakelog add s3://lake/catalog weather hourly 's3://other/raw/2026-*/*.parquet' --writer EWR
lakelog add ./catalog weather hourly /data/hourly --writer EWR --dry-run --output json
lakelog add ./catalog weather hourly /data/x.parquet --writer EWR --partition 2026-11
"""
_COLUMNS: Final = (
    Column("writer"),
    Column("database"),
    Column("table"),
    Column("revision", number=True),
    Column("transaction_id"),
    Column("found", number=True),
    Column("added", number=True),
    Column("known", number=True),
    Column("bad", number=True),
    Column("row_count", number=True),
    Column("size_bytes", number=True),
    Column("token"),
)
_SHOWN: Final = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)
    options.add_database(parser)
    options.add_table(parser)
    parser.add_argument(
        "patterns", metavar="PATTERN", nargs="+", help="a file, a folder or a pattern; see above"
    )
    options.add_writer(parser, "the writer id to commit under", required=True)
    parser.add_argument(
        "--partition",
        metavar="NAME",
        help="the partition of all of them, instead of what their folders say ('': none)",
    )
    parser.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out files that aren't sound Parquet, instead of adding none",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="read every footer and commit nothing"
    )
    options.add_shared(parser)


def run(args: argparse.Namespace) -> int:
    """List, read footers, commit, and say what was done."""
    from ..inputs.patterns import list_files

    catalog = open_catalog(args)
    with Progress("files listed") as progress:
        listed = list_files(catalog.wide, args.patterns, progress.step)
    files = _new_files(listed, args.partition)
    record, found = _add(catalog, args, files)
    committed = record["revision"] is not None
    after = snapshot_after(catalog, args.database) if committed else None
    record |= cut_fields(after)

    def show() -> None:
        _print(record, found, args)
        print_cut(after)

    output.one(args.output, _COLUMNS, record, show, more=_names(found))
    return 0


def _new_files(listed: Sequence[Listed], partition: str | None) -> list[NewFile]:
    from ...catalog.commit.spots import NewFile
    from ...catalog.data.partition_values import told_types
    from ...catalog.format.names import hive_partition

    if partition is not None:
        return [NewFile(item.name, partition, item.size_bytes) for item in listed]
    names = [hive_partition(item.name) for item in listed]
    told = told_types(names)
    return [
        NewFile(item.name, name, item.size_bytes, told[name] or None)
        for item, name in zip(listed, names, strict=True)
    ]


def _add(
    catalog: Catalog, args: argparse.Namespace, files: list[NewFile]
) -> tuple[dict[str, Any], Added]:
    with (
        Progress("footers read", len(files)) as progress,
        catalog.writer(args.writer, args.database, shared=args.shared) as writer,
    ):
        tx = writer.transaction()
        try:
            try:
                found = tx.add_all(args.table, files, skip_bad=args.skip_bad, step=progress.step)
            except SchemaConflict as error:
                error.hint = "Nothing was added. Name the other files only, or write this one anew"
                raise
            info = None if args.dry_run or not found.paths else tx.commit()
        except CommitOutcomeUnknown as error:
            error.hint = "Running the same command again is safe: it adds no file twice"
            raise
        finally:
            if tx.commit_info is None:
                tx.discard()
    return {
        "writer": args.writer,
        "database": args.database,
        "table": args.table,
        "revision": None if info is None else info.revision,
        "transaction_id": None if info is None else info.transaction_id,
        "found": len(files),
        "added": len(found.paths),
        "known": len(found.known),
        "bad": len(found.bad),
        "row_count": found.rows,
        "size_bytes": found.size_bytes,
    }, found


def _names(found: Added) -> dict[str, Any]:
    return {
        "paths": found.paths,
        "bad_files": [{"file": name, "problem": problem} for name, problem in found.bad],
    }


def _print(record: dict[str, Any], found: Added, args: argparse.Namespace) -> None:
    amount = f"{many(record['row_count'], 'row')}, {size(record['size_bytes'])}"
    files = f"{many(record['added'], 'file')}, {amount}"
    if record["revision"] is not None:
        where = f"revision {record['revision']} of {args.writer}/{args.database}"
        output.line(f"committed {where}: {files}")
    elif args.dry_run:
        output.line(f"nothing was committed; this would be added: {files}")
    else:
        output.line("nothing was committed: there is nothing new")
    if record["known"]:
        output.line(f"{many(record['known'], 'file')} left out: live already")
    if found.bad:
        output.line(f"{many(record['bad'], 'file')} left out: no sound Parquet")
        for name, problem in found.bad[:_SHOWN]:
            output.pairs([(name, problem)], indent="  ")
        if len(found.bad) > _SHOWN:
            output.line(f"  and {count(len(found.bad) - _SHOWN)} more; --output json lists them")
