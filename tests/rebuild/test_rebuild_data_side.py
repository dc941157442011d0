"""Rebuild against random histories of all operations: of a log that is there nothing changes, at
the head or before; of one that is lost, as a whole or in part, all rows at the head come back.

`LAKELOG_EXAMPLES=500 pytest tests/rebuild/test_rebuild_data_side.py` runs it longer.
"""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from data_side import Lake, Rows, committed, copied, rebuilt, seen
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient
from sample import examples

LOG = ("w/db/transactions/", "w/db/segments/")


def history(data, most: int = 14) -> Lake:
    lake = Lake(data.draw)
    for _ in range(data.draw(st.integers(1, most))):
        lake.step()
    note("\n".join(lake.done))
    return lake


many = settings(
    max_examples=examples(12),
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
    compare(lake, plan, head, seen(Catalog(store)))


def compare(lake: Lake, plan, head: Rows, now: Rows) -> None:
    """Whether the rows are those of the head, but for what docs/maintenance.md says."""
    if plan.is_whole:  # only its end was lost, and no file was begun on that
        known = [item.original_revision for item in plan.transactions]
        last = max(revision for revision in known if revision is not None)
        head = seen(lake.catalog, {"w": last})
    if any(item.startswith("Whether ") for item in plan.notes):  # commits that overlapped
        for table, rows in head.items():
            assert not Counter(rows) - Counter(now.get(table, [])), "rows are lost"
    else:
        assert now == head


# Histories in which a defect was found once, by their seeds.
@pytest.mark.parametrize("seed", [0, 104, 173, 250, 450, 460])
def test_known_histories(seed) -> None:
    chance = random.Random(seed)

    def drawn(strategy):
        return chance.choice(strategy.elements)

    lake = Lake(drawn)
    for _ in range(chance.randint(1, 14)):
        lake.step()
    places, head = committed(lake.catalog), seen(lake.catalog)
    store = copied(lake.store)
    keys = [info.key for folder in LOG for info in store.list(folder)]
    if chance.random() < 0.5:
        keys = [key for key in keys if chance.random() < 0.5]
    store.delete(keys)
    compare(lake, rebuilt(store, lake.fake, set(places)), head, seen(Catalog(store)))


def test_rows_that_going_back_deletes_are_deleted_at_its_revision_after_a_rebuild() -> None:
    """The file is added and its rows are deleted in one transaction, and went since."""
    store, fake = MemoryStore("going-back"), FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    with catalog.writer("w", "db") as writer:
        for change in (
            lambda tx: tx.write("t", pa.table({"n": list(range(9))})),
            lambda tx: tx.delete("t", "n = 8", mode="predicate"),
            lambda tx: tx.rewrite("t", live(catalog)),
        ):
            with writer.transaction() as tx:
                change(tx)
    catalog.restore("db", to={"w": 1}, execute=True)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.rewrite("t", live(catalog))
    places = committed(catalog)
    before = {one: seen(catalog, {"w": revision}) for one, revision in places.items()}
    rebuilt(store, fake, set(places))
    after = Catalog(store)
    now = committed(after)
    assert {one: seen(after, {"w": now[one]}) for one in before} == before


def live(catalog: Catalog) -> list[str]:
    return catalog.snapshot("db").files("t")["path"].to_pylist()
