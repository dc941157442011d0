"""The store boundary: all that lakelog asks of a place to keep objects.

Keys are relative to the root, `/`-separated, without a leading `/`. Every method is safe to call
from many threads. Errors are of `lakelog.errors`: `ObjectNotFound`, `ObjectExists`,
`BucketNotFound`, `AccessDenied`, `StorageError`; `InvalidPath` for a key outside the grammar.
"""

from __future__ import annotations

import datetime as dt
import re
import tempfile
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeAlias

from ..errors import InvalidPath, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Inside a class with a method `list`, type checkers no longer take `list[...]` for the built-in.
Names: TypeAlias = list[str]
Keys: TypeAlias = frozenset[str]
ONE_PUT_BYTES = (1 << 30) + (64 << 20)  # more than any object of a log has
PAGE_KEYS = 1000  # of a page of a listing, unless the caller asks for a smaller first one


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object of a listing.

    Attributes:
        key: Relative to the root.
        size_bytes: Exact.
        modified_at: By the store's own clock, UTC; None where the store doesn't say.
    """

    key: str
    size_bytes: int
    modified_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a probe found the store to do.

    Attributes:
        backend: Name of the backend, as `doctor` shows it.
        put_if_absent: True: of several that put one name at once, if absent, one was seen to win,
            and what it wrote to stay.
        detail: What the probe saw, in words.
    """

    backend: str
    put_if_absent: bool
    detail: str


class Store(ABC):
    """Objects under one root.

    Attributes:
        url: Where the root is, as a user would write it: no secrets, no trailing `/`.
        backend: Short name: `memory`, `file`, `s3`, `gs`, `az`.
        probed: What `probe` found on this store object; None before.
        folds: What names may differ in and be one object, in words, as `probe_names` found on this
            store object; empty for nothing; None before.
        racers: How many threads `probe` lets race for one name.
        raced_names: For how many names. Where one lock takes all puts in turn, that of a kernel or
            of this process, two racers for one name show all there is.
    """

    url: str
    backend: str
    racers: int = 8
    raced_names: int = 4
    probed: Capabilities | None = None
    folds: Names | None = None

    @abstractmethod
    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write an object as a whole; when this returns it is durable and every later read sees it.

        A crash leaves the old object or the new one, never a part. With `if_absent` exactly one
        of any number of concurrent callers succeeds (where `probe` says so).

        Raises:
            ObjectExists: With `if_absent`, the key is taken. This can be one's own write, whose
                answer was lost.
            CapabilityMissing: The store refuses `if_absent` as such; nothing was written.
            StorageError: The outcome is unknown: the body may have been written.
        Requests: 1 PUT. A body of more than `ONE_PUT_BYTES`, which no object of a log has, may go
            in parts (one request each and 2 more), but on S3 never with `if_absent`: some servers
            check the condition on a PUT and not on the request that joins the parts.
        """

    def spool(self) -> IO[bytes]:
        """A new file on this machine, in which the bytes of a large object are collected for
        `put_file`. It is gone once nobody holds it.

        Raises:
            OSError: There is no room for it.
        Requests: none.
        """
        return tempfile.TemporaryFile()

    def put_file(self, key: str, spool: IO[bytes], *, if_absent: bool = False) -> None:
        """Write an object that holds all bytes of a file of `spool`: see `put`. On a disk none of
        them is in memory, and none is copied."""
        spool.seek(0)
        self.put(key, spool.read(), if_absent=if_absent)

    @abstractmethod
    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object, or its bytes `start` (inclusive) to `end` (exclusive) as far as it goes.

        Args:
            start: Negative: this many bytes from the end (then without `end`).
            end: Not negative.
        Raises:
            ObjectNotFound: The key is not there.
            UsageError: Not such a range.
        Requests: 1 GET.
        """

    @abstractmethod
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole objects in parallel, in the order of `keys`; None for one that is not there.

        Requests: 1 GET a key.
        """

    @abstractmethod
    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """All objects at any depth whose key starts with `prefix`, fetched as they are consumed.

        Nothing is asked before the first object is wanted, and no page before the one it is on.
        Whoever stops early asks for nothing more; there is nothing to close. Not one moment in
        time: what comes and goes meanwhile may be shown or not.

        Args:
            prefix: Empty; or ends in `/`; or a folder, `/` and the start of a name in it.
            after: Only keys greater than this one (a full key). Never trusted to the server alone.
            first_page: At most so many keys in the first page; a short one is answered sooner.
        Returns:
            Sorted by key as UTF-8 bytes, without duplicates. Empty if nothing is there.
        Raises:
            StorageError: While iterating: a page can't be read, or the store's pages are not in
                order.
            UsageError: At once: `first_page` is less than 1.
        Requests: 1 LIST per page that is reached (1,000 keys on S3). A store that doesn't promise
            this order is asked for all pages before the first object of such a page is shown:
            Azure at any depth, S3 Express.
        """

    @abstractmethod
    def list_folders(self, prefix: str) -> Names:
        """Names of the folders directly below `prefix`, sorted, without `/`.

        Args:
            prefix: Ends in `/`, or is empty.
        Requests: 1 LIST per page.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Returns size and time of one object. Raises `ObjectNotFound`.

        Requests: 1 HEAD.
        """

    @abstractmethod
    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> Keys | None:
        """Delete objects; one that is not there already is no error.

        Args:
            ordered: One after the other in the order given, so that a failure leaves a tail of
                `keys`. False: in batches or in parallel where the backend can: much faster.
        Returns:
            Keys that were gone before; None where the store doesn't say, as most don't.
        Requests: 1 DELETE a key; unordered 1 per batch where the backend can (1,000 keys on S3).
        """

    @abstractmethod
    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """A seekable binary file for reading one object piece by piece, for pyarrow.parquet.

        Args:
            size_bytes: The exact size if known: saves a HEAD.
        Raises:
            ObjectNotFound: The key is not there (perhaps only at the first read).
        """

    @abstractmethod
    def object_url(self, key: str) -> str:
        """The URL of one object, as another engine would open it."""

    def local_path(self, key: str) -> str | None:
        """Where an object is a file on this machine, for engines that read such files themselves.

        Returns:
            None: nowhere, or it isn't to be read past this store.
        Requests: none.
        """
        del key
        return None

    def identity(self) -> str:
        """What tells this store from every other: what was found out here is believed where this is
        the same. Holds no secrets.

        Requests: none.
        """
        return self.url

    def server_time(self) -> dt.datetime | None:
        """What the store's own clock shows now; None if no answer has had a time yet.

        The time that the newest answer carried (to a second on remote stores), and what went by
        since on this machine's steady clock.

        Requests: none.
        """
        return None

    def above(self, levels: int) -> Store | None:
        """The store whose root is so many folders above this one's, by the same credentials.

        Returns:
            None if there is no such place, or if this backend has none.
        Requests: none.
        """
        del levels
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> NoReturn:
        # Credentials would travel in the pickle. Who needs the store elsewhere passes its URL and
        # options openly.
        raise TypeError("a store can't be pickled: pass its URL and options and open it there")


# --- The store's own clock ------------------------------------------------------------------------

# BOOTTIME goes on while a laptop or a virtual machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ServerClock:
    """The time that the newest answer carried, and when it came; safe to use from many threads."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        # One tuple, so that no thread sees half of it.
        self._seen: tuple[str | float, float] | None = None

    def saw(self, shown: str | float | None) -> None:
        """Keep the time of an answer that has just come.

        Args:
            shown: The `Date` header of the answer; or seconds since 1970; None: it has none.
        """
        if shown is not None:
            self._seen = (shown, time.clock_gettime(_STEADY))

    def now(self) -> dt.datetime | None:
        """What the store's clock shows now; None if no answer had a readable time."""
        seen = self._seen
        if seen is None:
            return None
        shown, seen_s = seen
        try:
            if isinstance(shown, str):  # parsed here: thousands of answers come for one question
                from email.utils import parsedate_to_datetime  # it imports sockets: 30 ms

                at = parsedate_to_datetime(shown)
            else:
                at = dt.datetime.fromtimestamp(shown, dt.UTC)
        except ValueError:
            return None
        return at.astimezone(dt.UTC) + dt.timedelta(seconds=time.clock_gettime(_STEADY) - seen_s)


