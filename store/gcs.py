"""Google Cloud Storage, with gcsfs's login and session and our own requests of its JSON API.

gcsfs's own upload wraps body and name in one MIME message whose boundary is not checked against
the body, so a body that contains the boundary arrives cut; a plain media upload has no boundary.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import json
import urllib.parse
from typing import TYPE_CHECKING, Any

from . import answers
from .answers import Answer
from .base import ObjectInfo
from .object_store import ObjectStore, range_header

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECT_S = 4.0
_READ_S = 15.0
_FIELDS = "nextPageToken,prefixes,items(name,size,updated)"


class GcsRefusal(Exception):
    """An answer with an error status.

    Attributes:
        answer: What it says, in our words.
    """

    def __init__(self, answer: Answer, message: str) -> None:
        super().__init__(message)
        self.answer = answer


class GcsStore(ObjectStore):
    """Objects of a bucket of Google Cloud Storage."""

    backend = "gs"

    def _make_filesystem(self, options: dict[str, Any]) -> Any:
        # Of `core`: the package's own class asks each bucket first what kind it is.
        return importlib.import_module("gcsfs.core").GCSFileSystem(**options)

    async def _call(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        """One request of the JSON API, with retries; the answer's headers and body."""
        import aiohttp
        import yarl

        filesystem = self._filesystem
        query = urllib.parse.urlencode(
            filesystem._get_params(dict(parameters or {})), quote_via=urllib.parse.quote
        )
        # Encoded by us: otherwise the client would decode the `%2F` of a key to a `/`.
        url = yarl.URL(f"{filesystem._location}{path}?{query}", encoded=True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_READ_S)

        async def attempt() -> tuple[Mapping[str, str], bytes]:
            session = await filesystem._set_session()
            async with session.request(
                method,
                url,
                headers=filesystem._get_headers(dict(headers or {})),
                data=body,
                timeout=timeout,
            ) as response:
                content = await response.read()
                self._clock.saw(response.headers.get("Date"))
                if response.status >= 400:
                    raise _refusal(response.status, content)
                return response.headers, content

        return await self._request(attempt)

    @property
    def _objects(self) -> str:
        return f"/storage/v1/b/{_quoted(self._bucket)}/o"

    def _path(self, key: str) -> str:
        return f"{self._objects}/{_quoted(self._base + key)}"

    async def _endpoint(self) -> str:
        return str(self._filesystem._location)

    async def _put(self, key: str, body: bytes, if_absent: bool) -> None:
        parameters = {"uploadType": "media", "name": self._base + key}
        if if_absent:
            parameters["ifGenerationMatch"] = "0"
        headers = {"Content-Type": "application/octet-stream"}
        try:
            await self._call(
                "POST", f"/upload{self._objects}", parameters, headers=headers, body=body
            )
        except GcsRefusal as error:
            raise _about_bucket(error) from error

    async def _get(self, key: str, start: int | None, end: int | None) -> bytes:
        media = {"alt": "media"}
        if start is None and end is None:
            return (await self._call("GET", self._path(key), media))[1]
        ranged = {"Range": range_header(start, end)}
        try:
            headers, body = await self._call("GET", self._path(key), media, headers=ranged)
        except GcsRefusal as error:
            if not answers.is_bad_range(error.answer):
                raise
            return b"" if start is None or start >= 0 else await self._get(key, None, None)
        return body if "Content-Range" in headers else body[start:end]

    async def _page(
        self, prefix: str, after: str | None, token: str | None, keys: int | None
    ) -> tuple[list[ObjectInfo], str | None]:
        cut = len(self._base)
        parameters = {"prefix": self._base + prefix}
        if after is not None:
            parameters["startOffset"] = self._base + after
        if keys is not None:
            parameters["maxResults"] = str(keys)
        page, following = await self._list_page(token, parameters)
        found = [
            ObjectInfo(item["name"][cut:], int(item.get("size", 0)), _time(item.get("updated")))
            for item in page.get("items", ())
            if item["name"].startswith(self._base)
        ]
        return found, following

    async def _folders(self, full: str, token: str | None) -> tuple[list[str], str | None]:
        page, following = await self._list_page(token, {"prefix": full, "delimiter": "/"})
        return page.get("prefixes", []), following

    async def _list_page(
        self, token: str | None, parameters: Mapping[str, str]
    ) -> tuple[dict[str, Any], str | None]:
        """One page of a listing, and the token of the next."""
        follow = {} if token is None else {"pageToken": token}
        try:
            _, body = await self._call(
                "GET", self._objects, {**parameters, "fields": _FIELDS, **follow}
            )
        except GcsRefusal as error:
            raise _about_bucket(error) from error
        try:
            page: dict[str, Any] = json.loads(body)
        except ValueError:
            raise self._no_store() from None
        return page, page.get("nextPageToken") or None

    async def _head(self, key: str) -> ObjectInfo:
        _, body = await self._call("GET", self._path(key), {"fields": "name,size,updated"})
        item = json.loads(body)
        return ObjectInfo(key, int(item["size"]), _time(item.get("updated")))

    async def _remove(self, key: str) -> None:
        await self._call("DELETE", self._path(key))

    def _answer_of(self, error: BaseException) -> Answer | None:
        return error.answer if isinstance(error, GcsRefusal) else None


BackendStore = GcsStore


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _refusal(status: int, body: bytes) -> GcsRefusal:
    text = body[:500].decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = json.loads(body)["error"]["message"]
    missing = status == 404 and "bucket does not exist" in text
    return GcsRefusal(Answer("NoSuchBucket" if missing else str(status), status), text)


def _about_bucket(error: GcsRefusal) -> GcsRefusal:
    """The same refusal of a request that names no object: what is missing is the bucket."""
    if error.answer.status != 404:
        return error
    return GcsRefusal(Answer("NoSuchBucket", 404), str(error))


def _time(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text).astimezone(dt.UTC)
