"""Many histories at a time, and what came of them."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

from at_speed import at_speed
from lakelog.testing.histories import Outcome, run_history

_FOR_GOOD = ExitStack()


def outcomes(first: int, count: int, processes: int) -> Iterator[Outcome]:
    """The outcome of each seed, in no order.

    Raises:
        BrokenProcessPool: A history ended its process.
    """
    seeds = range(first, first + count)
    if processes == 1:
        with _rarely_collecting(), at_speed():
            yield from map(run_history, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        yield from pool.map(run_history, seeds, chunksize=50)


def _settle_in() -> None:
    """What was imported lives for ever: the garbage collector need not look at it each time."""
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 20)


def _begin() -> None:
    """A process that runs histories and nothing else."""
    _settle_in()
    _FOR_GOOD.enter_context(at_speed())


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """The same, for so long: in a worker of pytest other tests come after."""
    before = gc.get_threshold()
    _settle_in()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def summary(found: Iterator[Outcome]) -> tuple[str, list[Outcome]]:
    """In words, and those that broke an invariant."""
    start = time.perf_counter()
    histories = steps = commits = acknowledged = 0
    bad = []
    for outcome in found:
        histories += 1
        steps += outcome.steps
        commits += outcome.commits
        acknowledged += outcome.acknowledged
        if outcome.violation:
            bad.append(outcome)
        if sys.stderr.isatty() and histories % 1000 == 0:
            print(f"\r{histories:,}", end="", file=sys.stderr)
    taken = time.perf_counter() - start
    words = (
        f"{histories:,} histories, {steps:,} requests, {commits:,} commits, "
        f"{acknowledged:,} acknowledged, {len(bad)} violations, {taken:.0f} s"
    )
    return words, bad
