"""From a URL to a store."""

from __future__ import annotations

import os
import re
import urllib.parse
from typing import TYPE_CHECKING, Any

from ..errors import InvalidUrl
from .keys import check_key
from .local import LocalStore
from .memory import named_memory_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .base import Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_KNOWN = "a path, file://, memory://, s3://, s3a://, gs://, gcs://, az://, abfs://, abfss://"


def open_store(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Store:
    """Open the store at a URL. Nothing is read or written yet.

    Args:
        url: A path (`~` is expanded) or `file://`, `memory://name`, `s3://bucket/path` and the other known schemes.
        storage_options: What the backend's fsspec file system takes: credentials, endpoint.
    Raises:
        InvalidUrl: An unknown scheme, no bucket, credentials inside the URL, or a path with `..`.
        MissingDependency: The backend's package isn't installed.
    Requests: none.
    """
    text = os.fspath(url)
    match = _SCHEME.fullmatch(text)
    if match is None:
        return LocalStore(_local_path(text))
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return LocalStore(_file_url_path(rest))
    if scheme == "memory":
        return named_memory_store(rest.strip("/"))
    from .object_store import BACKENDS, open_object_store

    backend = BACKENDS.get(scheme)
    if backend is None:
        raise InvalidUrl(f"unknown scheme '{scheme}://'", hint=f"known are: {_KNOWN}")
    bucket, _, path = rest.partition("/")
    _refuse_credentials(scheme, bucket)
    path = path.strip("/")
    if not bucket:
        raise InvalidUrl(f"the URL names no bucket: {scheme}://<bucket>/<path>", key=text)
    if path:
        _check_path(path, text)
    return open_object_store(backend, bucket, path, dict(storage_options or {}))


def _local_path(text: str) -> str:
    if not text or "\x00" in text:
        raise InvalidUrl("the URL is empty or not a path", key=repr(text), hint=f"known are: {_KNOWN}")
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "file" and rest.startswith("/"):
        return _file_url_path(rest)
    if colon and rest.startswith("/") and f"{scheme.lower()}://" in _KNOWN:
        raise InvalidUrl("a URL has two slashes after its scheme", key=text, hint=f"write {scheme}:/{rest}")
    return os.path.expanduser(text)


def _file_url_path(rest: str) -> str:
    host, slash, path = rest.partition("/")
    if not slash or host not in {"", "localhost"}:
        raise InvalidUrl("a file URL is file:///absolute/path", key=f"file://{rest}")
    return "/" + urllib.parse.unquote(path)


def _check_path(path: str, url: str) -> None:
    from ..errors import InvalidPath

    try:
        check_key(path)
    except InvalidPath as error:
        raise InvalidUrl(f"the path of the URL is {error.message}", key=url) from None


def _refuse_credentials(scheme: str, authority: str) -> None:
    # abfss://container@account.host is that scheme's own form and holds no secret.
    user, at, _ = authority.rpartition("@")
    if at and (":" in user or not scheme.startswith("abfs")):
        # The URL itself isn't shown: it holds what must not reach a log.
        raise InvalidUrl(
            f"a {scheme}:// URL can't carry credentials",
            hint="pass them in storage_options, or use the environment or the backend's own configuration",
        )
