"""Losses that leave a log, or a database, sound and shorter: told, since nothing else shows them.

Source: docs/format.md, sections 4.3 and 4.5; docs/reliability.md.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ...errors import ObjectNotFound
from ..format.names import LogObject, base_folder, is_id, log_folder
from .mirror import repair_command

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...store import Store
    from ..log.state import State
    from .log_folder import LogFolder


class LostLogWarning(UserWarning):
    """A log, or a part of one, is not there any more: what it told is missing from what is read."""


def warn(text: str) -> None:
    """Tell of a loss."""
    warnings.warn(text, LostLogWarning, stacklevel=4)


def lost_log_message(writer: str, database: str) -> str:
    """Returns what is said of a log of which neither copy is there, beside logs that are."""
    return (
        f"{writer}/{database} has segments of checkpoints, and neither a log nor a mirror: it is "
        f"left out. {rebuild_command(writer, database)} salvages its rows"
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
    writers = [name for name in store.list_folders("") if is_id(name)]
    found = []
    for one in writers if writer is None else {writer}.intersection(writers):
        for name in store.list_folders(f"{one}/"):
            wanted = is_id(name) if database is None else name == database
            if not wanted or (one, name) in known:
                continue
            folders = set(store.list_folders(base_folder(one, name)))
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
        f"{key} is not there, {newest}. What is held stays readable here; a new reader doesn't see "
        f"it. {repair_command(log.writer, log.database)} puts the lost objects back"
    )


def _is_there(store: Store, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True
