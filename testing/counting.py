"""Count the requests that a piece of work makes: budgets are promises, so tests hold them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..store.base import PAGE_KEYS, ObjectInfo, Store
from ..store.object_store import RangeFile

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Sequence

    from ..store.base import Keys, Names

KINDS = ("put", "get", "list", "head", "delete")


class CountingStore(Store):
    """Passes every call on to another store and counts the logical requests.

    Logical: one GET a key, also in `get_many`; one LIST a page of a listing that is reached, by the
    sizes that were asked for (so on every backend alike); one DELETE a key. Files from `open_input`
    read through this store, so their ranges count as GETs.

    Args:
        store: The store that does the work.
    """

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.url = store.url
        self.backend = store.backend
        self.probed = store.probed
        self.racers, self.raced_names = store.racers, store.raced_names
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(KINDS, 0)

    @property
    def counts(self) -> dict[str, int]:
        """How many requests of each kind since the start or the last `reset`; a copy."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> dict[str, int]:
        """Start again at zero; returns what was counted."""
        with self._lock:
            counted, self._counts = self._counts, dict.fromkeys(KINDS, 0)
        return counted

    def _count(self, kind: str, number: int = 1) -> None:
        with self._lock:
            self._counts[kind] += number

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Count 1 PUT."""
        self._count("put")
        self.inner.put(key, body, if_absent=if_absent)

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Count 1 GET."""
        self._count("get")
        return self.inner.get(key, start=start, end=end)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Count 1 GET a key."""
        self._count("get", len(keys))
        return self.inner.get_many(keys)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """Count 1 LIST a page, when its first object is wanted."""
        return self._pages(self.inner.list(prefix, after=after, first_page=first_page), first_page)

    def _pages(self, found: Iterator[ObjectInfo], first_page: int) -> Iterator[ObjectInfo]:
        self._count("list")  # also where nothing is there
        turn = min(first_page, PAGE_KEYS)
        for number, info in enumerate(found):
            if number >= turn and (number - turn) % PAGE_KEYS == 0:
                self._count("list")
            yield info

    def list_folders(self, prefix: str) -> Names:
        """Count 1 LIST."""
        self._count("list")
        return self.inner.list_folders(prefix)

    def head(self, key: str) -> ObjectInfo:
        """Count 1 HEAD."""
        self._count("head")
        return self.inner.head(key)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        """Count 1 DELETE a key."""
        every = list(keys)
        self._count("delete", len(every))
        return self.inner.delete(every, ordered=ordered)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """Count 1 HEAD if the size isn't given, and 1 GET per range that is read."""
        return RangeFile(self, key, self.head(key).size_bytes if size_bytes is None else size_bytes)

    def identity(self) -> str:
        """No request."""
        return self.inner.identity()

    def server_time(self) -> dt.datetime | None:
        """No request."""
        return self.inner.server_time()

    def object_url(self, key: str) -> str:
        """No request."""
        return self.inner.object_url(key)
