"""Doing one thing to many items at a time, with plain threads; or by an engine that is handed in,
whose workers may be other machines.

Requests wait on the network, and hashing, decompressing and Arrow's own work release the
interpreter's lock: for both, threads are enough.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from concurrent.futures import Future

    from ..store import WideStore

AT_ONCE: Final = 16
SHARE: Final = 64
_AHEAD: Final = 64  # of whoever takes the results
_T = TypeVar("_T")
_R = TypeVar("_R")


def parallel(
    function: Callable[[_T], _R], items: Iterable[_T], *, at_once: int = AT_ONCE
) -> list[_R]:
    """`function` of each item, several at a time, in order; the first error is raised."""
    return list(each_in_parallel(function, items, at_once=at_once))


def each_in_parallel(
    function: Callable[[_T], _R], items: Iterable[_T], *, at_once: int = AT_ONCE
) -> Generator[_R, None, None]:
    """The same, one result after the other as they are done, in order.

    Threads are a few items ahead of whoever takes the results, however many there are.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    rest = chain(first, rest)
    if len(first) < 2 or at_once < 2:
        yield from map(function, rest)
        return
    from concurrent.futures import ThreadPoolExecutor  # what reads one log needs no threads

    waiting: deque[Future[_R]] = deque()
    pool = ThreadPoolExecutor(at_once)
    try:
        while True:
            for item in islice(rest, max(_AHEAD, at_once) - len(waiting)):
                waiting.append(pool.submit(function, item))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Engine(Protocol):
    """Does one thing to many items of one or several stores: in threads of this process
    (`Embedded`), or elsewhere (`lakelog.spark.SparkEngine`). The results are the same.
    """

    def each(
        self,
        prepare: Callable[..., Callable[[_T], _R]],
        stores: Sequence[WideStore],
        items: Iterable[_T],
        number: int,
        *,
        share: int = SHARE,
    ) -> Generator[_R, None, None]:
        """The result of each item, in order. Close what comes back if you want no more of it.

        Args:
            prepare: Given the stores, it gives the function of one item. It may be called in other
                processes, any number of times, and so may that function, for one item too: both,
                items and results are to be picklable, and what is done twice is to be done once.
            stores: Opened anew in other processes.
            number: How many items there are.
            share: How many of them are worth a task of their own, elsewhere.
        Raises:
            LakelogError: What the function raises, of the first item in order for which it does.
        """


@dataclass(frozen=True, slots=True)
class Embedded:
    """Threads of this process.

    Attributes:
        at_once: How many.
    """

    at_once: int = AT_ONCE

    def each(
        self,
        prepare: Callable[..., Callable[[_T], _R]],
        stores: Sequence[WideStore],
        items: Iterable[_T],
        number: int,
        *,
        share: int = SHARE,
    ) -> Generator[_R, None, None]:
        """See `Engine.each`."""
        del number, share
        return each_in_parallel(prepare(*stores), items, at_once=self.at_once)
