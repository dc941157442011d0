"""Losses that leave a log, or a database, sound and shorter: told, since nothing else shows them.

Source: docs/format.md, sections 4.3 and 4.5; docs/reliability.md.
"""

from __future__ import annotations

import warnings
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...errors import CorruptError, ObjectNotFound
from ..format.names import LogObject, base_folder, parse_own_file, rebuilt_slot_uuid
from ..format.objects import decode_transaction

if TYPE_CHECKING:
    from ...store import ObjectInfo, Store
    from ..format.objects import DecodedTransaction
    from ..log.listing import Listing
    from ..log.state import State
    from .log_folder import LogFolder


_LISTED: Final = 10_000
_FOOTERS: Final = 32
_FIRST_EPOCH: Final = 1


class LostLogWarning(UserWarning):
    """A log, or a part of one, is not there any more: what it told is missing from what is read."""


def warn(text: str) -> None:
    """Tell of a loss."""
    warnings.warn(text, LostLogWarning, stacklevel=4)


def rebuild_it(writer: str, database: str) -> str:
    """What to do about it, as the end of a text."""
    return f"if it was lost, `lakelog rebuild URL {database} --writer {writer}` makes it again"


# --- A log that is lost beside others -------------------------------------------------------------


def trace_of_lost_log(log: LogFolder) -> str | None:
    """The key of something that a log without names has left; None if nothing says that there was
    one: a first commit may be under way.

    As `lost_log.refuse_lost_log`, but of the first 10,000 data files: each read of a database that
    others have a log of asks this.

    Requests: 1 LIST; with data files or segments a few more, and 1 GET a transaction, up to 32.
    """
    folders = log.store.list_folders(base_folder(log.writer, log.database))
    if not {"data", "segments"}.intersection(folders):
        return None
    found = _trace(log.store, log.writer, log.database)
    if found is None or _has_begun(log.names_for()):
        return None
    return found


def _trace(store: Store, writer: str, database: str) -> str | None:
    base = base_folder(writer, database)
    for info in store.list(f"{base}segments/", first_page=1):
        return info.key
    some = list(islice(store.list(f"{base}data/"), _LISTED))
    one_each: dict[bytes, ObjectInfo] = {}
    for info in some:
        name = parse_own_file(info.key)
        if name is not None and name.epoch > _FIRST_EPOCH:
            return info.key
        if name is not None:
            one_each[name.transaction_id] = info
    if not one_each:
        return some[0].key if some else None
    newest = sorted(one_each.values(), key=lambda info: str(info.modified_at), reverse=True)
    return next((i.key for i in newest[:_FOOTERS] if _is_begun_on_a_revision(store, i)), None)


def _is_begun_on_a_revision(store: Store, info: ObjectInfo) -> bool:
    from .lost_tail import read_meta

    meta = read_meta(store, info)
    return meta is not None and meta.base_revision >= 0


def _has_begun(listing: Listing) -> bool:
    return listing.head >= 0 or bool(listing.others)


def lost_beside_others(writer: str, database: str, key: str) -> str:
    """What is said of a log that is not there, and that has left an object."""
    return (
        f"{writer}/{database} has no log and is left out, although {key} is there: "
        f"{rebuild_it(writer, database)}"
    )


# --- An incarnation whose checkpoint is lost ------------------------------------------------------


def lost_incarnation(log: LogFolder, listing: Listing) -> str | None:
    """What is said where commits stand in a higher incarnation than that in use, which a rebuild
    did not write; None if there are none. Then the checkpoint that switched to it is lost.

    Requests: none if no transaction stands in a higher one; else 1 GET for each of these.
    """
    tops: dict[int, LogObject] = {}
    for item in listing.others:
        if item.incarnation > max(1, listing.incarnation) and item.kind == "transaction":
            known = tops.setdefault(item.incarnation, item)
            if item.revision > known.revision:
                tops[item.incarnation] = item
    for incarnation in sorted(tops, reverse=True):
        key = listing.key(tops[incarnation])
        if not _is_left_by_a_rebuild(log.store, key):
            where = f"{listing.writer}/{listing.database}"
            return (
                f"{where} has commits in incarnation {incarnation}, up to {key}, and no checkpoint "
                f"of it: it was lost, and incarnation {max(1, listing.incarnation)} is read "
                "instead, without these commits. Restore the checkpoint from a copy; else "
                f"`lakelog rebuild URL {listing.database} --writer {listing.writer}` brings them "
                "back"
            )
    return None


def _is_left_by_a_rebuild(store: Store, key: str) -> bool:
    """Whether a rebuild wrote it, or it is gone by now. One that is damaged may be anybody's."""
    try:
        return is_of_a_rebuild(decode_transaction(store.get(key), key))
    except ObjectNotFound:
        return True
    except CorruptError:
        return False


def is_of_a_rebuild(transaction: DecodedTransaction) -> bool:
    """Whether a rebuild wrote a transaction, and no committer."""
    message = transaction.message
    return bool(message.uuid == rebuilt_slot_uuid(message.commit.slot_seed, message.revision))


# --- The end of a log that somebody holds ---------------------------------------------------------


def lost_end(log: LogFolder, state: State, fresh: State) -> str | None:
    """What is said of a state that is held although a new look shows less; None if its head is
    still there, and a listing only missed it.

    Requests: 2 HEAD at most, of the names of the head.
    """
    if state.log is None or (fresh.revision >= state.revision and fresh.log == state.log):
        return None
    uuid8 = state.uuid[:4].hex()
    item = LogObject(state.log.incarnation, state.revision, uuid8, "transaction")
    key = log.folder + item.name
    if any(_is_there(log.store, k) for k in (key, key.removesuffix(item.kind) + "checkpoint")):
        return None
    newest = f"its newest revision is {fresh.revision}" if fresh.log else "no log is there"
    return (
        f"Revision {state.revision} of {log.writer}/{log.database}, which is held here, is lost: "
        f"{key} is not there, {newest}. What is held stays, "
        "and who reads anew doesn't see it. Restore the objects from a copy; else `lakelog rebuild "
        f"URL {log.database} --writer {log.writer}` tells from the data files what was lost"
    )


def _is_there(store: Store, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True
