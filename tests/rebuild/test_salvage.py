"""Random histories of all operations; then parts of both copies of the log are lost, and the log is
rebuilt: every row that was acknowledged and is live is there."""

from __future__ import annotations

import random
import warnings

import pytest
from salvage_lake import Lake, check, counted, owed, rebuild

SEEDS = range(24)


def made(seed: int) -> Lake:
    lake = Lake(random.Random(seed))
    lake.run(16)
    return lake


@pytest.mark.parametrize("seed", SEEDS)
def test_any_one_revision(seed: int) -> None:
    lake = made(seed)
    lost = {lake.random.randrange(max(lake.rows) + 1)}
    lake.lose(lost)
    check(lake, lost)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_range_of_revisions(seed: int) -> None:
    lake = made(seed)
    head = max(lake.rows)
    low = lake.random.randint(0, head)
    lost = set(range(low, min(head, low + lake.random.randint(1, 5)) + 1))
    lake.lose(lost)
    check(lake, lost)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_but_the_data(seed: int) -> None:
    lake = made(seed)
    lake.lose_all()
    check(lake, set(lake.rows))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost(seed: int) -> None:
    """A rebuild of a log that is whole changes no row, twice; what nobody can know is named."""
    lake = made(seed)
    before = counted(lake.catalog)
    for _ in range(2):
        plan = check(lake, set())
        unproven = {item.transaction_id for item in plan.unproven}
        assert unproven <= {one for one, (_, _, how) in lake.attempts.items() if how == "crashed"}
        if not unproven:
            assert counted(lake.catalog) == before
        lake.attempts = {one: of for one, of in lake.attempts.items() if one not in unproven}
        if unproven:
            return


@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_is_lost_and_writers_go_on(seed: int) -> None:
    """The log gives the revisions of what was lost to others. Rows of the lost end are owed where a
    footer shows that there was one."""
    lake = Lake(random.Random(seed))
    lake.keyed = False  # a row that comes back may be the newest of its key
    lake.run(16)
    head = max(lake.rows)
    lost = set(range(max(1, head + 1 - lake.random.randint(1, 6)), head + 1))
    is_shown = lake.highest_base() >= min(lost)
    lake.lose(lost)
    rows = set(counted(lake.catalog)) | lake.go_on()
    if is_shown:
        rows |= owed(lake, lost)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = rebuild(lake)
        missing = rows - counted(lake.catalog).keys()
    assert not missing, (sorted(missing)[:5], lake.done, sorted(lost), plan.notes)
