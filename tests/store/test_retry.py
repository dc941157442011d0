"""Retries: bounded in number and in time, with random waits no longer than promised."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from lakelog.store.object_store import RetryPolicy, retry


class Flaky(Exception):
    pass


class Clock:
    """Time that passes only by sleeping and working."""

    def __init__(self):
        self.now_s = 0.0
        self.waits_s: list[float] = []

    async def sleep(self, wait_s: float) -> None:
        self.waits_s.append(wait_s)
        self.now_s += wait_s


def attempt_all(policy, failures, *, work_s=0.0, transient=True):
    """Run with so many failures first; returns how many attempts were made, and the clock."""
    clock, attempts = Clock(), []

    async def operation() -> str:
        attempts.append(clock.now_s)
        clock.now_s += work_s
        if len(attempts) <= failures:
            raise Flaky(len(attempts))
        return "done"

    async def run() -> str:
        return await retry(
            operation, lambda _: transient, policy, sleep=clock.sleep, clock_s=lambda: clock.now_s
        )

    try:
        result = asyncio.run(run())
    except Flaky as error:
        result = error.args[0]
    return result, len(attempts), clock


def test_a_success_needs_one_attempt():
    result, attempts, clock = attempt_all(RetryPolicy(), 0)
    assert (result, attempts, clock.waits_s) == ("done", 1, [])


@pytest.mark.parametrize("failures", [1, 3, 5])
def test_a_transient_failure_is_tried_again(failures):
    result, attempts, clock = attempt_all(RetryPolicy(attempts=6), failures)
    assert (result, attempts, len(clock.waits_s)) == ("done", failures + 1, failures)


def test_attempts_are_bounded_and_the_last_error_is_raised():
    result, attempts, _ = attempt_all(RetryPolicy(attempts=4), 99)
    assert (result, attempts) == (4, 4)


def test_a_lasting_failure_is_not_tried_again():
    result, attempts, clock = attempt_all(RetryPolicy(), 99, transient=False)
    assert (result, attempts, clock.waits_s) == (1, 1, [])


def test_waits_are_random_and_their_bound_doubles_up_to_the_longest():
    policy = RetryPolicy(attempts=8, first_wait_s=0.1, longest_wait_s=1.0, budget_s=1e9)
    runs = [attempt_all(policy, 99)[2].waits_s for _ in range(300)]
    bounds = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    for waits, bound in zip(zip(*runs, strict=True), bounds, strict=True):
        assert all(0 <= wait <= bound for wait in waits)
        assert max(waits) > 0.9 * bound  # full jitter: from nothing to the bound
        assert min(waits) < 0.1 * bound
    assert len(runs[0]) == len(bounds)
    assert any(later < earlier for waits in runs for earlier, later in pairwise(waits))


def test_the_budget_ends_the_attempts():
    policy = RetryPolicy(attempts=99, first_wait_s=0, longest_wait_s=0, budget_s=10)
    assert attempt_all(policy, 99, work_s=4.0)[1] == 3  # at 0, 4 and 8 s; none after 12 s


def test_a_first_failure_always_gets_its_retry():
    policy = RetryPolicy(attempts=99, first_wait_s=0, longest_wait_s=0, budget_s=10)
    assert attempt_all(policy, 99, work_s=60.0)[1] == 2
