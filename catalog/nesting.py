"""Catalogs inside one another: none is begun so, and gc leaves alone what is there all the same.

Below a writer's `<writer>/<database>/` all belongs to that log: data files of a catalog below
`data/` look like leftovers to it.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import AccessDenied, NestedCatalog
from .format.names import parse_log_object

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def logs_below(paths: Iterable[str]) -> tuple[str, ...]:
    """The folders `…/<writer>/<database>/` of logs that lie among some objects, sorted.

    Args:
        paths: Keys relative to any one folder.
    """
    found = set()
    for path in paths:
        folder, middle, name = path.rpartition(_LOG)
        if middle and folder.endswith("/") and parse_log_object(name) is not None:
            found.add(folder)
    return tuple(sorted(found))


def refuse_outer_log(store: Store, writer: str, database: str) -> None:
    """Raises `NestedCatalog` if the data folder of a database is that of another catalog's: it is
    called `data`, and its writer's folder is a database of a catalog above.

    Requests: 1 LIST if the database is called so, else none.
    """
    if database != _DATA:
        return
    listed = (info.key.removeprefix(f"{writer}/{_LOG}") for info in store.list(f"{writer}/{_LOG}"))
    if any(parse_log_object(name) is not None for name in listed):
        raise NestedCatalog(
            f"{writer}/{database}/ is also the data folder of a log in {writer}/{_LOG}",
            key=f"{writer}/{database}/",
            hint="Nothing was deleted: what one catalog calls garbage may be live in the other. "
            "Move one of them elsewhere",
        )


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
