"""Objects in this process's memory: for tests, demonstrations and simulations.

Every method is one step under one lock, so put-if-absent is exact and a listing is one moment.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..errors import ObjectExists, ObjectNotFound
from .base import (
    PAGE_KEYS,
    ObjectInfo,
    Store,
    check_key,
    check_listing,
    check_prefix,
    check_range,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .base import Keys, Names


def _own_time() -> dt.datetime:
    # `modified_at` promises the store's own clock, and here this process is the store.
    return dt.datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), dt.UTC)


class MemoryStore(Store):
    """Objects in a dict.

    Args:
        name: What follows `memory://` in the URL.
        now: The store's clock; simulations pass their own.
    """

    backend = "memory"
    racers, raced_names = 2, 1

    def __init__(self, name: str = "", *, now: Callable[[], dt.datetime] = _own_time) -> None:
        self.url = f"memory://{name}"
        self._now = now
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, dt.datetime]] = {}

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write an object; see `Store.put`."""
        check_key(key)
        copy = bytes(body)
        with self._lock:
            if if_absent and key in self._objects:
                raise ObjectExists("the object exists already", key=key)
            self._objects[key] = (copy, self._now())

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object or a range of it; see `Store.get`."""
        check_range(start, end)
        return self._find(key)[0][start:end]

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole objects; see `Store.get_many`."""
        for key in keys:
            check_key(key)
        with self._lock:
            found = [self._objects.get(key) for key in keys]
        return [None if entry is None else entry[0] for entry in found]

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """All objects below `prefix`, of the moment the first one is wanted; see `Store.list`."""
        return self._listed(check_listing(prefix, first_page), after)

    def _listed(self, prefix: str, after: str | None) -> Iterator[ObjectInfo]:
        with self._lock:
            found = [
                (key, entry)
                for key, entry in self._objects.items()
                if key.startswith(prefix) and (after is None or key > after)
            ]
        # The order of code points is the order of the UTF-8 bytes.
        found.sort(key=itemgetter(0))
        for key, (body, modified_at) in found:
            yield ObjectInfo(key, len(body), modified_at)

    def list_folders(self, prefix: str) -> Names:
        """Names of the folders directly below `prefix`; see `Store.list_folders`."""
        cut = len(check_prefix(prefix))
        with self._lock:
            below = [key[cut:] for key in self._objects if key.startswith(prefix)]
        return sorted({rest.split("/", 1)[0] for rest in below if "/" in rest})

    def head(self, key: str) -> ObjectInfo:
        """Size and time of one object; see `Store.head`."""
        body, modified_at = self._find(key)
        return ObjectInfo(key, len(body), modified_at)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys:
        """Delete objects; see `Store.delete`."""
        gone = set()
        for key in keys:
            check_key(key)
            with self._lock:
                if self._objects.pop(key, None) is None:
                    gone.add(key)
        return frozenset(gone)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """A file over one object, without a copy; see `Store.open_input`."""
        import pyarrow as pa

        return pa.BufferReader(self._find(key)[0])

    def object_url(self, key: str) -> str:
        """The URL of one object; no other engine can open it."""
        return f"{self.url}/{check_key(key)}"

    def server_time(self) -> dt.datetime:
        """The store's clock."""
        return self._now()

    def _find(self, key: str) -> tuple[bytes, dt.datetime]:
        check_key(key)
        with self._lock:
            entry = self._objects.get(key)
        if entry is None:
            raise ObjectNotFound("no such object", key=key)
        return entry


_named: dict[str, MemoryStore] = {}
_named_lock = threading.Lock()


def named_memory_store(name: str) -> MemoryStore:
    """The store of `memory://<name>`: the same one for every call in this process."""
    with _named_lock:
        return _named.setdefault(name, MemoryStore(name))
