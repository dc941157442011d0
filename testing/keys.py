"""Which objects a log has, in the order in which they were committed: a listing shows the newest
first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.format.names import log_folder, parse_log_object

if TYPE_CHECKING:
    from ..store.base import Store


def log_keys(store: Store, kind: str = "", *, writer: str = "w", database: str = "db") -> list[str]:
    """Keys of a log's transactions and checkpoints, or of those of one kind, oldest first."""
    folder = log_folder(writer, database)
    found = [(parse_log_object(info.key[len(folder) :]), info.key) for info in store.list(folder)]
    named = [(item, key) for item, key in found if item is not None and kind in ("", item.kind)]
    named.sort(key=lambda pair: (pair[0].incarnation, pair[0].revision, pair[0].kind))
    return [key for _, key in named]


def revision_in(key: str) -> int:
    """The revision that the name of a log's object says."""
    item = parse_log_object(key.rsplit("/", 1)[-1])
    assert item is not None, key
    return item.revision


def drop_mirror(store: Store, *, writer: str = "w", database: str = "db") -> None:
    """Deletes the second copy of a log: what is damaged then is damaged for good."""
    prefix = f"{writer}/{database}/mirror/"
    store.delete([info.key for info in store.list(prefix)], ordered=False)
