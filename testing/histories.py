"""Random histories, each from its seed: of one log whose processes fail (`cast.py`), one in three
of processes that change its data (`changing.py`); and, one in ten, of a log that is rebuilt and
loses objects (`upheavals.py`). One in eight is on a file system of the network."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from .cast import Cast, begin_log
from .changing import Changing
from .one_thread import in_one_thread
from .simulation import QUIET, World
from .truth import Violation
from .upheavals import Upheaval, begin_upheaval

UPHEAVAL_EACH, AT = 10, 5  # seeds that end with 5
CHANGING_EACH = 3  # seeds that are multiples, and in upheavals tens that are one more
CACHED_EACH, CACHED_AT, CACHED_S = 8, 3, 60.0  # of which machines see folders of a minute ago
WATCHED_EACH = 100  # in one history of so many the whole store is compared after every change


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one history came to.

    Attributes:
        seed: It.
        steps: Requests.
        commits: Revisions that stand.
        acknowledged: Commits that were acknowledged.
        violation: The invariant that broke, or empty.
    """

    seed: int
    steps: int
    commits: int
    acknowledged: int
    violation: str = ""


def is_upheaval(seed: int) -> bool:
    """Whether a history is one of an upheaval."""
    return seed % UPHEAVAL_EACH == AT


def changes_data(seed: int) -> bool:
    """Whether its processes change rows and columns."""
    if is_upheaval(seed):
        return seed // UPHEAVAL_EACH % CHANGING_EACH == 1
    return seed % CHANGING_EACH == 0


def run_history(seed: int, *, trace: list[str] | None = None, goes_back: bool = False) -> Outcome:
    """One history, from its seed alone.

    Args:
        trace: Filled with a line a request.
        goes_back: One of a log some process of which restores earlier revisions.
    """
    is_cached = seed % CACHED_EACH == CACHED_AT
    world = World(seed, trace=trace, cached_s=CACHED_S if is_cached else 0.0)
    stage: Cast | Upheaval
    changes = changes_data(seed)
    if is_upheaval(seed) and not goes_back:
        stage = begin_upheaval(world, changes=changes)
    else:
        stage = begin_log(
            world,
            is_watched=seed % WATCHED_EACH == 0,
            goes_back=goes_back,
            kind=Changing if changes and not goes_back else Cast,
        )
    violation = ""
    with warnings.catch_warnings(), in_one_thread(world.at_once):
        warnings.simplefilter("ignore")
        try:
            stage.begin()
            world.run(stage.check)
            world.faults = QUIET
            stage.afterwards()
        except Violation as error:
            violation = str(error)
        except Exception as error:  # an error without a type is a finding too
            violation = f"I4 {type(error).__name__}: {error}"
    commits, acknowledged = stage.counts()
    return Outcome(seed, world.steps, commits, acknowledged, violation)
