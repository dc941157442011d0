"""Rebuild against random histories of all operations: of a log that is there nothing changes, at
the head or before; of one that is lost, as a whole or in part, all rows at the head come back.

`LAKELOG_EXAMPLES=500 pytest tests/rebuild/test_rebuild_data_side.py` runs it longer.
"""

from __future__ import annotations

import os

import pytest
from data_side import Lake, committed, copied, rebuilt, seen
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog

EXAMPLES = os.environ.get("LAKELOG_EXAMPLES")
LOG = ("w/db/transactions/", "w/db/segments/")


def history(data, most: int = 14) -> Lake:
    lake = Lake(data.draw)
    for _ in range(data.draw(st.integers(1, most))):
        lake.step()
    note("\n".join(lake.done))
    return lake


many = settings(
    max_examples=int(EXAMPLES or 20),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.slow("20 whole histories, each read at every revision, rebuilt, and read again")
@many
@given(st.data())
def test_a_rebuild_of_an_intact_log_changes_no_row_at_any_revision(data) -> None:
    lake = history(data)
    places = committed(lake.catalog)
    before = {one: seen(lake.catalog, {"w": revision}) for one, revision in places.items()}
    head = seen(lake.catalog)
    plan = rebuilt(lake.store, lake.fake, set(places))
    assert plan.is_whole
    after = Catalog(lake.store)
    assert seen(after) == head
    now = committed(after)
    for one, rows in before.items():
        if one in now:
            assert seen(after, {"w": now[one]}) == rows, (one, places[one])
    # Nothing but the birth of a log by a guest leaves no trace below data/.
    assert len(before.keys() - now.keys()) <= 1


@pytest.mark.slow("20 whole histories, each lost in part or as a whole, and rebuilt")
@many
@given(st.data())
def test_the_rows_at_the_head_come_back_from_the_data_side(data) -> None:
    lake = history(data)
    places, head = committed(lake.catalog), seen(lake.catalog)
    store = copied(lake.store)
    keys = [info.key for folder in LOG for info in store.list(folder)]
    if data.draw(st.booleans()):
        keys = [key for key in keys if data.draw(st.booleans())]
    store.delete(keys)
    note(f"lost: {keys}")
    plan = rebuilt(store, lake.fake, set(places))
    note("\n".join(plan.notes))
    assert seen(Catalog(store)) == head
