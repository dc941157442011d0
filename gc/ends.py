"""Whether a listing lacks what a log has, where nothing else would show it: asked by names.

A scan of a folder may miss a name. One in the middle leaves a hole, which is seen. But a log whose
first transaction, or first checkpoint, was missed looks like one that was pruned, and the files of
its first revisions like orphans; and one whose last was missed just looks shorter. Prune deletes in
ascending order, and each transaction tells the name of the one before it: so whether that one name
is there says whether all lower ones are gone. On stores with put-if-absent it also tells the name
of the one after it. And a checkpoint has the name of its transaction: one that was missed would
leave the segments that it alone refers to without anybody who needs them.

Source: docs/maintenance.md; docs/format.md, section 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..catalog.format.names import LogObject
from ..errors import MissingTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..catalog.format.objects import DecodedTransaction
    from ..catalog.log.listing import Listing
    from ..catalog.log.state import State
    from .context import MaintenanceContext


def beyond(context: MaintenanceContext, state: State) -> tuple[str, bytes] | None:
    """The key and body of the transaction that comes after a state, if there is one, whatever a
    listing says.

    Requests: 1 GET, usually of a name that is not there.
    """
    assert state.log is not None
    item = LogObject(
        state.log.incarnation, state.revision + 1, state.next_uuid[:4].hex(), "transaction"
    )
    key = context.log.folder + item.name
    body = context.store.get_many([key])[0]
    return None if body is None else (key, body)


def check_beginning(context: MaintenanceContext, listing: Listing, oldest: int) -> None:
    """Refuse a listing that lacks what stands before the beginning that it shows.

    Args:
        oldest: The oldest revision that can be read by the listing; a checkpoint stands on it.
    Raises:
        MissingTransaction: Names an object that is there and was not listed.
    Requests: 2 GET after a prune, usually of names that are not there, and 1 for the oldest
        transaction; 1 more for each revision that an interrupted prune has left unreadable.
    """
    _refuse_if_there(context, listing, _before(context, listing, oldest))


def check_other(
    context: MaintenanceContext, listing: Listing, transactions: Sequence[DecodedTransaction]
) -> None:
    """Refuse a listing that lacks what transactions of other incarnations follow.

    Args:
        transactions: In any order.
    Raises:
        MissingTransaction: Names one that is there and was not listed.
    Requests: 1 GET for each whose predecessor was not listed, of a name that is not there.
    """
    listed = {(item.incarnation, item.revision, item.uuid8) for item in listing.others}
    before = set()
    for found in transactions:
        message = found.message
        if message.revision and any(message.previous_uuid):  # a seal need not know it
            place = (found.log.incarnation, message.revision - 1, message.previous_uuid[:4].hex())
            before.add(place)
    missing = sorted(before - listed)
    _refuse_if_there(context, listing, [LogObject(*place, "transaction") for place in missing])


def check_checkpoints(context: MaintenanceContext, listing: Listing, first: int) -> None:
    """Refuse a listing that lacks a checkpoint that stays: what it refers to would look unneeded.

    Args:
        first: The lowest revision that stays.
    Raises:
        MissingTransaction: Names a checkpoint that is there and was not listed.
    Requests: 1 GET for each transaction that stays and has no checkpoint, of a name that is not
        there.
    """
    own = (item for found in listing.transactions.values() for item in found)
    staying = [*(item for item in own if item.revision >= first), *listing.others]
    listed = {item.name for found in listing.checkpoints.values() for item in found}
    listed.update(item.name for item in listing.others)
    possible = [replace(item, kind="checkpoint") for item in staying]
    _refuse_if_there(context, listing, [item for item in possible if item.name not in listed])


def _refuse_if_there(
    context: MaintenanceContext, listing: Listing, items: Sequence[LogObject]
) -> None:
    keys = [listing.key(item) for item in items]
    for key, body in zip(keys, context.store.get_many(keys), strict=True):
        if body is not None:
            raise MissingTransaction(
                f"{key} is there, but a listing of {context.where} didn't show it",
                key=key,
                readable=listing.readable(),
                hint="Nothing was deleted. Try again; a file system whose listings often miss what "
                "has been there for long is no place for a catalog",
            )


def _before(context: MaintenanceContext, listing: Listing, oldest: int) -> list[LogObject]:
    """What a log that begins lower has, of the names that were not listed."""
    start = listing.run_start(listing.head)
    missing = [
        replace(listing.transactions[revision][0], kind="checkpoint")
        for revision in range(start, oldest)
    ]
    if start > oldest:  # its own transaction is not listed
        return [replace(listing.checkpoints[oldest][0], kind="transaction")]
    message = context.log.transaction(listing.transactions[start][0]).message
    below = LogObject(
        listing.incarnation, start - 1, message.previous_uuid[:4].hex(), "transaction"
    )
    return [below, replace(below, kind="checkpoint"), *missing]
