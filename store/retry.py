"""Bounded retries with full jitter, the same for every request of every remote backend.

The clients' own retries are turned off: s3fs and botocore multiply theirs to 25 attempts, which
took 46 s on a throttled store.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
_random = secrets.SystemRandom()
REPEATED = "_lakelog_repeated"  # set on an error that ended a second or later attempt


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to insist.

    Attributes:
        attempts: At most so many, the first one included; at least 1.
        first_wait_s: The upper bound of the first wait; it doubles each time.
        longest_wait_s: The bound never grows beyond.
        budget_s: After this time since the start no attempt follows a failed one, except that the
            first failure always gets its one retry.
    """

    attempts: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 2.0
    budget_s: float = 10.0


async def retry(
    operation: Callable[[], Awaitable[T]],
    is_transient: Callable[[Exception], bool],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock_s: Callable[[], float] = time.monotonic,
) -> T:
    """Run `operation` until it succeeds, fails for good, or the policy says stop.

    Args:
        operation: Makes one attempt each time it is called.
        is_transient: Whether an error is worth another attempt.
        policy: When to stop.
        sleep: Injected in tests.
        clock_s: A monotonic clock; injected in tests.
    Raises:
        Exception: The error of the last attempt, as it was.
    """
    start_s = clock_s()
    attempt = 1
    while True:
        try:
            return await operation()
        except Exception as error:
            late = attempt > 1 and clock_s() - start_s >= policy.budget_s
            if attempt > 1:
                setattr(error, REPEATED, True)
            if attempt >= policy.attempts or late or not is_transient(error):
                raise
        bound_s = min(policy.first_wait_s * 2 ** (attempt - 1), policy.longest_wait_s)
        await sleep(_random.uniform(0, bound_s))
        attempt += 1
