"""Refuses to begin a new log where an old one was lost.

A writer that finds no log begins one at revision 0. If there was a log and it is lost, its data
files would look like leftovers to gc from then on, and be deleted. So before revision 0 the data
files are asked: one that was written under a later epoch than the first, or was begun on a
revision, proves that there was a log. So does anything in `segments/`, where only checkpoints put
objects: a log of adopted files leaves no other trace.

What one can't tell apart: the files of a lost first commit, and those of a first commit that was
never made. So a reader and `lakelog doctor` only tell of data files without a log.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import LogLost
from ..format.names import base_folder, is_id, log_folder, parse_own_file, segments_folder
from ..log.listing import read_listing
from .lost_tail import newest, read_meta

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...store import Store

_FIRST_EPOCH: Final = 1


def refuse_lost_log(store: Store, writer: str, database: str) -> None:
    """Raise if data files say that this log existed. To be asked when there is no log.

    Raises:
        LogLost: It existed.
    Requests: 2 LIST; and 1 GET for each transaction, up to 32, if there are data files.
    """
    folder = segments_folder(writer, database)
    for info in store.list(folder, first_page=1):
        raise LogLost(
            f"{writer}/{database} has segments of checkpoints and no log",
            key=info.key,
            hint=f"Its log was lost: restore it, or plan `lakelog rebuild URL {database} --writer "
            f"{writer}`. If nothing of it is wanted, move {folder} away",
        )
    left = []
    for info in store.list(f"{base_folder(writer, database)}data/"):
        name = parse_own_file(info.key)
        if name is None:
            continue
        if name.epoch > _FIRST_EPOCH:
            raise _lost(writer, database, info.key)
        left.append(info)
    for info in newest(left):
        meta = read_meta(store, info)
        if meta is not None and meta.base_revision >= 0:
            raise _lost(writer, database, info.key)


def without_log(
    store: Store,
    writer: str | None = None,
    database: str | None = None,
    *,
    known: Collection[tuple[str, str]] = (),
) -> list[tuple[str, str]]:
    """Writers and databases that have data files of lakelog's making, or segments, and no log.

    Args:
        writer, database: Only of this one.
        known: Pairs that have a log; they are not asked.
    Requests: 1 LIST for the writers, 1 for each writer, 1 for each pair that isn't known; up to 3
        more for each with data files or segments.
    """
    writers = [name for name in store.list_folders("") if is_id(name)]
    found = []
    for one in writers if writer is None else {writer}.intersection(writers):
        for name in store.list_folders(f"{one}/"):
            wanted = is_id(name) if database is None else name == database
            if wanted and (one, name) not in known and _only_data(store, one, name):
                found.append((one, name))
    return found


def _only_data(store: Store, writer: str, database: str) -> bool:
    base, log = base_folder(writer, database), log_folder(writer, database)
    folders = store.list_folders(base)
    if not {"data", "segments"}.intersection(folders):
        return False
    if "transactions" in folders:
        names = (item.key[len(log) :] for item in store.list(log))
        if read_listing(writer, database, names).head >= 0:
            return False
    if any(store.list(segments_folder(writer, database), first_page=1)):
        return True
    return any(parse_own_file(info.key) for info in store.list(f"{base}data/"))


def rebuild_hint(store: Store, writer: str | None = None, database: str | None = None) -> str:
    """What to do about data files without a log, for an error that finds no log; else nothing.

    Requests: as `without_log`.
    """
    found = without_log(store, writer, database)
    if not found:
        return ""
    owner, name = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"{owner}/{name}{more} has data files and no log: if it was lost, `lakelog rebuild URL "
        f"{name} --writer {owner}` makes it again"
    )


def _lost(writer: str, database: str, key: str) -> LogLost:
    return LogLost(
        f"{writer}/{database} has data files of earlier commits and no log",
        key=key,
        hint=f"Its log was lost: make it again with `lakelog rebuild URL {database} --writer "
        f"{writer}`. A new log would leave these files to gc",
    )
