"""Random histories hold every invariant, and the simulator can fail: planted bugs are caught.

1,500 histories run with each change, others with each commit; a million in `make soak`. A planted
bug is looked for in up to 6,000, from seed 0 on (`make planted`): most show in the first 300, and
one takes more than 3,000.
"""

from __future__ import annotations

import json
import os

import pytest
from history_runs import outcomes, summary
from lakelog.testing.histories import AT, UPHEAVAL_EACH, run_history
from lakelog.testing.upheavals import begin_upheaval
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


class OtherStore(Exception):
    """The history is on a store of another kind."""


def test_where_two_that_come_at_once_both_win_the_race_shows_it(monkeypatch):
    """And processes then commit as on a plain store: nothing that was acknowledged is lost."""
    worlds = []

    def begin(world, *, changes):
        stage = begin_upheaval(world, changes=changes)
        if not world.looks_first:
            raise OtherStore
        worlds.append(world)
        return stage

    monkeypatch.setattr("lakelog.testing.histories.begin_upheaval", begin)
    acknowledged = 0
    for seed in range(base_seed() // 10 * 10 + AT, base_seed() + 10_000, UPHEAVAL_EACH):
        try:
            outcome = run_history(seed)
        except OtherStore:
            continue
        assert not outcome.violation, seed
        acknowledged += outcome.acknowledged
        store = worlds[-1].store
        kept = [info.key for info in store.list("w/_probe/") if "/store-" in info.key]
        assert all(json.loads(store.get(key))["put_if_absent"] is False for key in kept), seed
        if len(worlds) == 10:
            break
    assert len(worlds) == 10
    assert acknowledged > 10


def test_a_seed_replays_its_history_request_by_request():
    first: list[str] = []
    second: list[str] = []
    assert run_history(77, trace=first) == run_history(77, trace=second)
    assert first == second
    assert len(first) > 10


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name):
    assert first_violation(name) is not None, f"{name}: no history shows it"
