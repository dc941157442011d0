"""`lakelog add`: add Parquet files to a table in place, from paths, URLs, folders and patterns."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ...errors import CommitOutcomeUnknown, InvalidSchema, SchemaConflict, UsageError, some_names
from ...store.places import LOCAL_ROOT, is_url, root_of
from .. import options, output
from ..command_list import Command
from ..errors import CommandWarning, Progress
from ..inputs.patterns import list_files
from ..opening import open_catalog, print_one, snapshot_after
from ..output import Column, columns
from ..text import count, many, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ...catalog.catalog import Catalog
    from ...catalog.commit.adopt import Added, NewFile
    from ..inputs.patterns import Listed, Listing

_COLUMNS: Final = (
    *columns("writer", "database", "table"),
    Column("revision", number=True),
    Column("transaction_id"),
    *columns("found", "added", "known", "bad", "ignored", "row_count", "size_bytes", number=True),
    Column("token"),
)
_SHOWN: Final = 20


def _run(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    with Progress("files listed") as progress:
        listing = list_files(catalog.wide, args.patterns, progress.step, skip_bad=args.skip_bad)
    listed = [*listing.files.values()]
    if not args.allow_local:
        _refuse_local(catalog, listed)
    files, known = _new_files(catalog, args, listed)
    record, added = _add(catalog, args, files, known)
    if added.unlike:
        warnings.warn(
            f"{many(len(added.unlike), 'file')} share no column with the others of the table: "
            f"{some_names(added.unlike[:_SHOWN])}. Are they of another table?",
            CommandWarning,
            stacklevel=2,
        )
    added.bad[:0] = listing.bad
    record |= {"bad": len(added.bad), "ignored": len(listing.ignored)}
    record["found"] += len(listing.bad)
    committed = record["revision"] is not None
    after = snapshot_after(catalog, args.database) if committed else None
    more = {
        "paths": added.paths,
        "bad_files": [{"file": name, "problem": problem} for name, problem in added.bad],
        "ignored_files": listing.ignored,
    }
    print_one(
        args, _COLUMNS, record, after, lambda: _print(record, added, listing, args), more=more
    )
    return 0


def _refuse_local(catalog: Catalog, files: Sequence[Listed]) -> None:
    """Refuse files of this machine for a catalog that other machines read."""
    if catalog.store.backend in ("file", "memory"):
        return
    local = (one.name for one in files if not is_url(one.name) or root_of(one.name) == LOCAL_ROOT)
    name = next(local, None)
    if name is not None:
        raise UsageError(
            f"{name} is on this machine, where others who read {catalog.store.url} don't find it",
            key=name,
            hint="Copy it to the object store, or `lakelog write` it. If every reader has it under "
            "that path: --allow-local",
        )


def _new_files(
    catalog: Catalog, args: argparse.Namespace, listed: Sequence[Listed]
) -> tuple[list[NewFile], dict[str, pa.DataType]]:
    """The files with their partitions; and the types that the table has of columns that these
    tell."""
    from ...catalog.commit.adopt import NewFile
    from ...catalog.data.partitioned import partition_types
    from ...catalog.format.names import hive_partition
    from ..inputs.texts import parse_types

    forced = parse_types(args.partition_type, "--partition-type")
    if args.partition is None:
        names = [hive_partition(item.name) for item in listed]
    else:
        names = [args.partition] * len(listed)
    types = (
        partition_types(names) if args.partition is None or forced else {name: {} for name in names}
    )
    columns = {column for own in types.values() for column in own}
    missing = next((column for column in forced if column not in columns), None)
    if missing is not None:
        raise UsageError(
            f"No folder names a value of {missing!r}, which --partition-type names",
            key=missing,
            hint=f"They name: {some_names(sorted(columns))}" if columns else "They name none",
        )
    known = _known_types(catalog, args, columns)
    types = partition_types(names, known, forced) if columns else types
    files = [
        NewFile(item.name, name, item.size_bytes, types[name] or None)
        for item, name in zip(listed, names, strict=True)
    ]
    return files, known


def _known_types(
    catalog: Catalog, args: argparse.Namespace, columns: set[str]
) -> dict[str, pa.DataType]:
    """The types that columns have in the table."""
    from ..inputs.resolve import known_schema

    schema = known_schema(catalog, args.database, args.table, args.writer) if columns else None
    return {one.name: one.type for one in schema or () if one.name in columns}


def _refuse_conflicts(table: str, known: Mapping[str, pa.DataType], added: Added) -> None:
    """Refuse types of partitions that have none in common with the table's, in any writer's log."""
    from ...catalog.format.schema import widen

    for name, kind in added.by_partition:
        if name in known and widen(known[name], kind) is None:
            raise SchemaConflict(
                f"Column {name!r} of table {table!r} is {known[name]}, and by its values in the "
                f"names of folders {kind}",
                key=name,
            )


def _add(
    catalog: Catalog,
    args: argparse.Namespace,
    files: list[NewFile],
    known: Mapping[str, pa.DataType],
) -> tuple[dict[str, Any], Added]:
    with (
        Progress("footers read", len(files)) as progress,
        catalog.writer(args.writer, args.database, shared=args.shared) as writer,
    ):
        tx = writer.transaction()
        try:
            added = tx.add_all(
                args.table, files,
                skip_bad=args.skip_bad, statistics=not args.no_statistics, step=progress.step,
            )  # fmt: skip
            _refuse_conflicts(args.table, known, added)
            info = None if args.dry_run or not added.paths else tx.commit()
        except SchemaConflict as error:
            error.hint = (
                "Nothing was added. Name the other files only, or write this one again; "
                "--partition-type says the type of a column that folders name"
            )
            raise
        except InvalidSchema as error:  # of a column of nulls alone, for one
            error.hint = f"{error.hint}. --partition-type says the type of a column of folders"
            raise
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
        "added": len(added.paths),
        "known": len(added.known),
        "bad": len(added.bad),
        "row_count": added.rows,
        "size_bytes": added.size_bytes,
    }, added


def _print(
    record: dict[str, Any], added: Added, listing: Listing, args: argparse.Namespace
) -> None:
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
    if listing.ignored:
        output.line(
            f"{many(record['ignored'], 'file')} left out, by their names: "
            f"{some_names(listing.ignored)} (a pattern adds any name: 'FOLDER/*')"
        )
    if added.bad:
        output.line(
            f"{many(record['bad'], 'file')} left out: no sound Parquet, or no name for a log"
        )
        for name, problem in added.bad[:_SHOWN]:
            output.pairs([(name, problem)], indent="  ")
        if len(added.bad) > _SHOWN:
            output.line(f"  and {count(len(added.bad) - _SHOWN)} more; --output json lists them")


ADD: Final = Command(
    """\
