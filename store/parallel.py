"""Many coroutines at a time, and all of them ended when one fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

T = TypeVar("T")
U = TypeVar("U")


async def in_parallel(work: Callable[[U], Awaitable[T]], items: Iterable[U], limit: int) -> list[T]:
    """Run `work` on every item, at most `limit` at a time.

    Returns:
        The results, in the order of `items`.
    Raises:
        Exception: The first failure; what still runs is cancelled and waited for.
    """
    gate = asyncio.Semaphore(limit)

    async def one(item: U) -> T:
        async with gate:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
