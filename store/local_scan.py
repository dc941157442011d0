"""Listing the files of the local store in the order of their keys, no further than is wanted.

A folder is read as a whole, since file systems keep names in no order. Sizes and times are looked
up a page at a time: of a million names that a caller stops in, the rest costs no look-up. No file
is open between two pages, so that an iterator left alone holds nothing.
"""

from __future__ import annotations

import datetime as dt
import os
import stat
from typing import TYPE_CHECKING

from . import local_files as files
from .base import PAGE_KEYS, ObjectInfo
from .keys import is_utf8
from .local_files import FOLDER, entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def scan(
    base: str, prefix: str, after: str | None, first_page: int, *, hidden: str
) -> Iterator[ObjectInfo]:
    """All regular files whose key starts with `prefix` and is greater than `after`, by key.

    Symbolic links are left out, and so are names that have no UTF-8 form. A folder that vanishes
    meanwhile is no error.

    Args:
        base: Path of the root, with a trailing `/`.
        prefix: A key prefix.
        after: A key, or None.
        first_page: How many files of a folder are looked up at first.
        hidden: Name of a folder in the root to leave out.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    names = _names(base, folder, prefix[len(folder) :], after, hidden)
    pending = [_walk(base, folder, names, first_page)]
    while pending:  # a list of generators: folders nest deeper than Python's calls may
        step = next(pending[-1], None)
        if step is None:
            pending.pop()
        elif isinstance(step, str):
            names = _names(base, step, "", after, hidden)
            pending.append(_walk(base, step, names, first_page))
        else:
            yield step


def _names(base: str, folder: str, start: str, after: str | None, hidden: str) -> list[str]:
    """Names in a folder that may lead to an object, those of folders with `/`, in order of keys."""
    found = []
    for entry in entries(base + folder):
        name = entry.name
        if not name.startswith(start) or not (name.isascii() or is_utf8(name)):
            continue
        if entry.is_file(follow_symlinks=False):
            if after is None or folder + name > after:
                found.append(name)
        elif entry.is_dir(follow_symlinks=False) and folder + name != hidden:
            name += "/"
            if after is None or not _all_before(folder + name, after):
                found.append(name)
    # With its `/` a folder's name is where its keys are. The order of code points is the order of
    # the UTF-8 bytes.
    found.sort()
    return found


def _walk(
    base: str, folder: str, names: Sequence[str], first_page: int
) -> Iterator[ObjectInfo | str]:
    """The files and folders of a folder, in order: the files looked up, the folders as keys."""
    start, end = 0, first_page
    while start < len(names):
        page = names[start:end]
        found = _look_up(base, folder, page)
        for name in page:
            if name.endswith("/"):
                yield folder + name
            elif name in found:
                yield found[name]
        start, end = end, end + PAGE_KEYS


def _look_up(base: str, folder: str, names: Sequence[str]) -> dict[str, ObjectInfo]:
    """Sizes and times of the files among `names` that are still there."""
    found: dict[str, ObjectInfo] = {}
    time_of, utc, status_of = dt.datetime.fromtimestamp, dt.UTC, os.stat
    arrived_s = files.arrived_s
    try:
        descriptor = os.open(base + folder, FOLDER | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return found
    try:
        for name in names:
            if name.endswith("/"):
                continue
            try:
                # By descriptor: needs no walk from the root of the file system.
                status = status_of(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                time = time_of(arrived_s(status), utc)
                found[name] = ObjectInfo(folder + name, status.st_size, time)
    finally:
        os.close(descriptor)
    return found


def _all_before(folder: str, after: str) -> bool:
    """Whether no key that starts with `folder` can be greater than `after`."""
    return folder <= after and not after.startswith(folder)
