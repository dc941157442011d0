"""Some of many cases: others with each commit, the same again with the same LAKELOG_SEED."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from seeds import base_seed

T = TypeVar("T")

# The count of a test that takes a sample in `make test` and all of its cases in `make soak`:
# @pytest.mark.parametrize("count", [8, EVERY])
EVERY = pytest.param(None, marks=pytest.mark.long, id="every")


def some(name: str, items: Iterable[T], count: int | None) -> list[T]:
    """So many of the items, chosen by the run's seed, in their order.

    Args:
        name: Of the test, so that tests choose apart from one another.
        count: None for all.
    """
    every = list(items)
    if count is None or count >= len(every):
        return every
    chosen = random.Random(f"{base_seed()} {name}").sample(range(len(every)), count)
    return [every[place] for place in sorted(chosen)]


def sampled(name: str, items: Iterable[Any], count: int) -> list[Any]:
    """As parameters of a test: so many of the items for `make test`, and all of them, marked as
    long, for `make soak`, whose seed is another one.

    Args:
        name, count: See `some`.
    """
    every = list(items)
    long = [pytest.param(item, marks=pytest.mark.long, id=f"all: {item}") for item in every]
    return [*some(name, every, count), *long]


def rounds(count: int) -> int:
    """How many rounds a long test runs: so many, or LAKELOG_ROUNDS, of a part of a campaign."""
    return int(os.environ.get("LAKELOG_ROUNDS") or count)


def examples(count: int) -> int:
    """How many examples of a property: so many for `make test`, LAKELOG_EXAMPLES if that is set."""
    return int(os.environ.get("LAKELOG_EXAMPLES") or count)
