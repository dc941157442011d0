"""The store of a catalog, which also reads what lies elsewhere: a key that is a URL is read at its
own place. Nothing but reading goes there.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidUrl, LakelogError, UsageError
from .base import PAGE_KEYS, ObjectInfo, Store
from .local import LocalStore
from .open import open_store
from .places import LOCAL_ROOT, is_url, root_of, split

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .base import Keys, Names


@dataclass(frozen=True, slots=True)
class Opening:
    """What opens a `WideStore` in another process. Never shows options, which may be secrets.

    Attributes:
        url: The root of the catalog's store.
        storage_options, location_options: As for `WideStore`.
    """

    url: str
    storage_options: Mapping[str, Any] = field(repr=False)
    location_options: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def open(self) -> WideStore:
        """The store.

        Raises: As `open_store`.
        """
        store = open_store(self.url, self.storage_options)
        return WideStore(store, self.storage_options, self.location_options)


class WideStore(Store):
    """One catalog's store, and, for reading by URL, those of its files that lie elsewhere.

    Args:
        store: The catalog's. All keys but URLs are its own.
        storage_options: It was opened with; they also open other places of the same kind.
        location_options: By URL of a place, or of anything in it: what opens that one instead.
    Raises:
        InvalidUrl: A location that can't be.
        UsageError: Two of them are one place.
    """

    def __init__(
        self,
        store: Store,
        storage_options: Mapping[str, Any] | None = None,
        location_options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.url = store.url
        self.backend = store.backend
        self._own = store
        self._options = dict(storage_options or {})
        self._by_root: dict[str, Mapping[str, Any]] = {}
        for url, options in (location_options or {}).items():
            root = root_of(url)
            if root in self._by_root:
                raise UsageError(
                    f"Options are given twice for {root}", key=url, hint="Give them once"
                )
            self._by_root[root] = dict(options)
        self._stores: dict[str, Store] = {}
        self._guard = threading.Lock()

    @property
    def opening(self) -> Opening:
        """What opens the same in another process."""
        return Opening(self.url, dict(self._options), dict(self._by_root))

    def options_of(self, root: str) -> Mapping[str, Any]:
        """The storage options of a place. They may be secrets."""
        if root in self._by_root:
            return self._by_root[root]
        same = split(self.url).root.partition(":")[0] == root.partition(":")[0] or (
            self.backend == "az" and root.startswith(("az:", "abfss:"))
        )
        return self._options if same else {}

    def at(self, root: str) -> Store:
        """The store of a place, opened once.

        Raises:
            InvalidUrl: Nothing here opens such a URL.
            MissingDependency: The backend's package isn't installed.
        """
        with self._guard:
            found = self._stores.get(root)
            if found is None:
                if root == LOCAL_ROOT:
                    found = LocalStore("/")
                elif root.startswith("memory:"):
                    raise InvalidUrl("Files can't lie in a process's memory", key=root)
                else:
                    found = open_store(root, self.options_of(root))
                self._stores[root] = found
            return found

    # --- Reading, wherever it is ------------------------------------------------------------------

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object; see `Store.get`."""
        if not is_url(key):
            return self._own.get(key, start=start, end=end)
        with self._found(key) as (store, below):
            return store.get(below, start=start, end=end)

    def head(self, key: str) -> ObjectInfo:
        """Size and time of an object; see `Store.head`."""
        if not is_url(key):
            return self._own.head(key)
        with self._found(key) as (store, below):
            info = store.head(below)
            return ObjectInfo(key, info.size_bytes, info.modified_at)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """A seekable binary file; see `Store.open_input`."""
        if not is_url(key):
            return self._own.open_input(key, size_bytes=size_bytes)
        with self._found(key) as (store, below):
            return store.open_input(below, size_bytes=size_bytes)

    def object_url(self, key: str) -> str:
        """The URL of an object, as another engine would open it."""
        if not is_url(key):
            return self._own.object_url(key)
        with self._found(key) as (store, below):
            return store.object_url(below)

    @contextlib.contextmanager
    def _found(self, url: str) -> Iterator[tuple[Store, str]]:
        """The place of a URL; errors name the URL."""
        root, key = split(url)
        try:
            yield self.at(root), key
        except LakelogError as error:
            error.key = url
            raise

    # --- What is of the catalog's store alone -----------------------------------------------------

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole objects; see `Store.get_many`."""
        return self._own.get_many(keys)

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write an object; see `Store.put`."""
        self._own.put(key, body, if_absent=if_absent)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """All objects below a prefix; see `Store.list`."""
        return self._own.list(prefix, after=after, first_page=first_page)

    def list_folders(self, prefix: str) -> Names:
        """Names of the folders below a prefix; see `Store.list_folders`."""
        return self._own.list_folders(prefix)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        """Delete objects; see `Store.delete`."""
        return self._own.delete(keys, ordered=ordered)

    def server_time(self) -> dt.datetime | None:
        """What the store's clock shows; see `Store.server_time`."""
        return self._own.server_time()

    def local_path(self, key: str) -> str | None:
        """The path of an object on this machine's disk; None of one that lies elsewhere. See
        `Store.local_path`."""
        return None if is_url(key) else self._own.local_path(key)

    def above(self, levels: int) -> Store | None:
        """The store of a folder above; see `Store.above`."""
        return self._own.above(levels)
