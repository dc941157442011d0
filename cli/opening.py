"""From the arguments to a catalog and a snapshot."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from ..errors import CorruptError, ForkError, LakelogError, UsageError, WriterNotFound
from . import output
from .errors import CommandWarning
from .options import location_options
from .text import many

if TYPE_CHECKING:
    import argparse

    from ..catalog.catalog import Catalog
    from ..catalog.changing import AsOf
    from ..catalog.format.cut import Cut
    from ..catalog.format.frame import LogIdentity
    from ..catalog.log.listing import Listing
    from ..catalog.read.log_reader import LogReader
    from ..catalog.snapshot import Snapshot

_WRITERS_SHOWN: Final = 12


def open_catalog(args: argparse.Namespace) -> Catalog:
    """The catalog of `URL`. `main` has read the storage options already.

    Requests: none.
    """
    from ..catalog.catalog import open_catalog as open_url

    return open_url(args.url, args.storage_options, location_options())


def open_snapshot(args: argparse.Namespace) -> Snapshot:
    """The snapshot of `DATABASE` at `--as-of`, of `--writer` alone if it is given.

    Raises:
        WriterNotFound: The writer has nothing at that point.
        LakelogError: As `Catalog.snapshot`.
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
    """The newest cut, which json names beside what the commits up to it have done; of `--writer`
    alone if it is given. None for the other forms. None too for a database that is broken: its
    history is told as far as it can be.

    Raises, Requests: as `open_snapshot`.
    """
    if args.output != "json":
        return None
    try:
        return _snapshot(catalog, args.database, args.writer, None)
    except (CorruptError, ForkError):
        return None


def existing_log(catalog: Catalog, writer: str, database: str) -> tuple[LogReader, Listing]:
    """A writer's log of a database, and its names.

    Raises:
        WriterNotFound, DatabaseNotFound, NotACatalog: There is none; the hint says what there is.
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
    """The writer that was given, or the only one that the database has.

    Raises:
        UsageError: It has several.
    """
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
        log: Whether the one that was given must have a log.
    Raises:
        WriterNotFound, DatabaseNotFound, NotACatalog: There is none; the hint says what there is.
    Requests: 1 LIST; without a writer those of `Catalog.writers`.
    """
    if writer is None:
        return catalog.writers(database)
    if log:
        existing_log(catalog, writer, database)
    return [writer]


def snapshot_after(catalog: Catalog, database: str, at: AsOf = None) -> Snapshot | None:
    """The database after a commit, or another state that was made. That it can't be read (another
    writer's log is broken) undoes nothing: it is warned of.
    """
    try:
        return catalog.snapshot(database, at)
    except LakelogError as error:
        warnings.warn(f"no token: {error.message}", CommandWarning, stacklevel=2)
        return None


def print_cut(snapshot: Snapshot | None) -> None:
    """Print which cut a text result is of, and its token; both can be given to `--as-of`. Nothing
    where there is none."""
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
    """The cut as part of a JSON object; nulls where there is none."""
    return _fields(None if snapshot is None else snapshot.cut)


def revision_fields(
    log: LogReader, identity: LogIdentity, revision: int, digest: bytes
) -> dict[str, Any]:
    """The cut that is one revision of one log, as part of a JSON object.

    Args:
        identity: Which log, in which incarnation.
        digest: Of the revision's transaction.
    """
    from ..catalog.format.cut import TOKEN_DIGEST_BYTES, Cut, Position

    at = Position(revision, digest[:TOKEN_DIGEST_BYTES], identity)
    return _fields(Cut(log.database, {log.writer: at}))


def _fields(cut: Cut | None) -> dict[str, Any]:
    if cut is None:
        return {"as_of": None, "token": None}
    return {"as_of": cut.revisions, "token": cut.token}
