"""What is left of the log that a rebuild replaces: its objects, and the names that it promised.

A committer that still runs will ask for the name that its head fixed for the next revision. Where
the new log takes over those names, it finds its name taken, reads what is there, and is refused.

Source: docs/format.md, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..catalog.format.names import LogObject, log_folder, parse_log_object
from ..catalog.format.objects import decode_checkpoint, decode_transaction
from ..catalog.log.listing import Listing, read_listing
from ..errors import CorruptError, ObjectNotFound
from .values import MAX_PADDING

if TYPE_CHECKING:
    from ..store import ObjectInfo, Store


@dataclass(slots=True)
class OldLog:
    """The objects of an old log.

    Attributes:
        objects: Those that are ours: transactions, checkpoints, segments; by key.
        head: The highest revision; -1 if there is none.
        slots: The first 4 bytes of the slot uuid, by revision; also of the one after the head, if
            the head can be read.
        names_next: Whether it can.
        epoch: Of the head; 0 if it can't be read.
    """

    objects: list[ObjectInfo] = field(default_factory=list)
    head: int = -1
    slots: dict[int, bytes] = field(default_factory=dict)
    names_next: bool = False
    epoch: int = 0


def list_log(store: Store, writer: str, database: str) -> list[ObjectInfo]:
    """The objects of a log, by key; unknown names are not of it.

    Requests: 1 LIST per 1,000 objects on S3.
    """
    folder = log_folder(writer, database)
    found = store.list(folder)
    return [info for info in found if parse_log_object(info.key[len(folder) :]) is not None]


def read_old_log(store: Store, writer: str, database: str) -> OldLog:
    """What is left of a log. Nothing of it needs to be sound.

    Requests: 1 LIST per 1,000 objects on S3, and 1 or 2 GET.
    """
    objects = list_log(store, writer, database)
    folder = log_folder(writer, database)
    listing = read_listing(writer, database, (info.key[len(folder) :] for info in objects))
    old = OldLog(objects, listing.head)
    for revision, items in listing.transactions.items():
        old.slots[revision] = bytes.fromhex(min(items).uuid8)
    _read_head(store, listing, old)
    return old


def _read_head(store: Store, listing: Listing, old: OldLog) -> None:
    """The epoch of the head, and the slot uuid that it fixed for the revision after it."""
    head = listing.head
    items: list[LogObject] = [
        *listing.transactions.get(head, ()),
        *listing.checkpoints.get(head, ()),
    ]
    for item in items:
        key = listing.key(item)
        try:
            body = store.get(key)
            if item.kind == "transaction":
                transaction = decode_transaction(body, key).message
                old.epoch, successor = transaction.epoch, transaction.commit.successor_uuid
            else:
                checkpoint = decode_checkpoint(body, key).message
                old.epoch, successor = checkpoint.epoch, checkpoint.successor_uuid
        except (CorruptError, ObjectNotFound):
            continue
        old.slots[head + 1] = successor[:4]
        old.names_next = True
        return


def padding_after(old: OldLog, newest: int) -> int:
    """How many empty revisions to put after the newest rebuilt one, so that the new log reaches the
    name that the old head promised. At least so many that the newest name is a new one: that of
    revision 0 is the same in every log of a writer and database."""
    wanted = old.head + 1 - newest
    if old.names_next and 0 < wanted <= MAX_PADDING:
        return wanted
    return 1 if old.objects and newest == 0 else 0


def usable_slots(old: OldLog, top: int) -> dict[int, bytes]:
    """The slots that a new log up to revision `top` takes over.

    None at all, unless it reaches beyond the old head: the top object is written first, beside the
    old log, and so its name must be a new one.
    """
    if top <= old.head:
        return {}
    return {revision: start for revision, start in old.slots.items() if 0 < revision <= top}
