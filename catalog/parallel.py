"""Doing one thing to many items at a time, with plain threads.

Requests wait on the network, and hashing, decompressing and Arrow's own work release the
interpreter's lock: for both, threads are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

AT_ONCE: Final = 16
_T = TypeVar("_T")
_R = TypeVar("_R")


def parallel(
    function: Callable[[_T], _R], items: Iterable[_T], *, at_once: int = AT_ONCE
) -> list[_R]:
    """`function` of each item, several at a time, in order; the first error is raised."""
    return list(each_in_parallel(function, items, at_once=at_once))


def each_in_parallel(
    function: Callable[[_T], _R], items: Iterable[_T], *, at_once: int = AT_ONCE
) -> Iterator[_R]:
    """The same, one result after the other as they are done, in order."""
    listed = list(items)
    if len(listed) < 2 or at_once < 2:
        yield from map(function, listed)
        return
    from concurrent.futures import ThreadPoolExecutor  # what reads one log needs no threads

    with ThreadPoolExecutor(min(at_once, len(listed))) as pool:
        yield from pool.map(function, listed)
