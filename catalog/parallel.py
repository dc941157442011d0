"""Doing one thing to many items at a time, with plain threads.

Requests wait on the network, and hashing, decompressing and Arrow's own work release the
interpreter's lock: for both, threads are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_AT_ONCE: Final = 16
_T = TypeVar("_T")
_R = TypeVar("_R")


def parallel(
    function: Callable[[_T], _R], items: Iterable[_T], *, at_once: int = _AT_ONCE
) -> list[_R]:
    """`function` of each item, several at a time, in order; the first error is raised."""
    listed = list(items)
    if len(listed) < 2 or at_once < 2:
        return [function(item) for item in listed]
    from concurrent.futures import ThreadPoolExecutor  # what reads one log needs no threads

    with ThreadPoolExecutor(min(at_once, len(listed))) as pool:
        return list(pool.map(function, listed))