def in_utc(time: dt.datetime | None) -> dt.datetime | None:
    """A time of a listing in UTC; None if it has none."""
    return None if time is None else time.astimezone(dt.UTC)


# --- The grammar of keys --------------------------------------------------------------------------
#
# Checked before any backend sees a key. One that a file system or a client library would resolve
# (`..`, a leading `/`, an empty segment) could name an object of another writer or a file outside
# the root.


# An empty segment, `.` or `..`; NUL, which ends a path in C.
_BAD = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|\x00")


def check_key(key: str) -> str:
    """Return `key` if it can name an object.

    Raises:
        InvalidPath: An empty, `.` or `..` segment, a leading or trailing `/`, NUL, or text that
            has no UTF-8 form.
    """
    if _BAD.search(key) or not is_utf8(key):
        raise InvalidPath(
            "not a valid key: no segment is empty, '.' or '..', and the text is UTF-8",
            key=ascii(key),
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it can start a listing: empty, or a valid key and a `/`.

    Raises:
        InvalidPath: It doesn't end in `/` (then `a` would list `a-old/` too), or breaks the
            grammar of keys.
    """
    if not prefix:
        return prefix
    if not prefix.endswith("/"):
        raise InvalidPath("a listing prefix ends in '/'", key=ascii(prefix))
    check_key(prefix[:-1])
    return prefix


def check_listing(prefix: str, first_page: int) -> str:
    """Return `prefix` if objects can be listed by it: as `check_prefix`, or the start of a name.

    Raises:
        UsageError: No page has so few keys.
        InvalidPath: It has no `/` (then `a` would list `a-old/` too), or breaks the grammar of
            keys.
    """
    if first_page < 1:
        raise UsageError(f"a page holds at least 1 key, not {first_page}")
    if not prefix or prefix.endswith("/"):
        return check_prefix(prefix)
    if "/" not in prefix:
        raise InvalidPath(
            "a listing prefix ends in '/', or has a '/' before the start of a name",
            key=ascii(prefix),
        )
    return check_key(prefix)


def check_range(start: int | None, end: int | None) -> None:
    """Refuse the ranges that no store serves in one request.

    Raises:
        UsageError: `end` is negative, or comes with a negative `start`.
    """
    if end is not None and (end < 0 or (start is not None and start < 0)):
        raise UsageError(f"not a byte range: start={start}, end={end}")


def is_utf8(text: str) -> bool:
    """Whether the text has a UTF-8 form: not so for undecodable file names."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
