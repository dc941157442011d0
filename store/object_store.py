"""What all remote backends have in common: one event loop, bounded retries, typed errors, hidden credentials.

A backend adds one coroutine per kind of request. The loop is fsspec's, so that one thread serves every store.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..errors import (
    InvalidUrl,
    LakelogError,
    MissingDependency,
    ObjectNotFound,
    StorageError,
    UsageError,
)
from .base import ObjectInfo, Store
from .keys import check_key, check_prefix, check_range
from .range_file import RangeFile
from .retry import RetryPolicy, retry
from .secret import SecretOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

T = TypeVar("T")
PARALLEL_REQUESTS = 32


@dataclass(frozen=True, slots=True)
class Backend:
    """One row of the table of remote backends.

    Attributes:
        name: As `Store.backend` gives it.
        scheme: The one to write in URLs.
        package: The fsspec file system's package.
        extra: What to install: `lakelog[<extra>]`.
        module: Where the store class is, in this package.
    """

    name: str
    scheme: str
    package: str
    extra: str
    module: str


_S3 = Backend("s3", "s3", "s3fs", "s3", "s3")
_GCS = Backend("gs", "gs", "gcsfs", "gcs", "gcs")
_AZURE = Backend("az", "az", "adlfs", "azure", "azure")
BACKENDS = {
    "s3": _S3,
    "s3a": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}


def open_object_store(backend: Backend, bucket: str, path: str, options: dict[str, Any]) -> Store:
    """Open a remote store.

    Args:
        backend: A row of `BACKENDS`.
        bucket: Bucket or container, as the URL has it.
        path: Prefix of every key, without slashes at its ends; may be empty.
        options: Keyword arguments of the fsspec file system.
    Raises:
        MissingDependency: The backend's package isn't installed.
    """
    try:
        importlib.import_module(backend.package)
    except ImportError as error:
        raise MissingDependency(
            f"{backend.scheme}:// needs the package {backend.package}",
            hint=f"pip install 'lakelog[{backend.extra}]'",
        ) from error
    module = importlib.import_module(f".{backend.module}", __package__)
    store: Store = module.open_backend(backend, bucket, path, options)
    return store


class ObjectStore(Store):
    """Objects of a bucket under a prefix, through an asynchronous fsspec file system.

    Args:
        backend: What kind of store.
        bucket: Bucket or container.
        path: Prefix of every key, or empty.
        options: Keyword arguments of the file system.
        policy: When to stop retrying.
    """

    not_found_is_bucket: ClassVar[bool] = False

    def __init__(
        self,
        backend: Backend,
        bucket: str,
        path: str,
        options: dict[str, Any],
        *,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.backend = backend.name
        self.url = f"{backend.scheme}://{bucket}/{path}".rstrip("/")
        self._bucket = bucket
        self._base = f"{path}/" if path else ""
        self._options = SecretOptions(options)
        self._policy = policy or RetryPolicy()
        self._made: tuple[int, Any] | None = None

    # --- what a backend adds: one request each, or a loop of `_request` over pages ---

    @abstractmethod
    def _make_filesystem(self, options: dict[str, Any]) -> Any:
        """Create the fsspec file system, without its caches and its retries."""

    @abstractmethod
    async def _put(self, key: str, body: bytes, if_absent: bool) -> None: ...

    @abstractmethod
    async def _get(self, key: str, start: int | None, end: int | None) -> bytes: ...

    @abstractmethod
    async def _list(self, prefix: str, after: str | None) -> list[ObjectInfo]: ...

    @abstractmethod
    async def _list_folders(self, prefix: str) -> set[str]: ...

    @abstractmethod
    async def _head(self, key: str) -> ObjectInfo: ...

    @abstractmethod
    async def _delete(self, key: str) -> None: ...

    @abstractmethod
    def _is_transient(self, error: Exception) -> bool:
        """Whether another attempt may succeed."""

    @abstractmethod
    def _translate(self, error: Exception, key: str) -> LakelogError:
        """The typed error for the client library's error."""

    async def _delete_many(self, keys: Sequence[str]) -> None:
        await self._in_parallel(self._delete, keys)

    # --- the interface ---

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> None:
        """Write an object; see `Store.put`."""
        self._run(check_key(key), self._put(key, bytes(body), if_absent))

    def get(self, key: str, *, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object or a range of it; see `Store.get`."""
        check_range(start, end)
        return self._run(check_key(key), self._get(key, start, end))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read whole objects, many at a time; see `Store.get_many`."""
        for key in keys:
            check_key(key)
        return self._run("", self._in_parallel(self._get_or_none, keys)) if keys else []

    def list(self, prefix: str, *, after: str | None = None) -> list[ObjectInfo]:
        """All objects below `prefix`; see `Store.list`."""
        found = self._run(check_prefix(prefix), self._list(prefix, after))
        # The server is trusted neither to start after `after`, nor to sort, nor to name each key once. Names that end
        # in `/` are what some tools put for a folder.
        kept = {
            info.key: info
            for info in found
            if info.key.startswith(prefix)
            and not info.key.endswith("/")
            and (after is None or info.key > after)
        }
        return [kept[key] for key in sorted(kept)]

    def list_folders(self, prefix: str) -> list[str]:
        """Names of the folders directly below `prefix`; see `Store.list_folders`."""
        return sorted(self._run(check_prefix(prefix), self._list_folders(prefix)) - {""})

    def head(self, key: str) -> ObjectInfo:
        """Size and time of one object; see `Store.head`."""
        return self._run(check_key(key), self._head(key))

    def delete(self, keys: Iterable[str], *, ordered: bool = True) -> None:
        """Delete objects; see `Store.delete`."""
        if ordered:
            for key in keys:
                self._run(check_key(key), self._delete(key))
            return
        unordered = [check_key(key) for key in dict.fromkeys(keys)]
        if unordered:
            self._run("", self._delete_many(unordered))

    def open_input(self, key: str, *, size_bytes: int | None = None) -> Any:
        """A file of ranged reads; see `Store.open_input`."""
        check_key(key)
        return RangeFile(self, key, self.head(key).size_bytes if size_bytes is None else size_bytes)

    def object_url(self, key: str) -> str:
        """The URL of one object, in the scheme's usual spelling."""
        return f"{self.url}/{check_key(key)}"

    # --- machinery ---

    @property
    def _filesystem(self) -> Any:
        # fsspec's loop doesn't survive a fork, so each process has a file system of its own.
        made = self._made
        if made is None or made[0] != os.getpid():
            options = {**self._options.reveal(), "use_listings_cache": False}
            for name in ("asynchronous", "loop", "skip_instance_cache"):
                options.pop(name, None)
            filesystem = self._make_filesystem({**options, "skip_instance_cache": True})
            made = self._made = (os.getpid(), filesystem)
        return made[1]

    def _run(self, key: str, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on fsspec's loop and give its errors our types."""
        from fsspec.asyn import sync

        async def wait() -> T:
            return await work

        try:
            result: T = sync(self._filesystem.loop, wait)
        except LakelogError:
            raise
        except Exception as error:
            self._raise(error, key)
        finally:
            work.close()
        return result

    def _raise(self, error: Exception, key: str) -> None:
        failure = self._typed(error, key)
        shows_secret = self._options.redact(repr(error)) != repr(error)
        raise failure from (None if shows_secret else error)

    def _typed(self, error: Exception, key: str) -> LakelogError:
        if isinstance(error, LakelogError):
            return error
        if isinstance(error, TypeError):  # raised by the client's constructor, at the first call
            failure: LakelogError = UsageError(
                f"the storage options don't fit the {self.backend} backend: {error}",
                key=self.url,
            )
        else:
            failure = self._translate(error, key or self.url)
        failure.message = self._options.redact(failure.message)
        failure.args = (failure.message,)
        return failure

    async def _request(self, operation: Callable[[], Awaitable[T]]) -> T:
        """One request, with retries."""
        return await retry(operation, self._is_transient, self._policy)

    async def _in_parallel(
        self, work: Callable[[str], Awaitable[T]], keys: Sequence[str]
    ) -> list[T]:
        gate = asyncio.Semaphore(PARALLEL_REQUESTS)

        async def one(key: str) -> T:
            async with gate:
                try:
                    return await work(key)
                except Exception as error:
                    # Named here, where the key is known.
                    self._raise(error, key)
                    raise

        return list(await asyncio.gather(*(one(key) for key in keys)))

    async def _get_or_none(self, key: str) -> bytes | None:
        try:
            return await self._get(key, None, None)
        except Exception as error:
            if isinstance(self._typed(error, key), ObjectNotFound):
                return None
            raise


def unavailable(error: Exception, url: str) -> StorageError:
    """The error for a store that doesn't answer at all."""
    return StorageError(
        f"the store doesn't answer: {type(error).__name__}: {error}",
        key=url,
        hint="check the endpoint, the network and the store's health, then repeat the call",
    )


def refuse_bucket(url: str, why: str) -> InvalidUrl:
    """The error for a bucket name that the client library refuses."""
    return InvalidUrl(f"not a bucket name: {why}", key=url)
