"""Random histories hold every invariant, and the simulator can fail: planted bugs are caught.

20,000 histories run here; a million by `python tests/simulation/run.py --histories 1000000`.
"""

from __future__ import annotations

import os

import pytest
from history_runs import outcomes, summary
from lakelog.testing.histories import run_history
from mutants import MUTANTS, first_violation

HISTORIES = int(os.environ.get("LAKELOG_HISTORIES", "20000"))


@pytest.mark.timeout(1200)
def test_random_histories_hold_every_invariant():
    words, bad = summary(outcomes(0, HISTORIES, processes=2))
    print(words)
    assert not bad, "\n".join(f"seed {o.seed}: {o.violation}" for o in bad[:10])


def test_a_seed_replays_its_history_request_by_request():
    first: list[str] = []
    second: list[str] = []
    assert run_history(77, trace=first) == run_history(77, trace=second)
    assert first == second
    assert len(first) > 10


# These need over a thousand histories: `make soak`, or `python tests/simulation/mutants.py`.
SLOW = {"fences_by_what_is_left", "prune_has_no_floor"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n in SLOW else n for n in MUTANTS]
)
def test_a_planted_bug_is_caught(name):
    assert first_violation(name) is not None, f"{name}: no history shows it"
