"""What all remote backends share: one event loop, bounded retries, typed errors, hidden secrets.

A backend adds one coroutine per kind of request. The loop is fsspec's, so one thread serves every
store of the process.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import secrets
import time
from abc import abstractmethod
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeAlias, TypeVar

from ..errors import LakelogError, ObjectExists, ObjectNotFound, StorageError
from . import answers
from .base import (
    PAGE_KEYS,
    ServerClock,
    Store,
    check_key,
    check_listing,
    check_prefix,
    check_range,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from .answers import Answer
    from .base import Names, ObjectInfo

_SECRET_NAME = re.compile(
    r"key|secret|token|passw|credential|connection|sas|signature|auth", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"://[^/@:]*:([^/@]+)@")
_SHORTEST = 4  # blotting out a shorter value would leave nothing of a message
_BLOCK_SIZE_BYTES = 1 << 18
# What a store promises of its pages: the order of the keys' UTF-8 bytes; the same for the ASCII
# names in one folder only (it puts a folder's content at the place of the folder's name, or
# compares UTF-16); nothing.
Order: TypeAlias = Literal["bytes", "names", "none"]
T = TypeVar("T")
PARALLEL_REQUESTS = 32
_OURS = ("asynchronous", "loop", "skip_instance_cache", "use_listings_cache")


class ObjectStore(Store):
    """Objects of a bucket under a prefix, through an asynchronous fsspec file system.

    Args:
        url: As `Store.url` gives it.
        bucket: Bucket or container.
        path: Prefix of every key, or empty.
        options: Keyword arguments of the file system.

    Attributes:
        policy: When to stop retrying.
        order: What the store promises of its listings.
    """

    order: Order = "bytes"

    def __init__(self, url: str, bucket: str, path: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self._bucket = bucket
        self._base = f"{path}/" if path else ""
        self._options = SecretOptions(options)
        self.policy = RetryPolicy()
        self._clock = ServerClock()
        self._made: tuple[int, Any] | None = None

    # --- what a backend adds; each request goes through `_request` ---

    @abstractmethod
    def _make_filesystem(self, options: dict[str, Any]) -> Any:
        """Create the file system, with the client's own retries turned off."""

    @abstractmethod
    async def _put(self, key: str, body: bytes, if_absent: bool) -> None: ...

    @abstractmethod
    async def _get(self, key: str, start: int | None, end: int | None) -> bytes:
        """The range isn't empty."""

    @abstractmethod
    async def _page(
        self, prefix: str, after: str | None, token: str | None, keys: int | None
    ) -> tuple[list[ObjectInfo], str | None]:
        """One page of a listing and the token of the next; `list` filters and sorts.

        Args:
            prefix: At least what starts with it.
            after: At least what is greater.
            token: None for the first page.
            keys: At most so many; None: as many as the store likes.
        """

    @abstractmethod
    async def _folders(self, full: str, token: str | None) -> tuple[list[str], str | None]:
        """One page of the prefixes that end with the first `/` behind `full`, and the token of the
        next page.
        """

    @abstractmethod
    async def _head(self, key: str) -> ObjectInfo: ...

    @abstractmethod
    async def _remove(self, key: str) -> None:
        """Delete an object; an error if the store says that there is none."""

    @abstractmethod
    def _answer_of(self, error: BaseException) -> Answer | None:
        """The store's answer in a client's error; None if there is none."""

    @abstractmethod
    async def _endpoint(self) -> str:
        """Where the requests go, as the client knows it."""

    async def _delete(self, key: str) -> None:
        try:
            await self._remove(key)
        except Exception as error:
            if not answers.is_absent(self._answer_of(error)):
                raise

    async def _delete_unordered(self, keys: Sequence[str]) -> None:
        await self._for_each(self._delete, keys)

    # --- the interface ---

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        try:
            self._run(check_key(key), self._put, key, bytes(body), if_absent)
        except ObjectExists:
            raise
        except LakelogError as error:
            if not getattr(error, REPEATED, False):
                raise
            # Refused now; but an attempt before, whose answer was lost, may have taken effect.
            raise StorageError(
                f"{error.message}; an attempt before got no answer", key=key, hint=error.hint
            ) from error

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object or a range of it; see `Store.get`."""
        check_range(start, end)
        if end is not None and end <= (start or 0):
            self.head(key)  # HTTP has no empty range
            return b""
        return self._run(check_key(key), self._get, key, start, end)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole objects, many at a time; see `Store.get_many`."""
        for key in keys:
            check_key(key)
        if not keys:
            return []
        return self._run(keys[0], self._for_each, self._get_or_none, keys)

    def list_folders(self, prefix: str) -> Names:
        return sorted(self._run(check_prefix(prefix), self._list_folders, prefix) - {""})

    def head(self, key: str) -> ObjectInfo:
        return self._run(check_key(key), self._head, key)

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> None:
        """Delete objects; see `Store.delete`."""
        if ordered:
            for key in keys:
                self._run(check_key(key), self._delete, key)
            return
        unordered = [check_key(key) for key in dict.fromkeys(keys)]
        if unordered:
            self._run(unordered[0], self._delete_unordered, unordered)

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """A file of ranged reads; see `Store.open_input`."""
        if size_bytes is None:
            size_bytes = self.head(key).size_bytes
        return RangeFile(self, check_key(key), size_bytes)

    def object_url(self, key: str) -> str:
        """The URL of one object."""
        return f"{self.url}/{check_key(key)}"

    def identity(self) -> str:
        """The bucket, at the endpoint that the client uses; see `Store.identity`."""
        endpoint = self._options.redact(self._run(self.url, self._endpoint))
        return f"{self.backend}://{self._bucket} at {endpoint}"

    def server_time(self) -> dt.datetime | None:
        """By the `Date` of the newest answer; see `Store.server_time`."""
        return self._clock.now()

    def above(self, levels: int) -> Self | None:
        """The store of a prefix above this one, with the same client; see `Store.above`."""
        parts = self._base.split("/")[:-1]
        if levels > len(parts):
            return None
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        found.url = self.url.rsplit("/", levels)[0]
        found.probed = None
        found._base = "".join(f"{part}/" for part in parts[:-levels])
        return found

    # --- machinery ---

    @property
    def _filesystem(self) -> Any:
        # fsspec's loop doesn't survive a fork, so each process has a file system of its own.
        made = self._made
        if made is None or made[0] != os.getpid():
            options = {k: v for k, v in self._options.reveal().items() if k not in _OURS}
            # The listing cache would hide what other processes wrote; the instance cache would
            # keep the credentials alive after this store.
            options |= {"use_listings_cache": False, "skip_instance_cache": True}
            made = self._made = (os.getpid(), self._make_filesystem(options))
        return made[1]

    def _run(self, key: str, work: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine on fsspec's loop and give its errors our types."""
        from fsspec.asyn import sync

        try:
            result: T = sync(self._filesystem.loop, work, *args)
        except Exception as error:
            self._raise(error, key)
        return result

    def _raise(self, error: Exception, key: str) -> NoReturn:
        failure = self._typed(error, key)
        if failure is error:
            raise failure
        # The client's error explains more, unless it shows what must not be seen.
        text = repr(error)
        raise failure from (error if self._options.redact(text) == text else None)

    def _typed(self, error: Exception, key: str) -> LakelogError:
        if isinstance(error, LakelogError):
            return error
        if isinstance(error, (TypeError, ValueError)) and self._answer_of(error) is None:
            failure: LakelogError = answers.options_refused(error, self.backend, self.url)
        elif (answer := self._answer_of(error)) is not None:
            failure = answers.translate(answer, str(error), key or self.url, self.url)
        else:
            failure = answers.translate_client_error(error, key or self.url, self.url)
        if hasattr(error, REPEATED):
            setattr(failure, REPEATED, True)
        failure.message = self._options.redact(failure.message)
        failure.args = (failure.message,)
        return failure

    async def _request(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Make one request, with retries."""
        return await retry(operation, self._is_transient, self.policy)

    def _is_transient(self, error: Exception) -> bool:
        answer = self._answer_of(error)
        return answers.is_no_answer(error) if answer is None else answers.is_later(answer)

    def _no_store(self) -> StorageError:
        """The error for an answer that no store gives."""
        return StorageError(
            f"what answers here is no {self.backend} store", key=self.url, hint="check the endpoint"
        )

    async def _for_each(self, work: Callable[[str], Awaitable[T]], keys: Sequence[str]) -> list[T]:
        """Run `work` for every key, many at a time; an error tells which key it is about."""

        async def named(key: str) -> T:
            try:
                return await work(key)
            except Exception as error:
                self._raise(error, key)

        return await in_parallel(named, keys, PARALLEL_REQUESTS)

    async def _get_or_none(self, key: str) -> bytes | None:
        try:
            return await self._get(key, None, None)
        except Exception as error:
            if isinstance(self._typed(error, key), ObjectNotFound):
                return None
            raise

    def _pages(
        self, prefix: str, after: str | None, first_page: int
    ) -> Iterator[Sequence[ObjectInfo]]:
        token: str | None = None
        keys = first_page if first_page < PAGE_KEYS else None
        while True:
            page, following = self._run(prefix, self._page, prefix, after, token, keys)
            yield page
            if following is None:
                return
            if following == token:
                raise self._stuck()
            token, keys = following, None

    async def _list_folders(self, prefix: str) -> set[str]:
        full = self._base + prefix
        folders: set[str] = set()
        token: str | None = None
        while True:
            names, following = await self._folders(full, token)
            folders.update(name[len(full) : -1] for name in names if name.startswith(full))
            if following is None:
                return folders
            if following == token:
                raise self._stuck()
            token = following

    def _stuck(self) -> StorageError:
        """The error for a page that says that more follows, and not where."""
        return StorageError("the store cuts a listing and can't go on", key=self.url)

    def list(
        self, prefix: str, *, after: str | None = None, first_page: int = PAGE_KEYS
    ) -> Iterator[ObjectInfo]:
        """All objects below `prefix`, page by page; see `Store.list`."""
        pages = self._pages(check_listing(prefix, first_page), after, first_page)
        return in_order(pages, prefix, after, self.order, self.url)


# --- Pages ----------------------------------------------------------------------------------------
#
# No server is trusted to start where it should, to list each key once, or to keep the order.
# A page is sorted here. That pages follow one another in order is checked, because what was handed
# out can't be taken back.


def in_order(
    pages: Iterator[Sequence[ObjectInfo]], prefix: str, after: str | None, order: Order, url: str
) -> Iterator[ObjectInfo]:
    """Objects whose key starts with `prefix` and is greater than `after`, sorted, each once.

    Args:
        pages: Fetches a page each time it is asked.
        order: What the store promises.
    Raises:
        StorageError: A page goes back behind what was handed out already.
    """
    last: str | None = None
    for batch in _batches(pages, prefix, order):
        for info in sorted(batch, key=attrgetter("key")):
            key = info.key
            # Names that end in `/` are what some tools put for a folder.
            if not key.startswith(prefix) or key.endswith("/") or key == last:
                continue
            if after is not None and key <= after:
                continue
            if last is not None and key < last:
                raise StorageError(
                    f"the store lists its objects out of order: this one came after {last}",
                    key=key,
                    hint=f"{url} can't hold a catalog unless it lists by name, as S3 does",
                )
            last = key
            yield info


def _batches(
    pages: Iterator[Sequence[ObjectInfo]], prefix: str, order: Order
) -> Iterator[Sequence[ObjectInfo]]:
    """Pages to be handed out one by one, and all together from where the order isn't promised.

    Up to there a store of order "names" gave ASCII names of one folder. Whatever follows them in
    its order is greater as bytes too: it differs from each at an ASCII letter, or continues it.
    """
    for page in pages:
        if order == "bytes" or (order == "names" and _of_one_folder(page, prefix)):
            yield page
        else:
            yield [*page, *chain.from_iterable(pages)]


def _of_one_folder(page: Sequence[ObjectInfo], prefix: str) -> bool:
    cut = len(prefix)
    return all("/" not in info.key[cut:] and info.key[cut:].isascii() for info in page)


# --- Ranges ---------------------------------------------------------------------------------------


def range_header(start: int | None, end: int | None) -> str:
    """The HTTP header `Range` of a range that isn't empty."""
    if start is not None and start < 0:
        return f"bytes={start}"
    return f"bytes={start or 0}-{'' if end is None else end - 1}"


class RangeFile(io.RawIOBase):
    """Seekable reading of one object, through `Store.get`.

    Parquet readers seek to the footer and then to column chunks, so nothing is read ahead beyond
    one block: a small read fetches the block around it, a large one exactly itself. An object no
    larger than a block comes whole. Like any file, one object is for one thread at a time.

    Args:
        size_bytes: The exact size of the object.
    Requests: 1 GET per read that the last block doesn't answer.
    """

    def __init__(self, store: Store, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._position = 0
        self._block = b""
        self._block_start = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """The size of the object in bytes."""
        return self._size_bytes

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position; no request."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}
        position = bases[whence] + offset
        if position < 0:
            raise ValueError(f"seek before the start of the object: {position}")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """The next `size` bytes, or all that is left; less only at the end."""
        if self.closed:
            raise ValueError("read of a closed file")
        end = self._size_bytes
        if size is not None and size >= 0:
            end = min(end, self._position + size)
        start = self._position
        if start >= end:
            return b""
        body = self._fetch(start, end)
        self._position = start + len(body)
        return body

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; returns how many bytes."""
        body = self.read(len(buffer))
        buffer[: len(body)] = body
        return len(body)

    def _fetch(self, start: int, end: int) -> bytes:
        held_end = self._block_start + len(self._block)
        if self._block_start <= start and end <= held_end:
            return self._block[start - self._block_start : end - self._block_start]
        if end - start >= _BLOCK_SIZE_BYTES:
            return self._store.get(self._key, start=start, end=end)
        first = 0 if self._size_bytes <= _BLOCK_SIZE_BYTES else start
        if start >= self._size_bytes - _BLOCK_SIZE_BYTES:
            # A read near the end is a footer: readers come back for the part before it.
            first = max(0, self._size_bytes - _BLOCK_SIZE_BYTES)
        last = min(first + _BLOCK_SIZE_BYTES, self._size_bytes)
        self._block = self._store.get(self._key, start=first, end=last)
        self._block_start = first
        return self._block[start - first : end - first]


# --- Secrets --------------------------------------------------------------------------------------


class SecretOptions:
    """Holds storage options; neither `repr`, `str`, `vars` nor pickle shows them.

    Args:
        options: As the caller gave them; copied.
    """

    __slots__ = ("_hidden",)

    def __init__(self, options: Mapping[str, Any]) -> None:
        copy = dict(options)
        # In a closure: an attribute would show in `vars` and in debuggers' dumps.
        self._hidden: Callable[[], dict[str, Any]] = lambda: copy

    def reveal(self) -> dict[str, Any]:
        """The options, for the client library alone; a new dict each time."""
        return dict(self._hidden())

    def redact(self, text: str) -> str:
        """`text` with every secret among the options replaced by `***`."""
        secrets = set(_secrets(self._hidden(), inside=False))
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return "SecretOptions(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("storage options can't be pickled: they may hold credentials")


def _secrets(value: Any, *, inside: bool) -> Iterator[str]:
    """Every text under a name that sounds like a secret, at any depth; passwords in URLs."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, inside=inside or bool(_SECRET_NAME.search(str(name))))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _secrets(inner, inside=inside)
    elif isinstance(value, str):
        found = [value] if inside else _URL_PASSWORD.findall(value)
        yield from (secret for secret in found if len(secret) >= _SHORTEST)


# --- Retries --------------------------------------------------------------------------------------

_random = secrets.SystemRandom()
REPEATED = "_lakelog_repeated"  # set on an error that ended a second or later attempt


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to insist.

    Attributes:
        attempts: At most so many, the first one included; at least 1.
        first_wait_s: The upper bound of the first wait; it doubles each time.
        longest_wait_s: The bound never grows beyond.
        budget_s: After this time since the start no attempt follows a failed one, except that the
            first failure always gets its one retry.
    """

    attempts: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 2.0
    budget_s: float = 10.0


async def retry(
    operation: Callable[[], Awaitable[T]],
    is_transient: Callable[[Exception], bool],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock_s: Callable[[], float] = time.monotonic,
) -> T:
    """Run `operation` until it succeeds, fails for good, or the policy says stop.

    Args:
        operation: Makes one attempt each time it is called.
        is_transient: Whether an error is worth another attempt.
        policy: When to stop.
        sleep: Injected in tests.
        clock_s: A monotonic clock; injected in tests.
    Raises:
        Exception: The error of the last attempt, as it was.
    """
    start_s = clock_s()
    attempt = 1
    while True:
        try:
            return await operation()
        except Exception as error:
            late = attempt > 1 and clock_s() - start_s >= policy.budget_s
            if attempt > 1:
                setattr(error, REPEATED, True)
            if attempt >= policy.attempts or late or not is_transient(error):
                raise
        bound_s = min(policy.first_wait_s * 2 ** (attempt - 1), policy.longest_wait_s)
        await sleep(_random.uniform(0, bound_s))
        attempt += 1


# --- Many requests at a time ----------------------------------------------------------------------

U = TypeVar("U")


async def in_parallel(work: Callable[[U], Awaitable[T]], items: Iterable[U], limit: int) -> list[T]:
    """Run `work` on every item, at most `limit` at a time.

    Returns:
        The results, in the order of `items`.
    Raises:
        Exception: The first failure; what still runs is cancelled and waited for.
    """
    gate = asyncio.Semaphore(limit)

    async def one(item: U) -> T:
        async with gate:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
