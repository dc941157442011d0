"""Opens the catalog and the snapshot that the arguments name, and prints the cut of a result."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptError, ForkError, LakelogError, UsageError, WriterNotFound
from . import output
from .errors import CommandWarning
from .options import location_options
from .output import Column
from .text import many

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..catalog.catalog import Catalog
    from ..catalog.changing import AsOf
    from ..catalog.format.cut import Cut
    from ..catalog.format.frame import LogIdentity
    from ..catalog.log.listing import Listing
    from ..catalog.read.log_reader import LogReader
    from ..catalog.snapshot import Snapshot

_WRITERS_SHOWN: Final = 12


def open_catalog(args: argparse.Namespace) -> Catalog:
    """The catalog of `URL`. `main` has read the storage options already."""
    from ..catalog.catalog import open_catalog as open_url

    return open_url(args.url, args.storage_options, location_options())


def open_snapshot(args: argparse.Namespace) -> Snapshot:
    """The snapshot of `DATABASE` at `--as-of`, of `--writer` alone if it is given.

    Requests: as `Catalog.snapshot`; with a writer, that writer's only, and a point in time is
        resolved first.
    """
    return _snapshot(open_catalog(args), args.database, args.writer, args.as_of)


def _snapshot(catalog: Catalog, database: str, writer: str | None, as_of: AsOf) -> Snapshot:
    if writer is None:
        return catalog.snapshot(database, as_of)
    if as_of is None:
        _, listing = existing_log(catalog, writer, database)
        return catalog.snapshot(database, {writer: listing.head})
    if not isinstance(as_of, dict):
        as_of = catalog.snapshot(database, as_of).cut.revisions
    if writer not in as_of:
        raise WriterNotFound(
            f"Writer {writer!r} has nothing at that point in time",
            key=writer,
            hint=f"It holds: {', '.join(sorted(as_of))}",
        )
    return catalog.snapshot(database, {writer: as_of[writer]})


def cut_of_history(args: argparse.Namespace, catalog: Catalog) -> Snapshot | None:
    """The newest cut, which json names next to the history up to it; of `--writer` alone if it is
    given. None for the other forms, and for a broken database, whose history is shown as far as it
    can be read.
    """
    if args.output != "json":
        return None
    try:
        return _snapshot(catalog, args.database, args.writer, None)
    except (CorruptError, ForkError):
        return None


def existing_log(catalog: Catalog, writer: str, database: str) -> tuple[LogReader, Listing]:
    """A writer's log of a database, and its listing.

    Raises:
        WriterNotFound, DatabaseNotFound, NotACatalog: There is none; the hint names what exists.
    Requests: 1 LIST.
    """
    from ..catalog.format.names import check_id
    from ..catalog.read.log_reader import LogReader

    log = LogReader(catalog.store, check_id(writer, "writer"), check_id(database, "database"))
    listing = log.names(mirror=True)
    if listing.head < 0:
        catalog.snapshot(database, {writer: 0})  # raises the error that fits
    return log, listing


def only_writer(catalog: Catalog, database: str, writer: str | None) -> str:
    """The writer that was given, or the only one that the database has."""
    if writer is not None:
        return writer
    writers = catalog.writers(database)
    if len(writers) > 1:
        raise UsageError(
            f"Database {database!r} has {len(writers)} writers",
            hint=f"Choose one with --writer: {', '.join(writers)}",
        )
    return writers[0]


def each_writer(
    catalog: Catalog, database: str, writer: str | None, *, log: bool = True
) -> list[str]:
    """The writer that was given, or all that the database has.

    Args:
        log: Require a log of the writer that was given.
    Requests: 1 LIST; without a writer those of `Catalog.writers`.
    """
    if writer is None:
        return catalog.writers(database)
    if log:
        existing_log(catalog, writer, database)
    return [writer]


def snapshot_after(catalog: Catalog, database: str, at: AsOf = None) -> Snapshot | None:
    """The database after a commit, or at another point in time. Warns if it can't be read (another
    writer's log is broken): the commit is valid all the same.
    """
    try:
        return catalog.snapshot(database, at)
    except LakelogError as error:
        warnings.warn(f"no token: {error.message}", CommandWarning, stacklevel=2)
        return None


def print_rows(
    args: argparse.Namespace,
    columns: Sequence[Column],
    records: Iterable[Mapping[str, Any]],
    snapshot: Snapshot | None,
    print_text: Callable[[], None],
    *,
    name: str,
    head: Mapping[str, Any] | None = None,
) -> None:
    """Print rows that were read at a cut, or made by commits: text has the cut below, json its
    fields, after those of `head`, and the rows as `name`."""
    if args.output == "text":
        print_text()
        print_cut(snapshot)
    else:
        fields = {**(head or {}), **cut_fields(snapshot)}
        output.rows(args.output, columns, records, head=fields, name=name)


def print_commits(
    args: argparse.Namespace,
    columns: Sequence[Column],
    records: Sequence[Mapping[str, Any]],
    *,
    catalog: Catalog,
    head: Mapping[str, Any],
    print_text: Callable[[], None],
) -> None:
    """Print what a command did, or would do: a row a log, with its `revision`, None if nothing was
    committed, and the new token."""
    committed = any(record["revision"] is not None for record in records)
    after = snapshot_after(catalog, args.database) if committed else None
    if args.output not in ("text", "json"):
        columns = (*columns, Column("token", shown=False))
        records = [{**record, "token": cut_fields(after)["token"]} for record in records]
    head = {**head, "dry_run": not args.execute}
    print_rows(args, columns, records, after, print_text, name="logs", head=head)


def print_one(
    args: argparse.Namespace,
    columns: Sequence[Column],
    record: Mapping[str, Any],
    snapshot: Snapshot | None,
    print_text: Callable[[], None],
    *,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print what a command did: one record, and the cut after it; `more` are keys of JSON alone."""
    record = {**record, **cut_fields(snapshot)}
    if args.output == "text":
        print_text()
        print_cut(snapshot)
    else:
        output.object_or_rows(args.output, {**record, **(more or {})}, columns, [record])


def print_cut(snapshot: Snapshot | None) -> None:
    """Print the cut of a text result, if it has one, and its token: `--as-of` takes both."""
    if snapshot is None:
        return
    revisions = snapshot.cut.revisions
    cut = ",".join(f"{writer}={revision}" for writer, revision in revisions.items())
    output.line()
    many_writers = len(revisions) > _WRITERS_SHOWN
    output.pairs(
        [
            ("as of", many(len(revisions), "writer") if many_writers else cut),
            ("token", snapshot.token),
        ]
    )


def cut_fields(snapshot: Snapshot | None) -> dict[str, Any]:
    """The cut as part of a JSON object; nulls if there is none."""
    return _fields(None if snapshot is None else snapshot.cut)


def revision_fields(
    log: LogReader, identity: LogIdentity, revision: int, digest: bytes
) -> dict[str, Any]:
    """The cut that is one revision of one log, as part of a JSON object."""
    from ..catalog.format.cut import TOKEN_DIGEST_BYTES, Cut, Position

    at = Position(revision, digest[:TOKEN_DIGEST_BYTES], identity)
    return _fields(Cut(log.database, {log.writer: at}))


def _fields(cut: Cut | None) -> dict[str, Any]:
    if cut is None:
        return {"as_of": None, "token": None}
    return {"as_of": cut.revisions, "token": cut.token}
