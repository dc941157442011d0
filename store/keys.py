"""The grammar of keys, checked before any backend sees one.

A key that a file system or a client library would resolve (`..`, a leading `/`, an empty segment)
could name an object of another writer or a file outside the root.
"""

from __future__ import annotations

import re

from ..errors import InvalidPath, UsageError

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


def check_list_prefix(prefix: str) -> str:
    """Return `prefix` if objects can be listed by it: as `check_prefix`, or the start of a name.

    Raises:
        InvalidPath: It has no `/` (then `a` would list `a-old/` too), or breaks the grammar of
            keys.
    """
    if not prefix or prefix.endswith("/"):
        return check_prefix(prefix)
    if "/" not in prefix:
        raise InvalidPath(
            "a listing prefix ends in '/', or has a '/' before the start of a name",
            key=ascii(prefix),
        )
    return check_key(prefix)


def check_first_page(keys: int) -> int:
    """Return `keys` if a page can hold so many at most.

    Raises:
        UsageError: It is less than 1.
    """
    if keys < 1:
        raise UsageError(f"a page holds at least 1 key, not {keys}")
    return keys


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
