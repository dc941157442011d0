"""Refuses to begin a catalog inside another one.

Below a writer's `<writer>/<database>/` all belongs to that log: its gc would take the data files of
a catalog below `data/` for leftovers and delete them, and its rebuild would find them.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import AccessDenied, NestedCatalog
from .format.names import parse_log_object

if TYPE_CHECKING:
    from ..store import Store

_DATA: Final = "data"
_LOG: Final = "transactions/"


def refuse_nested(store: Store) -> None:
    """Raise if the root lies below a writer's prefix of another catalog. To be asked when a log is
    about to be begun.

    Looked at are the root itself, and the folder above its last segment `data`, or else the one
    above the root: where a root inside `<writer>/<database>/` or its `data/` shows a log.

    Raises:
        NestedCatalog: It does; names the outer catalog.
    Requests: 2 LIST; 1 where nothing can be above the root.
    """
    segments = store.url.rstrip("/").split("/")
    levels = segments[::-1].index(_DATA) + 1 if _DATA in segments else 1
    for place in (store, store.above(levels)):
        if place is not None and _is_writers_database(place):
            raise _nested(store.url, place.url)


def _is_writers_database(place: Store) -> bool:
    """Whether a folder is `<writer>/<database>/` of some catalog: a log lies right below it."""
    try:
        names = (info.key.removeprefix(_LOG) for info in place.list(_LOG))
        return any(parse_log_object(name) is not None for name in names)
    except AccessDenied:  # above the root these credentials need not reach
        return False


def _nested(url: str, place: str) -> NestedCatalog:
    outer, writer, database = place.rstrip("/").rsplit("/", 2)
    return NestedCatalog(
        f"{url} lies inside another catalog: below {writer}/{database}/ of {outer}",
        key=url,
        hint="Take a root beside that catalog, or commit to it: open it under its own URL",
    )
