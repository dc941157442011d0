"""From the arguments to a catalog and a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..errors import WriterNotFound
from . import output
from .text import many

if TYPE_CHECKING:
    import argparse

    from ..catalog.reader import Catalog
    from ..catalog.snapshot import Snapshot

_WRITERS_SHOWN: Final = 12


def open_catalog(args: argparse.Namespace) -> Catalog:
    """The catalog of `URL`. `main` has read the storage options already.

    Requests: none.
    """
    from ..catalog.reader import open_catalog as open_url

    return open_url(args.url, args.storage_options)


def open_snapshot(args: argparse.Namespace) -> Snapshot:
    """The snapshot of `DATABASE` at `--as-of`, of `--writer` alone if it is given.

    Raises:
        WriterNotFound: The writer has nothing at that point.
        LakelogError: As `Catalog.snapshot`.
    Requests: as `Catalog.snapshot`; with a writer, that writer's only, and a point in time is resolved first.
    """
    catalog = open_catalog(args)
    writer, as_of = args.writer, args.as_of
    if writer is None:
        return catalog.snapshot(args.database, as_of)
    if as_of is None:
        return catalog.snapshot(args.database, {writer: _head(catalog, writer, args.database)})
    if not isinstance(as_of, dict):
        as_of = catalog.snapshot(args.database, as_of).cut.revisions
    if writer not in as_of:
        raise WriterNotFound(
            f"Writer {writer!r} has nothing at that point in time",
            key=writer,
            hint=f"It holds: {', '.join(sorted(as_of))}",
        )
    return catalog.snapshot(args.database, {writer: as_of[writer]})


def _head(catalog: Catalog, writer: str, database: str) -> int:
    from ..catalog.log import Log
    from ..catalog.names import check_id

    log = Log(catalog.store, check_id(writer, "writer"), check_id(database, "database"))
    return max(0, log.names().head)  # without a log `snapshot` says what there is instead


def print_cut(snapshot: Snapshot) -> None:
    """Print which cut a text result is of, and its token; both can be given to `--as-of`."""
    revisions = snapshot.cut.revisions
    cut = ",".join(f"{writer}={revision}" for writer, revision in revisions.items())
    output.line()
    many_writers = len(revisions) > _WRITERS_SHOWN
    output.pairs([
        ("as of", many(len(revisions), "writer") if many_writers else cut),
        ("token", snapshot.token),
    ])


def cut_fields(snapshot: Snapshot) -> dict[str, Any]:
    """The cut as part of a JSON object."""
    return {"as_of": snapshot.cut.revisions, "token": snapshot.token}
