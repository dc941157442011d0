"""Files that lie elsewhere: base URLs that a log names, and the paths of files below them. Pure.

A file's path is then `at/<id>/<rest>`, where the id stands for a base URL, and base URL, `/` and
rest are the file's own URL.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from ...errors import CorruptObject
from .names import IN_PLACE, check_path, has_control

if TYPE_CHECKING:
    from collections.abc import Collection

FEATURE: Final = "locations"
MAX_LOCATIONS: Final = 256
MAX_LOCATION_BYTES: Final = 1_024
_HINT: Final = "Rebuild the log, or read an earlier point in time; other tables are sound"
_ID_CHARS: Final = 16
HEAD_CHARS: Final = len(IN_PLACE) + _ID_CHARS + 1  # of a path, before what is below the location
_LOCATION = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>(/[^/]+)*)")


def location_id(url: str) -> str:
    """How paths name a location: 16 hex digits."""
    return hashlib.sha256(f"lakelog location\n{url}".encode()).hexdigest()[:_ID_CHARS]


def location_problem(url: str) -> str:
    """Why a URL can't be a location; empty if it can."""
    match = _LOCATION.fullmatch(url)
    if match is None:
        return "is no absolute URL without a slash at its end"
    scheme, authority = match["scheme"], match["authority"]
    if len(url.encode()) > MAX_LOCATION_BYTES:
        return "is too long"
    if any(sign in url for sign in "?#\\") or has_control(url):
        return "holds a query, a fragment, a backslash or a control character"
    user, at, host = authority.rpartition("@")
    if at and (":" in user or not (user and host) or not scheme.startswith("abfs")):
        return "holds credentials"
    if (scheme == "file") != (not authority):
        return "names no place, or a file on another machine"
    if any(segment in (".", "..") for segment in match["path"].split("/")):
        return "has a dot segment"
    return ""


def is_in_place(path: str) -> bool:
    """Whether a path in a log names a file that lies elsewhere."""
    return path.startswith(IN_PLACE)


def path_at(location: str, rest: str) -> str:
    """The path of a file below a location.

    Raises:
        InvalidPath: No log may hold it.
    """
    return check_path(f"{IN_PLACE}{location_id(location)}/{rest}")


def rest_of(path: str) -> str:
    """What the path of a file that lies elsewhere says below its location."""
    return path[HEAD_CHARS:]


class Places:
    """The locations that a log names, by id.

    Args:
        locations: Their URLs.
        where: The log, for messages.
    """

    def __init__(self, locations: Collection[str], where: str) -> None:
        self._urls = {location_id(url): url for url in locations}
        self._where = where

    def url(self, path: str) -> str:
        """The URL of a file that lies elsewhere.

        Raises:
            CorruptObject: The log names no such location.
        """
        return f"{self.location(path)}/{rest_of(path)}"

    def location(self, path: str) -> str:
        """The base URL of a path.

        Raises:
            CorruptObject: The log names no such location.
        """
        found = self._urls.get(path[len(IN_PLACE) : HEAD_CHARS - 1])
        if found is None:
            raise CorruptObject(
                f"The log of {self._where} holds {path}, and doesn't say where that is",
                key=path,
                hint=_HINT,
            )
        return found
