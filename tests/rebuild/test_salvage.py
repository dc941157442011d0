"""Random histories of all operations; then parts of both copies of the log are lost, and the log is
rebuilt: every row that was acknowledged and is live is there."""

from __future__ import annotations

import random
import warnings

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from salvage_lake import Lake, check, counted, owed, rebuild
from seeds import base_seed

NUMBERS = range(24)


def made(number: int) -> Lake:
    lake = Lake(random.Random(f"{base_seed()} {number}"))
    lake.run(16)
    return lake


@pytest.mark.parametrize("number", NUMBERS)
def test_any_one_revision(number: int) -> None:
    lake = made(number)
    lost = {lake.random.randrange(max(lake.rows) + 1)}
    lake.lose(lost)
    check(lake, lost)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_range_of_revisions(number: int) -> None:
    lake = made(number)
    head = max(lake.rows)
    low = lake.random.randint(0, head)
    lost = set(range(low, min(head, low + lake.random.randint(1, 5)) + 1))
    lake.lose(lost)
    check(lake, lost)


@pytest.mark.parametrize("number", NUMBERS)
def test_everything_but_the_data(number: int) -> None:
    lake = made(number)
    lake.lose_all()
    check(lake, set(lake.rows))


@pytest.mark.parametrize("number", NUMBERS)
def test_nothing_is_lost(number: int) -> None:
    """A rebuild of a log that is whole changes no row, twice; what nobody can know is named."""
    lake = made(number)
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


@pytest.mark.parametrize("number", NUMBERS)
def test_the_end_is_lost_and_writers_go_on(number: int) -> None:
    """The log gives the revisions of what was lost to others. Rows of the lost end are owed where a
    footer shows that there was one."""
    lake = Lake(random.Random(f"{base_seed()} {number}"))
    lake.keyed = False  # a row that comes back may be the newest of its key
    lake.run(16)
    head = max(lake.rows)
    lost = set(range(max(1, head + 1 - lake.random.randint(1, 6)), head + 1))
    bases = lake.bases()
    lake.lose(lost)
    rows = set(counted(lake.catalog)) | lake.go_on()
    here = range(min(lost), lake.state().revision + 1)
    if not bases.isdisjoint(here):  # a footer names a commit where the log has another one
        rows |= owed(lake, lost)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = rebuild(lake)
        missing = rows - counted(lake.catalog).keys()
    assert not missing, (sorted(missing)[:5], lake.done, sorted(lost), plan.notes)


def test_the_log_marked_a_schema_where_it_was_lost() -> None:
    """A log marks columns that hold each key once, which no footer does."""
    catalog = Catalog(MemoryStore("marked"))
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"k": [1]}))
        with writer.transaction() as tx:
            tx.evolve("t", key=["k"])
        for keys in ([1, 2], [2, 3], [4]):
            with writer.transaction() as tx:
                tx.upsert("t", pa.table({"k": keys}))
    for folder in ("w/db/transactions/", "w/db/mirror/transactions/"):
        for info in list(catalog.store.list(folder)):
            if info.key.partition(".")[0].endswith(("-0", "-1", "-2")):
                catalog.store.delete([info.key])
    execute_rebuild(catalog, plan_rebuild(catalog, "w", "db"))
    keys = Catalog(catalog.store).snapshot("db").to_arrow("t").column("k").to_pylist()
    assert {2, 3, 4} <= set(keys)