Add Parquet files as they are, wherever they are stored: nothing is copied, and lakelog never
changes or deletes them. A PATTERN is a file, a folder (the .parquet files at any depth in it,
without names that begin with . or _), or a pattern with *, ** or ?; on this machine or in an object
store. All are committed in one transaction, after every footer was read: readers see all of them or
none.

Folders like year=2026/month=11 right above a file are its partition, under that name, and columns
of the table that the file itself lacks. They have the type that the table has, if all values fit
it; in a new table integers (without leading zeros: month=01 is text) or dates if the values in all
folders are, else text; --partition-type says another. (The log then needs readers that know the
feature "partition_columns".)

Files that are live already are left out, so that running the command again adds only what is new. A
file that isn't sound Parquet, or whose columns don't fit the table, is an
error that names it, and nothing is committed; --skip-bad leaves out the former, and names them.
Names in a folder that don't end in .parquet, .parq or .pq are left out, and counted in the output.
A folder in which a table of another format is (Delta, Hudi, Iceberg, Paimon, DuckLake, Hive's
transactional tables, another lakelog catalog), or output that Spark keeps a log of, or which is
inside one, is refused: files that such a table removed are there still.

The log names the places of the files, and so needs readers that know the feature "locations".
Credentials of other places are taken from the environment variable LAKELOG_LOCATION_OPTIONS, a JSON
object of storage options by URL; a place that it lacks, of the catalog's own kind, is opened as the
catalog is. If one of the files is changed or deleted later, reading it is an error.""",
    """
lakelog add ./catalog weather hourly /data/hourly --writer EWR
lakelog add s3://lake/catalog weather hourly 's3://other/raw/2026-*/*.parquet' --writer EWR
lakelog add ./catalog weather hourly /data/hourly --writer EWR --dry-run --output json
lakelog add ./catalog weather hourly /data/x.parquet --writer EWR --partition 2026-11
""",
    (
        *options.ON_TABLE,
        options.argument(
            "patterns", "PATTERN", "a file, a folder or a pattern; see above", nargs="+"
        ),
        options.writer("the writer id to commit under", required=True),
        options.argument(
            "--partition",
            "NAME",
            "the partition of all of them, instead of that of their folders ('': none)",
        ),
        options.repeated(
            "--partition-type",
            "COLUMN=TYPE",
            "the type of a column in the names of folders, e.g. month=int or zip=string; "
            "may be repeated",
        ),
        options.flag(
            "--allow-local",
            "add files of this machine to a catalog in an object store: all readers need them",
        ),
        options.flag(
            "--skip-bad",
            "leave out files that aren't sound Parquet, or can't be named, instead of adding none",
        ),
        options.flag(
            "--no-statistics",
            "skip no file by the statistics in its footer: their writer got them wrong",
        ),
        options.flag("--dry-run", "read every footer and commit nothing"),
        options.SHARED,
    ),
    _run,
)
