"""Many things at a time: how many bytes of them are in memory, who takes which, and how all end
when one fails.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_T = TypeVar("_T")
_R = TypeVar("_R")
MOST_BYTES: Final = 256 << 20  # in memory; a larger object goes alone


class Stopped(Exception):
    """The caller wants no more."""


@dataclass(slots=True)
class Room:
    """How many bytes may be in memory; safe for threads."""

    most: int = MOST_BYTES
    _used: int = 0
    _free: threading.Condition = field(default_factory=threading.Condition)

    def enter(self, size: int) -> int:
        """Wait until so many bytes have room. What is larger than all of it waits for all."""
        size = min(size, self.most)
        with self._free:
            while self._used + size > self.most:
                self._free.wait()
            self._used += size
        return size

    @contextlib.contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Have room for so many bytes meanwhile."""
        size = self.enter(size)
        try:
            yield
        finally:
            self.leave(size)

    def leave(self, size: int) -> None:
        """They are gone."""
        with self._free:
            self._used -= size
            self._free.notify_all()


def together(
    work: Callable[[_T], _R], items: Sequence[_T], give_up: Callable[[], None]
) -> list[_R]:
    """`work` on all items at once, in threads.

    Args:
        give_up: Called when one fails, or the caller is interrupted: the others are to end soon,
            for they are waited for.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(len(items), thread_name_prefix="lakelog-replicate") as pool:
        try:
            return list(pool.map(work, items))
        except BaseException:
            give_up()
            raise


class Shared(Generic[_T]):
    """Items that several threads take from."""

    def __init__(self, items: Iterator[_T]) -> None:
        self._items = items
        self._lock = threading.Lock()
        self._ended = False

    def take(self) -> tuple[_T] | None:
        """The next one; None: there are no more."""
        with self._lock:
            for item in () if self._ended else self._items:
                return (item,)
            return None

    def end(self) -> None:
        """Nobody gets another one."""
        with self._lock:
            self._ended = True
