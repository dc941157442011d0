"""What an earlier view of a log is worth beside a later one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import BrokenChain, CorruptError, RevisionNotFound, SnapshotPruned
from ..format.names import LogObject, parse_log_object

if TYPE_CHECKING:
    from ..log.listing import Listing
    from ..log.state import State


def is_older_view(fresh: State, state: State) -> bool:
    """Whether a state that was read later shows the log as it was before; another log, and a log
    that was put back and went on otherwise, are no older view."""
    if fresh.log is None or state.log is None:
        return fresh.log is None
    if fresh.log.log_id != state.log.log_id:
        return False
    if fresh.log.incarnation != state.log.incarnation:
        return fresh.log.incarnation < state.log.incarnation
    if fresh.revision >= state.revision:
        return fresh.digest == state.digest
    try:
        rows = state.history.after(fresh.revision - 1)
    except CorruptError:
        return True
    return rows[0]["revision"] != fresh.revision or bool(rows[0]["digest"] == fresh.digest)


def stands(state: State, listing: Listing) -> bool:
    """Whether a listing shows the revision of a state. What follows it can't be relied on without:
    the log may have been lost, and be no more than a commit of somebody who doesn't know."""
    uuid8 = state.uuid[:4].hex()
    return any(item.uuid8 == uuid8 for item in listing.names_at(state.revision))


def refuse_gone(listing: Listing, revision: int) -> None:
    """Refuse a revision of an incarnation of which nothing is left, if a later one is in use.

    Args:
        listing: Of that incarnation, with all names of the log and of its mirror.
    """
    where = f"{listing.writer}/{listing.database}"
    if any(item.incarnation > listing.incarnation for item in listing.others):
        raise SnapshotPruned(
            f"Revision {revision} of {where} was pruned, with its whole incarnation, "
            f"{listing.incarnation}",
            key=where,
            hint="The log was rebuilt since: open it again",
        )
    if listing.others:
        raise RevisionNotFound(
            f"{where} has no incarnation {listing.incarnation}",
            key=where,
            hint="Is the token of another copy of it, or was a backup put back?",
        )


def is_right_above(error: CorruptError, base: LogObject) -> bool:
    """Whether a chain broke at the first transaction above a base: then the base may be wrong."""
    item = parse_log_object((error.key or "").rsplit("/", 1)[-1])
    return (
        isinstance(error, BrokenChain) and item is not None and item.revision == base.revision + 1
    )
