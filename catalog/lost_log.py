"""Refuses to begin a new log where an old one was lost.

A writer that finds no log begins one at revision 0. If there was a log and it is lost, its data
files would look like leftovers to gc from then on, and be deleted. So before revision 0 the data
files are asked: one that was written under a later epoch than the first, or was begun on a
revision, proves that there was a log.

What one can't tell apart: the files of a lost first commit, and those of a first commit that was
never made.

Source: docs/format.md, section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import InvalidParquet, LogLost, ObjectNotFound
from .names import base_folder, parse_data_file

if TYPE_CHECKING:
    from ..store import ObjectInfo, Store

_FOOTERS: Final = 32
_FIRST_EPOCH: Final = 1


def refuse_lost_log(store: Store, writer: str, database: str) -> None:
    """Raise if data files say that this log existed. To be asked when there is no log.

    Raises:
        LogLost: It existed.
    Requests: 1 LIST; and 1 GET for each transaction, up to 32, if there are data files.
    """
    one_each: dict[bytes, ObjectInfo] = {}
    for info in store.list(f"{base_folder(writer, database)}data/"):
        name = parse_data_file(info.key)
        if name is None:
            continue
        if name.epoch > _FIRST_EPOCH:
            raise _lost(writer, database, info.key)
        known = one_each.setdefault(name.transaction_id, info)
        if info.modified_at and known.modified_at and info.modified_at > known.modified_at:
            one_each[name.transaction_id] = info
    newest = sorted(one_each.values(), key=lambda info: str(info.modified_at), reverse=True)
    for info in newest[:_FOOTERS]:
        if _base_revision(store, info) >= 0:
            raise _lost(writer, database, info.key)


def _base_revision(store: Store, info: ObjectInfo) -> int:
    """The revision that a file's transaction was begun on; -1 if it was none, or nobody can say."""
    from .footer_scan import read_footer

    try:
        meta = read_footer(store, info.key, info.size_bytes).meta
    except (InvalidParquet, ObjectNotFound):
        return -1
    return -1 if meta is None else meta.base_revision


def _lost(writer: str, database: str, key: str) -> LogLost:
    return LogLost(
        f"{writer}/{database} has data files of earlier commits and no log",
        key=key,
        hint=f"Its log was lost: make it again with `lakelog rebuild URL {database} --writer "
        f"{writer}`. A new log would leave these files to gc",
    )
