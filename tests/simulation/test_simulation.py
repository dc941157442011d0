"""Random histories hold every invariant, and the simulator can fail: planted bugs are caught.

1,500 histories run with each change, others with each commit; a million in `make soak`. A planted
bug is looked for in up to 6,000, from seed 0 on (`make planted`): most show in the first 300, and
one takes more than 3,000.
"""

from __future__ import annotations

import os

import pytest
from history_runs import outcomes, summary
from lakelog.testing.histories import run_history
from mutants import MUTANTS, first_violation
from seeds import base_seed

HISTORIES = 1_500
PARTS = 12  # for the workers to share


def check(first, count, processes=1):
    words, bad = summary(outcomes(first, count, processes))
    print(words)
    assert not bad, "\n".join(
        f"{o.violation}\n    python tests/simulation/run.py --trace {o.seed}" for o in bad[:10]
    )


@pytest.mark.slow("125 whole histories, 30 to 40 ms each, and more beside other tests")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_histories_hold_every_invariant(part):
    count = HISTORIES // PARTS
    check(base_seed() + part * count, count)


@pytest.mark.long
def test_a_million_random_histories_hold_every_invariant():
    check(base_seed(), 1_000_000, processes=os.cpu_count())


def test_a_seed_replays_its_history_request_by_request():
    first: list[str] = []
    second: list[str] = []
    assert run_history(77, trace=first) == run_history(77, trace=second)
    assert first == second
    assert len(first) > 10


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name):
    assert first_violation(name) is not None, f"{name}: no history shows it"
