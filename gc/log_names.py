"""The names of a log as maintenance sees them, and what they must be for anything to be deleted.

Source: docs/format.md, section 4; docs/maintenance.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..catalog.format.names import name_prefix, segments_folder
from ..catalog.log.listing import Listing, fork_error, read_listing
from ..catalog.read.log_folder import ATTEMPTS, PAUSE_S
from ..errors import CorruptObject, MissingTransaction, ObjectNotFound, WriterNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store import ObjectInfo
    from .context import MaintenanceContext

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LogNames:
    """The names of one log, and what the store says of the objects.

    Attributes:
        listing: The parsed names of the incarnation in use, and of others.
        infos: Objects of `transactions/`, by name without the folder.
        segments: Objects of `segments/`, likewise; none if nobody asked for them.
    """

    listing: Listing
    infos: dict[str, ObjectInfo]
    segments: dict[str, ObjectInfo]

    def same_names(self, other: LogNames | None) -> bool:
        """Whether another listing showed the very same names."""
        return other is not None and self.infos.keys() == other.infos.keys()


def list_log(context: MaintenanceContext, *, segments: bool) -> LogNames:
    """All names of the log.

    Args:
        segments: Whether also those of the segments.
    Requests: 1 or 2 LIST, and 1 more per 1,000 names on S3.
    """
    folder = segments_folder(context.writer, context.database)
    pieces = _infos(context, folder) if segments else {}
    infos = _infos(context, context.log.folder)  # later: no checkpoint without its segments
    return LogNames(read_listing(context.writer, context.database, infos), infos, pieces)


def _infos(context: MaintenanceContext, folder: str) -> dict[str, ObjectInfo]:
    return {info.key[len(folder) :]: info for info in context.store.list(folder)}


def with_listing(
    context: MaintenanceContext, work: Callable[[LogNames], _T], *, segments: bool = False
) -> _T:
    """Do `work` on a listing of the log, and again on a new one if the log moved under it.

    A listing races with writers and with prune: what it shows may be gone, and what it doesn't show
    may be there. Only what a second look confirms is an error.

    Args:
        segments: Whether `work` needs the names of segments.
    Raises:
        MissingTransaction: Listed objects are not there, several times.
        LakelogError: What `work` raises.
    """
    before: LogNames | None = None
    for attempt in range(ATTEMPTS):
        names = list_log(context, segments=segments)
        try:
            return work(names)
        except (MissingTransaction, ObjectNotFound, CorruptObject) as error:
            confirmed = isinstance(error, CorruptObject) and names.same_names(before)
            if confirmed or attempt == ATTEMPTS - 1:
                if isinstance(error, ObjectNotFound):
                    raise _never_there(context, names.listing, error) from error
                raise
        before = names
        context.ambient.sleep_s(PAUSE_S * (attempt + 1))
    raise AssertionError("unreachable")


def _never_there(
    context: MaintenanceContext, listing: Listing, error: ObjectNotFound
) -> MissingTransaction:
    return MissingTransaction(
        f"{error.key} of {context.where} was listed but could not be read, several times",
        key=error.key,
        readable=listing.readable(),
        hint="Is something deleting objects there? Try again, or run `lakelog doctor`",
    )


def check_names(listing: Listing) -> None:
    """Refuse a log that isn't there, or that is not one line of history.

    Raises:
        WriterNotFound: No log; it may be lost, and then the data files are all there is.
        ForkError: Objects of two histories stand on one revision.
    """
    where = f"{listing.writer}/{listing.database}"
    if listing.head < 0 and listing.others:
        raise CorruptObject(
            f"{where} has an incarnation without its checkpoint, and no other",
            key=listing.key(listing.others[0]),
            hint="Rebuild the log before any maintenance",
        )
    if listing.head < 0:
        raise WriterNotFound(
            f"{where} has no log",
            key=listing.folder,
            hint="Check the writer and the database. If the log was lost, rebuild it before any "
            "maintenance: without it no data file can be told from an orphan",
        )
    for revision in listing.forks():
        raise fork_error(listing, revision)


def check_no_gap(listing: Listing) -> None:
    """Refuse a log with a hole, or with anything readable below its beginning.

    Prune takes objects from the beginning in ascending order, so not even an interrupted one leaves
    a hole: one is damage, and what lies below it may still be wanted by a repair.

    Raises:
        MissingTransaction: Names the first one that is missing below the head.
    """
    first = listing.run_start(listing.head)
    stray = [r for r in listing.transactions if r < first]
    stray += [c for c in listing.checkpoints if c < first - 1]
    if stray:
        raise MissingTransaction(
            f"Transaction {first - 1} of {listing.writer}/{listing.database} is missing, and "
            f"objects of revision {max(stray)} and before are there",
            key=listing.folder + name_prefix(listing.incarnation, first - 1),
            readable=listing.readable(),
            hint="Restore the object from a copy, or prune the log up to a checkpoint after it",
        )
