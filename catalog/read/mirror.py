"""The second copy of a log: its names, and what they say about the first one.

A log is stored twice: `mirror/transactions/` and `mirror/segments/` hold the same bytes under the
same names (`commit.mirror` says when they are put). The copy serves three readers: whoever finds an
object missing or damaged reads its copy; whoever opens a log for writing, prunes or collects
compares the newest names of both places, since a log that has lost its end looks sound by itself;
and whoever finds no log at all learns from the mirror whether there was one.

Prune mirrors the checkpoint from which the retained log begins before it deletes anything. So what
lies below the highest checkpoint in the mirror, of the same incarnation, is pruned, wherever an
object of it is left.

Source: docs/format.md, section 4.8.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ...errors import LogLost, LostTail, ObjectNotFound
from ..format.names import LogObject, base_folder, log_folder, mirror_key, mirror_log_folder
from ..log.listing import Listing, read_listing
from .log_folder import log_places

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ...store import Store
    from ..log.state import State
    from .log_folder import LogFolder


class MirrorWarning(UserWarning):
    """An object of a log is missing or damaged, and its copy was read instead."""


def warn_of_copies(log: LogFolder, problems: Sequence[str]) -> None:
    """Warns that copies of objects were read.

    Args:
        problems: The key of each object, and what is wrong with it; without any nothing is said.
    """
    if not problems:
        return
    more = f" (and {len(problems) - 1} more objects)" if len(problems) > 1 else ""
    warnings.warn(
        f"{problems[0]}{more}: the copy in the mirror was read instead. "
        f"{repair_command(log.writer, log.database)} puts it back",
        MirrorWarning,
        stacklevel=5,
    )


def repair_command(writer: str, database: str) -> str:
    """Returns the command that restores the objects of a log, for a message."""
    return f"`lakelog repair URL {database} --writer {writer} --execute`"


def with_copies(listing: Listing, copies: Listing, incarnation: int = 0) -> Listing:
    """Returns the names that a log has in either place, without those that were pruned. Pure.

    Args:
        listing, copies: All names of the log, and of its mirror.
        incarnation: Which one to look at; 0: the one that counts.
    """
    start = max(copies.checkpoints, default=0)
    named = {item.name for item in _items(listing)}
    named |= {
        item.name
        for item in _items(copies)
        if item.incarnation != copies.incarnation or item.revision >= start
    }
    if not incarnation:
        return read_listing(listing.writer, listing.database, sorted(named))
    found = Listing(listing.writer, listing.database, incarnation)
    for name in sorted(named):
        found.take(name)
    found.end()
    return found


def _items(listing: Listing) -> Iterator[LogObject]:
    for names in (listing.transactions, listing.checkpoints):
        for items in names.values():
            yield from items
    yield from listing.others


def goes_further(copies: Listing, listing: Listing) -> bool:
    """Checks whether a mirror has a newer revision than its log: the log has lost its end. Pure.

    Args:
        copies: The newest names of the mirror, listed before the log was.
        listing: Those of the log.
    """
    return (copies.incarnation, copies.head) > (listing.incarnation, listing.head)


def refuse_lost_end(log: LogFolder, copies: Listing | None = None) -> Listing:
    """Raises if the mirror of a log goes further than the log does.

    Args:
        copies: The newest names of the mirror; listed here if not given.
    Returns:
        The newest names of the mirror.
    Raises:
        LostTail: It does.
        LogLost: The log has no names at all, and the mirror has.
    Requests: 2 LIST; 1 LIST more before it refuses.
    """
    copies = log.newest_copies() if copies is None else copies
    if copies.head < 0:
        return copies
    for _ in range(2):  # a listing of a folder can miss a name
        listing = log.names_down_to(copies.head)
        if not goes_further(copies, listing):
            return copies
    raise lost_end_error(listing, copies)


def lost_end_error(listing: Listing, copies: Listing) -> LogLost | LostTail:
    """Returns the error for a log whose mirror goes further than it does. Pure."""
    if listing.head < 0:
        return lost_log_error(listing.writer, listing.database)
    newest = copies.names_at(copies.head)[0]
    return LostTail(
        f"The log of {listing.writer}/{listing.database} has lost its end: its newest revision is "
        f"{listing.head}, and its mirror has revision {copies.head}",
        key=mirror_key(listing.folder + newest.name),
        hint="Nothing was written or deleted. "
        f"{repair_command(listing.writer, listing.database)} puts the lost objects back",
    )


def refuse_lost_log(store: Store, writer: str, database: str) -> None:
    """Raises if a log that is not there existed. To be called where the log has no names.

    Raises:
        LogLost: Its mirror is there; or as `lost_in_both`.
    Requests: 1 LIST, and those of `lost_in_both`.
    """
    folders = store.list_folders(base_folder(writer, database))
    if "mirror" in folders:
        raise lost_log_error(writer, database)
    error = lost_in_both(store, writer, database, folders)
    if error is not None:
        raise error


def lost_in_both(
    store: Store, writer: str, database: str, folders: Collection[str]
) -> LogLost | None:
    """Returns the error of a log that was lost in both places, by what is left of it: segments of
    its checkpoints, or data files that were begun on one of its revisions. None: nothing shows that
    there was one.

    Args:
        folders: Of the writer's database, which has neither a log nor a mirror.
    Requests: none; of data files without segments those of `left_file`.
    """
    from .set_back import left_file

    folder = base_folder(writer, database)
    left = None
    if "segments" in folders:
        key, trace = f"{folder}segments/", "segments of checkpoints"
    elif "data" in folders and (left := left_file(store, writer, database)) is not None:
        key, trace = left.key, f"data files that were begun on its revisions, as {left.key}"
    else:
        return None
    return LogLost(
        f"{writer}/{database} has neither a log nor a mirror, but {trace}",
        key=key,
        hint=f"Both copies of its log were lost. Plan {rebuild_command(writer, database)}. If "
        f"nothing of it is needed, move {folder} away",
    )


def lost_log_error(writer: str, database: str) -> LogLost:
    """Returns the error of a log that is gone while its mirror is there."""
    return LogLost(
        f"The log of {writer}/{database} was lost: it has a mirror and no transactions",
        key=mirror_log_folder(writer, database),
        hint=f"{repair_command(writer, database)} restores the log from its mirror",
    )


# --- Losses ---------------------------------------------------------------------------------------


class LostLogWarning(UserWarning):
    """A log, or a part of one, was lost: its rows are missing from the result."""


def warn(text: str) -> None:
    """Warns of a loss."""
    warnings.warn(text, LostLogWarning, stacklevel=4)


def left_out_message(error: LogLost, writer: str, database: str) -> str:
    """Returns the warning for a log that is lost in both places while other logs are there."""
    return (
        f"{error.message}: it is left out. Unless it is being replicated here for the first time, "
        f"{rebuild_command(writer, database)} salvages its rows"
    )


def rebuild_command(writer: str, database: str) -> str:
    """Returns the command that rebuilds a log from its data files, for a message."""
    return f"`lakelog rebuild URL {database} --writer {writer}`"


def without_log(
    store: Store,
    writer: str | None = None,
    database: str | None = None,
    *,
    known: Collection[tuple[str, str]] = (),
) -> list[tuple[str, str, bool]]:
    """Finds folders of writers and databases that have no log.

    Args:
        writer, database: Only of this one.
        known: Pairs that have a log; they are not asked.
    Returns:
        Writer, database, and whether its mirror is there.
    Requests: 1 LIST for the writers, 1 for each writer, 1 for each pair that isn't known.
    """
    found = []
    for one, name, folders in log_places(store, writer, database, known=known):
        if "transactions" in folders and any(store.list(log_folder(one, name), first_page=1)):
            continue
        if folders & {"mirror", "segments", "data"}:
            found.append((one, name, "mirror" in folders))
    return found


def recovery_hint(store: Store, writer: str | None = None, database: str | None = None) -> str:
    """Returns what to do about folders without a log, for an error that finds no log; else "".

    Requests: as `without_log`.
    """
    found = without_log(store, writer, database)
    if not found:
        return ""
    owner, name, has_mirror = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    if has_mirror:
        return f"{owner}/{name}{more} has lost its log: {repair_command(owner, name)} restores it"
    return (
        f"{owner}/{name}{more} has data files and no log: if it was lost, "
        f"{rebuild_command(owner, name)} makes it again"
    )


# --- The lost end of a log that a reader has open -------------------------------------------------


def lost_end(log: LogFolder, state: State, fresh: State) -> str | None:
    """Returns the warning for a log that shows less than a reader has open; None if the head is
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
        f"{key} is not there, {newest}. What is held stays readable here; a new reader doesn't see "
        f"it. {repair_command(log.writer, log.database)} puts the lost objects back"
    )


def _is_there(store: Store, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True
