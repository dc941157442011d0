"""Of several attempts at one task that have left files, the one that was committed comes back."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from lakelog.catalog.commit.shares import write_part
from lakelog.catalog.commit.sharing import Sharing
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from rebuild_cases import commit, lose_the_log, rows

DAY_S = 86_400.0


@pytest.fixture
def store(fake):
    now = lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC)  # noqa: E731
    return MemoryStore("attempts", now=now)


@pytest.fixture
def writer(catalog):
    with catalog.writer("EWR", "weather", checkpoint_every=0) as found:
        commit(found, 0, table="other")
        yield found


def write(store, sharing, data, attempt):
    return write_part(store, sharing.share, iter(data.to_batches()), task=0, attempt=attempt)


def shared(writer, store, data, *, stray=None, **options):
    """A transaction of one task, and what another attempt has written; the paths of both."""
    with writer.transaction() as tx:
        sharing = Sharing(tx, "hourly", data.schema, **options)
        good = write(store, sharing, data, 0)
        other = write(store, sharing, data if stray is None else stray, 1)
        sharing.finish([good])
    return [[add.path for add in part.adds()] for part in (good, other)], sharing


def rebuilt(catalog, store, fake):
    """What the tables show before the log is lost and after it is made anew; and the plan."""
    before = shown(catalog)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    return before, shown(catalog), plan


def shown(catalog):
    snapshot = catalog.snapshot("weather")
    return {table: sorted(snapshot.to_arrow(table)["n"].to_pylist()) for table in snapshot.tables()}


def remove(tx, path):
    tx.remove(path)


def delete_rows(tx, path):
    tx.delete("hourly", "n = 2", mode="rows")


def add_again(tx, path):
    tx.remove(path)
    tx.add("hourly", path)


def move(tx, path):
    tx.remove(path)
    tx.add("moved", path)


def delete_both_ways(tx, path):
    tx.delete("hourly", "n = 1", mode="predicate")
    tx.delete("hourly", "n = 2", mode="rows")


@pytest.mark.parametrize("does", [remove, delete_rows, add_again, move, delete_both_ways])
def test_what_objects_say_of_a_file_tells_which_attempt_counts(catalog, writer, store, fake, does):
    ((path,), (stray,)), _ = shared(writer, store, rows(1, 2, 3))
    fake.move(1)
    with writer.transaction() as tx:
        does(tx, path)
    commit(writer, 1, table="other")
    before, after, plan = rebuilt(catalog, store, fake)
    assert after == before
    assert "another attempt" in plan.undecided[stray]


def test_a_file_that_is_gone_tells_for_the_others_of_its_attempt(catalog, writer, store, fake):
    """Its number does, though the other attempt is fuller by now."""
    data = pa.table({"n": [1, 2, 3, 4], "p": ["a", "a", "a", "b"]})
    (paths, strays), _ = shared(writer, store, data, partition_by=["p"])
    gone, left = sorted(paths)
    with writer.transaction() as tx:
        tx.remove(gone)
    commit(writer, 1, table="other")
    store.delete([f"EWR/weather/{gone}"])
    before, after, plan = rebuilt(catalog, store, fake)
    assert after == before == {"hourly": [4], "other": [0, 1]}
    assert left in plan.live
    assert set(strays) <= plan.undecided.keys()


def keep_house(store, fake):
    plan = plan_prune(store, "EWR", "weather", keep_revisions=1, ambient=fake.ambient)
    execute_prune(store, plan, ambient=fake.ambient)
    plan = plan_gc(store, "EWR", "weather", ambient=fake.ambient)
    execute_gc(store, plan, ambient=fake.ambient)
    return {action.key.removeprefix("EWR/weather/") for action in plan.actions}


def test_gc_takes_all_attempts_once_they_are_old(catalog, writer, store, fake):
    ((path,), (stray,)), _ = shared(writer, store, rows(1, 2, 3))
    with writer.transaction() as tx:
        tx.overwrite("hourly", rows(9), validate=False)
    writer.checkpoint()
    fake.move(8 * DAY_S)
    commit(writer, 1, table="other")
    writer.checkpoint()
    fake.move(60)
    assert {path, stray} <= keep_house(store, fake)
