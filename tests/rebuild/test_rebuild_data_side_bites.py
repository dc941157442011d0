"""The histories of `data_side` notice a rebuild that forgets something: planted bugs."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from data_side import Lake, committed, rebuilt, seen
from lakelog.catalog.catalog import Catalog
from lakelog.errors import LakelogError
from lakelog.rebuild import again, assemble, carried_rows, carried_tombstones, evidence, moments
from sample import sampled

SEEDS = range(80)
OF_KIND = evidence.of_kind


def without(*left_out):
    """Actions of some kinds are not read."""

    def of_kind(actions, *kinds):
        return OF_KIND(actions, *(kind for kind in kinds if kind not in left_out))

    return of_kind


PLANTS = {
    "removals are not done": lambda: mock.patch.object(assemble, "of_kind", without("remove")),
    "definitions are not read": lambda: mock.patch.object(
        assemble, "of_kind", without("definition")
    ),
    "files don't come back": lambda: mock.patch.object(again.Again, "__call__", return_value=None),
    "tombstones are lost": lambda: mock.patch.object(carried_tombstones.TombstonesPlaced, "place"),
    "row deletes are lost": lambda: mock.patch.object(carried_rows.RowsPlaced, "place"),
    "a tombstone holds of later files": lambda: mock.patch.object(
        moments.Moments, "is_before", return_value=True
    ),
    "revisions are not compared": lambda: mock.patch.object(
        moments.Moments, "in_log", return_value=moments.Moment(0, 0, None, -1)
    ),
}


def history(seed: int) -> Lake:
    chance = random.Random(seed)
    lake = Lake(lambda strategy: chance.choice(strategy.elements))
    for _ in range(10):
        lake.step()
    return lake


def is_wrong(seed: int, *, lost: bool) -> bool:
    lake = history(seed)
    places, head = committed(lake.catalog), seen(lake.catalog)
    if lost:
        keys = [info.key for info in lake.store.list("w/db/transactions/")]
        lake.store.delete(keys)
    try:
        plan = rebuilt(lake.store, lake.fake, set(places))
        now = seen(Catalog(lake.store))
    except LakelogError:
        return True
    excused = lost and any(note.startswith("Whether ") for note in plan.notes)
    return now != head and not excused


@pytest.mark.slow("histories until one shows the defect")
@pytest.mark.parametrize("plant", sampled("data side bites", sorted(PLANTS), 3))
def test_it_is_noticed(plant) -> None:
    lost = plant != "revisions are not compared"
    with PLANTS[plant]():
        assert any(is_wrong(seed, lost=lost) for seed in SEEDS)
