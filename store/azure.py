"""Azure Blob Storage, with adlfs's login and our own calls of Azure's client.

adlfs's file functions cut a key at `?versionid=`, list through a cache and leave the client's ten
retries on.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import answers
from .answers import Answer
from .base import ONE_PUT_BYTES, ObjectInfo, in_utc
from .object_store import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Mapping

_STARTS_FROM = (12, 28)  # the client's version that can start a listing in the middle
_ONCE = {"retry_total": 0, "connection_timeout": 4, "read_timeout": 15}


class AzureStore(ObjectStore):
    """Objects of a container of Azure Blob Storage.

    An account with real folders lists a folder's content at the place of the folder's name.

    Args:
        bucket: The container, or `container@account.host`.
        url, path, options: As for `ObjectStore`.
    """

    backend = "az"
    one_put_bytes = ONE_PUT_BYTES  # larger bodies are sent in blocks
    order = "names"

    def __init__(self, url: str, bucket: str, path: str, options: Mapping[str, Any]) -> None:
        container, _, host = bucket.partition("@")
        account = {"account_name": host.partition(".")[0]} if host else {}
        super().__init__(url, container, path, {**account, **options})

    def _make_filesystem(self, options: dict[str, Any]) -> Any:
        filesystem = importlib.import_module("adlfs").AzureBlobFileSystem(**options)
        # adlfs passes no such option on; the client's own limit, above which it sends blocks and
        # joins them, is 64 MiB.
        filesystem.service_client._config.max_single_put_size = self.one_put_bytes
        return filesystem

    @property
    def _once(self) -> dict[str, Any]:
        """What every call of the client is given."""
        return {**_ONCE, "raw_response_hook": self._saw}

    def _saw(self, response: Any) -> None:
        self._clock.saw(response.http_response.headers.get("Date"))

    @property
    def _container(self) -> Any:
        return self._filesystem.service_client.get_container_client(self._bucket)

    def _blob(self, key: str) -> Any:
        return self._container.get_blob_client(self._base + key)

    async def _endpoint(self) -> str:
        return str(self._filesystem.service_client.primary_endpoint)

    async def _put(self, key: str, body: bytes, if_absent: bool) -> None:
        await self._request(
            lambda: self._blob(key).upload_blob(body, overwrite=not if_absent, **self._once)
        )

    async def _get(self, key: str, start: int | None, end: int | None) -> bytes:
        if start is not None and start < 0:  # Azure can't count from the end
            start = max(0, (await self._head(key)).size_bytes + start)
        first = start or 0
        length = None if end is None else end - first

        async def attempt() -> bytes:
            stream = await self._blob(key).download_blob(
                offset=first or (None if length is None else 0), length=length, **self._once
            )
            body: bytes = await stream.readall()
            return body

        try:
            return await self._request(attempt)
        except Exception as error:
            if not answers.is_bad_range(self._answer_of(error)):
                raise
            return b""  # the range starts behind the end

    async def _page(
        self, prefix: str, after: str | None, token: str | None, keys: int | None
    ) -> tuple[list[ObjectInfo], str | None]:
        cut = len(self._base)
        options: dict[str, Any] = {"include": ["metadata"], "results_per_page": keys}
        if after is not None and _client_version() >= _STARTS_FROM:
            options["start_from"] = self._base + after
        pager = self._container.list_blobs(self._base + prefix, **options, **self._once)
        blobs, following = await self._list_page(pager, token)
        found = [
            ObjectInfo(blob.name[cut:], blob.size, in_utc(blob.last_modified))
            for blob in blobs
            if blob.name.startswith(self._base) and not _is_folder(blob)
        ]
        return found, following

    async def _folders(self, full: str, token: str | None) -> tuple[list[str], str | None]:
        pager = self._container.walk_blobs(full, delimiter="/", **self._once)
        entries, following = await self._list_page(pager, token)
        return [entry.name for entry in entries if entry.name.endswith("/")], following

    async def _list_page(self, pager: Any, token: str | None) -> tuple[list[Any], str | None]:
        """One page of a listing, and the token of the next."""

        async def attempt() -> tuple[list[Any], str | None]:
            pages = pager.by_page(token)
            page = [entry async for entry in await anext(pages)]
            return page, pages.continuation_token or None

        return await self._request(attempt)

    async def _head(self, key: str) -> ObjectInfo:
        found = await self._request(lambda: self._blob(key).get_blob_properties(**self._once))
        return ObjectInfo(key, found.size, in_utc(found.last_modified))

    async def _remove(self, key: str) -> None:
        await self._request(lambda: self._blob(key).delete_blob(**self._once))

    def _answer_of(self, error: BaseException) -> Answer | None:
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return None
        code = getattr(error, "error_code", None)
        return Answer(str(getattr(code, "value", code) or status), status)


BackendStore = AzureStore


def _is_folder(blob: Any) -> bool:
    """Whether an account with real folders shows one as an empty object."""
    return bool((blob.metadata or {}).get("hdi_isfolder") == "true")


def _client_version() -> tuple[int, ...]:
    version: str = importlib.import_module("azure.storage.blob").__version__
    return tuple(int(part) for part in version.split(".")[:2])
