"""Where an external file is stored, named by a URL or an absolute path: the root of a store, and a
key below it; and the store of a catalog, which also reads such files.

One file has one name: schemes are spelled alike, and links of a file system followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from ..errors import InvalidPath, InvalidUrl, LakelogError, UsageError
from .base import PAGE_KEYS, ObjectInfo, Store, check_key
from .local import LocalStore
from .open import BACKENDS, hint_of_scheme, open_store, refuse_credentials

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .base import Keys, Names

LOCAL_ROOT: Final = "file://"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", re.DOTALL)
_SPELLINGS: Final[Mapping[str, str]] = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_PARAMETERS: Final = re.compile(r"([?#]).*=.*", re.DOTALL)
_AZURE: Final = "az"
_HINT: Final = "Name a file by its absolute path, or by a URL that begins with " + ", ".join(
    f"{scheme}://" for scheme in ("file", *BACKENDS)
)


class Place(NamedTuple):
    """Where an object is stored.

    Attributes:
        root: URL of a whole store: `s3://bucket`, `gs://bucket`, `az://container`,
            `abfss://container@account.host`, `file://`. Without a slash at its end, but for the
            last.
        key: Below it, without a slash in front. Raw, never percent-encoded.
    """

    root: str
    key: str

    @property
    def url(self) -> str:
        """The object's URL."""
        return f"{self.root}/{self.key}"


def is_url(name: str) -> bool:
    """Whether a name is a URL: no key has an empty segment."""
    return "://" in name


def is_absolute(name: str) -> bool:
    """Whether a name is a URL or an absolute path."""
    return is_url(name) or os.path.isabs(name)


def place_of(name: str) -> Place:
    """Where a file is stored.

    Args:
        name: A URL, or an absolute path.
    Raises:
        InvalidUrl: No scheme for this, no bucket, or credentials in the URL.
        InvalidPath: A query, a fragment, `..` or an empty segment.
    """
    match = _URL.fullmatch(name)
    if match is None or match[1].lower() == "file":
        return _local(name, match)
    scheme, authority, key = match[1].lower(), match[2], match[3]
    root = _root(scheme, authority)
    if "?" in key or "#" in key:
        raise _with_query(f"{root}/{key}")
    return Place(root, _key(key, f"{root}/{key}"))


def root_of(url: str) -> str:
    """Returns the root of the store of a URL, perhaps the URL itself. Raises as `place_of`."""
    match = _URL.fullmatch(url if "/" in url.partition("://")[2] else f"{url}/")
    if match is None:
        if os.path.isabs(url):
            return LOCAL_ROOT
        raise InvalidUrl("This is no URL and no absolute path", key=url, hint=_HINT)
    scheme = match[1].lower()
    return LOCAL_ROOT if scheme == "file" else _root(scheme, match[2])


def place_below(url: str) -> Place | None:
    """Where objects of a store are, by `Store.object_url` of one of them; None where nothing else
    can reach it.
    """
    if os.path.isabs(url):
        return Place(LOCAL_ROOT, url.lstrip("/"))
    place = split(url)
    try:
        return Place(root_of(place.root), place.key)
    except InvalidUrl:
        return None


def split(url: str) -> Place:
    """A URL that `Place.url` gave, or a log names, as it is: nothing is looked up."""
    scheme, _, rest = url.partition("://")
    authority, _, key = rest.partition("/")
    return Place(f"{scheme}://{authority}", key)


def _with_query(url: str) -> InvalidPath:
    """Returns the error for a URL with a query or a fragment. Parameters may hold a signature, so
    they are not shown."""
    shown = _PARAMETERS.sub(r"\1***", url)
    return InvalidPath("A file's URL has no query and no fragment", key=shown, hint=_HINT)


def _root(scheme: str, authority: str) -> str:
    if scheme not in BACKENDS:
        hint = hint_of_scheme(scheme, _HINT)
        raise InvalidUrl(f"Files can't be stored at {scheme}://", key=f"{scheme}://", hint=hint)
    refuse_credentials(scheme, authority)
    if not authority:
        raise InvalidUrl("The URL names no bucket", key=f"{scheme}://", hint=_HINT)
    spelled = _SPELLINGS.get(scheme, scheme)
    if spelled == _AZURE and "@" in authority:
        spelled = "abfss"  # it names the account, and is what engines open
    return f"{spelled}://{authority}"


def _local(name: str, match: re.Match[str] | None) -> Place:
    path = name
    if match is not None:
        if match[2] not in ("", "localhost"):
            raise InvalidUrl("A file URL is file:///absolute/path", key=name, hint=_HINT)
        if "?" in match[3] or "#" in match[3]:
            raise _with_query(name)
        path = "/" + urllib.parse.unquote(match[3])
    if not os.path.isabs(path):
        raise InvalidPath("This is no absolute path, and no URL", key=name, hint=_HINT)
    _key(re.sub("/+", "/", path).lstrip("/"), name)  # before `..` is resolved
    return Place(LOCAL_ROOT, _key(os.path.realpath(path).lstrip("/"), name))


def _key(key: str, name: str) -> str:
    try:
        return check_key(key)
    except InvalidPath as error:
        raise InvalidPath(f"No file can be called so: {error.message}", key=name) from None


# --- The store of a catalog -----------------------------------------------------------------------


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
    """One catalog's store, and, for reading by URL, those of its external files.

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
                    raise InvalidUrl("Files can't be stored in a process's memory", key=root)
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
        return self._own.get_many(keys)

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        self._own.put(key, body, if_absent=if_absent)

    def spool(self) -> IO[bytes]:
        return self._own.spool()

    def put_file(self, key: str, spool: IO[bytes], *, if_absent: bool = False) -> None:
        self._own.put_file(key, spool, if_absent=if_absent)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        return self._own.list(prefix, after=after, first_page=first_page)

    def list_folders(self, prefix: str) -> Names:
        return self._own.list_folders(prefix)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        return self._own.delete(keys, ordered=ordered)

    def server_time(self) -> dt.datetime | None:
        return self._own.server_time()

    def local_path(self, key: str) -> str | None:
        """The path of an object on this machine's disk; None of an external one. See
        `Store.local_path`."""
        return None if is_url(key) else self._own.local_path(key)

    def above(self, levels: int) -> Store | None:
        return self._own.above(levels)
