"""From a URL to a store."""

from __future__ import annotations

import importlib
import os
import re
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidPath, InvalidUrl, MissingDependency
from .base import check_key
from .local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .base import Store


class Backend(NamedTuple):
    """What is needed to open one kind of remote store. A new kind is a row of `BACKENDS` and a
    module.

    Attributes:
        package: The fsspec file system's package.
        module: The module of this package with a class `BackendStore(url, bucket, path, options)`,
            and what to install: `lakelog[<module>]`.
        scheme: The usual spelling of its URLs; None: as the caller wrote it.
    """

    package: str
    module: str
    scheme: str | None


_S3 = Backend("s3fs", "s3", "s3")
_GCS = Backend("gcsfs", "gcs", "gs")
_AZURE = Backend("adlfs", "azure", None)
BACKENDS = {
    "s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE,
}  # fmt: skip


def open_backend(scheme: str, bucket: str, path: str, options: Mapping[str, Any]) -> Store:
    """Open a remote store.

    Args:
        scheme: A key of `BACKENDS`.
        bucket: Bucket or container, as the URL has it.
        path: Prefix of every key, without slashes at its ends; may be empty.
        options: Keyword arguments of the fsspec file system.
    Raises:
        MissingDependency: The backend's package isn't installed.
    """
    backend = BACKENDS[scheme]
    try:
        importlib.import_module(backend.package)
    except ImportError as error:
        raise MissingDependency(
            f"{scheme}:// needs the package {backend.package}",
            hint=f"pip install 'lakelog[{backend.module}]'",
        ) from error
    module = importlib.import_module(f".{backend.module}", __package__)
    url = f"{backend.scheme or scheme}://{bucket}/{path}".rstrip("/")
    store: Store = module.BackendStore(url, bucket, path, nested(options))
    return store


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of which dotted names, as `client_kwargs.region_name`, are those of inner ones."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        outer, *inner = str(name).split(".")
        if not inner or not outer.endswith("_kwargs"):
            found[name] = value
            continue
        level = found
        for key in (outer, *inner[:-1]):
            level[key] = level = dict(level.get(key) or {})
        level[inner[-1]] = value
    return found


_SIGNED = re.compile(r"\?.*(?:signature|sig|credential|token)=", re.DOTALL | re.IGNORECASE)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES = ("file", "memory", *BACKENDS)
_HINT = f"a path works, or one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}"


def open_store(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Store:
    """Open the store at a URL. Nothing is read or written yet.

    Args:
        url: A path (`~` is expanded), `file://`, `memory://name`, `s3://bucket/path` and so on.
        storage_options: What the backend's fsspec file system takes: credentials, endpoint; an
            inner one also by a dotted name, as `client_kwargs.region_name`.
            Paths and `memory://` need none and look at none.
    Raises:
        InvalidUrl: An unknown scheme, no bucket, credentials inside the URL, a path with `..`.
        MissingDependency: The backend's package isn't installed.
    Requests: none.
    """
    text = _text(url)
    match = _URL.fullmatch(text)
    if match is None:
        return LocalStore(_local_path(text))
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return LocalStore(_file_url_path(rest))
    if scheme == "memory":
        from .memory import named_memory_store

        return named_memory_store(rest.strip("/"))
    if scheme not in BACKENDS:
        raise InvalidUrl(f"unknown scheme '{scheme}://'", hint=hint_of_scheme(scheme, _HINT))
    bucket, _, path = rest.partition("/")
    refuse_credentials(scheme, bucket)
    if not bucket:
        raise InvalidUrl("the URL names no bucket", key=text, hint=f"{scheme}://<bucket>/<path>")
    path = path.strip("/")
    if _SIGNED.search(path):
        raise InvalidUrl(
            "the URL is signed (a query with a signature), which opens one object alone",
            hint="Pass credentials as storage options, or configure them as the backend's tools do",
        )
    if path:
        try:
            check_key(path)
        except InvalidPath as error:
            raise InvalidUrl(f"in the URL's path: {error.message}", key=text) from None
    return open_backend(scheme, bucket, path, storage_options or {})


def _text(url: object) -> str:
    # bytes are a path to os.fspath, but no URL
    text = os.fspath(url) if isinstance(url, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise InvalidUrl(
            f"a value of type {type(url).__name__} is no URL",
            key=repr(url)[:60],
            hint=f"Give text or a pathlib.Path: {_HINT}",
        )
    return text


_FOREIGN = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]+):/(?!/)|[A-Za-z]:[\\/]|\\\\)")
_INSTEAD = {
    "dbfs": "on Databricks /dbfs/... is the same folder",
    "hdfs": "lakelog doesn't open HDFS; a folder where it is mounted works",
    "wasb": "write az://container/path, or abfss://container@account.dfs.core.windows.net/path",
    "s3n": "write s3://bucket/path",
    "oss": "write s3://bucket/path, with the endpoint_url of the store among the storage options",
}
_INSTEAD |= {"wasbs": _INSTEAD["wasb"], "adl": _INSTEAD["wasb"], "viewfs": _INSTEAD["hdfs"]}
_INSTEAD |= dict.fromkeys(("cos", "cosn", "obs", "bos", "tos", "ks3", "r2"), _INSTEAD["oss"])


def hint_of_scheme(scheme: str, otherwise: str) -> str:
    """What to write in the place of a URL of a scheme that nothing here opens."""
    return _INSTEAD.get(scheme, otherwise)


def refuse_foreign_path(text: str) -> None:
    """Raises `InvalidUrl` for what would be a folder of this machine by mistake: a URL with one
    slash, of another scheme than `file`, or a path of Windows."""
    match = _FOREIGN.match(text)
    if match is None or (scheme := (match[1] or "").lower()) == "file":
        return
    if not scheme:
        raise InvalidUrl(
            "this is a path of Windows, where lakelog doesn't run",
            key=text,
            hint="In WSL C:\\data is /mnt/c/data",
        )
    if scheme in _SCHEMES:
        hint = f"{scheme}:/{text[len(scheme) + 1 :]}"
        raise InvalidUrl("two slashes are missing after the scheme", key=text, hint=hint)
    raise InvalidUrl(
        f"unknown scheme '{scheme}:/'",
        key=text,
        hint=f"{hint_of_scheme(scheme, _HINT)}; a folder of that name is ./{text}",
    )


def _local_path(text: str) -> str:
    refuse_foreign_path(text)
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "file" and rest.startswith("/"):  # file:/path is a valid URL
        return _checked("/" + urllib.parse.unquote(rest).lstrip("/"))
    return _checked(os.path.expanduser(text))


def _file_url_path(rest: str) -> str:
    host, slash, path = rest.partition("/")
    if not slash or host not in {"", "localhost"}:
        raise InvalidUrl("a file URL is file:///absolute/path", key=f"file://{rest}")
    return _checked("/" + urllib.parse.unquote(path).lstrip("/"))


def _checked(path: str) -> str:
    if not path or "\0" in path:
        raise InvalidUrl("the URL is empty or not a path", key=ascii(path), hint=_HINT)
    return path


def refuse_credentials(scheme: str, authority: str) -> None:
    """Raises `InvalidUrl` for a bucket with a secret in it."""
    # abfss://container@account.host is that scheme's own form and holds no secret.
    user, at, _ = authority.rpartition("@")
    if at and (":" in user or not scheme.startswith("abfs")):
        # The URL isn't shown: it holds what must not reach a log.
        raise InvalidUrl(
            f"a {scheme}:// URL can't carry credentials",
            hint="pass them as storage options, or configure them as the backend's tools do",
        )
