"""Where a file lies that is named by a URL or an absolute path: the root of a store, and a key
below it. One file has one name: schemes are spelled alike, and links of a file system followed.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from typing import TYPE_CHECKING, Final, NamedTuple

from ..errors import InvalidPath, InvalidUrl
from .backends import BACKENDS
from .keys import check_key
from .open import refuse_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_ROOT: Final = "file://"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", re.DOTALL)
_SPELLINGS: Final[Mapping[str, str]] = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_AZURE: Final = "az"
_HINT: Final = "Name a file by its absolute path, or by a URL that begins with " + ", ".join(
    f"{scheme}://" for scheme in ("file", *BACKENDS)
)


class Place(NamedTuple):
    """Where an object lies.

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
    """Where a file lies.

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
        raise InvalidPath(
            "A file's URL has no query and no fragment", key=f"{root}/{key}", hint=_HINT
        )
    return Place(root, _key(key, f"{root}/{key}"))


def root_of(url: str) -> str:
    """The root of the store that a URL lies in, which may be the URL itself.

    Raises:
        InvalidUrl: As for `place_of`.
    """
    match = _URL.fullmatch(url if "/" in url.partition("://")[2] else f"{url}/")
    if match is None:
        if os.path.isabs(url):
            return LOCAL_ROOT
        raise InvalidUrl("This is no URL and no absolute path", key=url, hint=_HINT)
    scheme = match[1].lower()
    return LOCAL_ROOT if scheme == "file" else _root(scheme, match[2])


def place_below(url: str) -> Place | None:
    """Where objects of a store lie, by `Store.object_url` of one of them; None where nothing else
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


def _root(scheme: str, authority: str) -> str:
    if scheme not in BACKENDS:
        raise InvalidUrl(f"Files can't lie at {scheme}://", key=f"{scheme}://", hint=_HINT)
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
            raise InvalidPath("A file's URL has no query and no fragment", key=name, hint=_HINT)
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
