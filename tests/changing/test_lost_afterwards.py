"""What the rebuild of a lost log finds after histories of several operations, and after gc: rows as
they were. Found by a reviewer's programs."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from changing_cases import World
from lakelog.errors import StorageError, UsageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore

DAY_S = 86_400


@pytest.fixture
def world():
    return World()


def rows(*values):
    return pa.table({"n": pa.array(values, pa.int64())})


def shown(world):
    snapshot = world.catalog.snapshot("weather")
    read = {table: snapshot.to_arrow(table) for table in snapshot.tables()}
    return {
        table: sorted(found["n"].to_pylist()) for table, found in read.items() if found.num_rows
    }


def change(world, does, writer="oslo"):
    world.clock.now_s += 60
    with world.writer(writer, shared=True) as opened, opened.transaction() as tx:
        return does(tx)


def rebuild(world, writer="oslo"):
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, writer, "weather"))


def lose(world, writer="oslo"):
    folders = tuple(f"{writer}/weather/{name}/" for name in ("transactions", "segments"))
    world.store.delete([one.key for one in world.store.list("") if one.key.startswith(folders)])


def collect(world):
    """Prune and gc until nothing more goes."""
    world.prune()
    for _ in range(2):
        world.clock.now_s += 20 * DAY_S
        world.gc()


def _deletes(tx):
    tx.delete("hourly", "n = 1", mode="rows")


def _exchanges(tx):
    tx.row_delta("hourly", rows(5), "n = 1", mode="rows")


@pytest.mark.parametrize("operation", [_deletes, _exchanges])
def test_a_delete_by_number_that_breaks_off_takes_its_transaction_with_it(world, operation):
    """What it has put may be there all the same, and a rebuild would believe it."""
    world.write(1, 2)
    real = MemoryStore.put

    def put(store, key, body, **options):
        real(store, key, body, **options)
        if key.endswith(".deletes"):
            raise StorageError("its answer is lost")

    with world.writer() as opened:
        tx = opened.transaction()
        with mock.patch.object(MemoryStore, "put", put), pytest.raises(StorageError):
            operation(tx)
        with pytest.raises(UsageError, match=r"delete of table 'hourly' broke off.*answer is lost"):
            tx.write("hourly", rows(3))
        tx.discard()


def test_of_equal_clocks_in_two_logs_a_rebuild_keeps_the_newest(world):
    """It numbers revisions anew: across logs they say nothing."""
    for _ in range(2):
        (path,) = change(world, lambda tx: tx.write("hourly", rows(100), clock=(1, 1)))
        change(world, lambda tx, path=path: tx.remove(path))
    for writer, value in (("oslo", "of oslo"), ("zagreb", "of zagreb")):
        data = rows(1).append_column("v", pa.array([value]))
        change(world, lambda tx, data=data: tx.write("hourly", data, clock=(5, 5)), writer)
    world.catalog.evolve("weather", "hourly", key=["n"])

    def newest():
        (row,) = world.catalog.snapshot("weather").to_arrow("hourly").to_pylist()
        return row["v"]

    assert newest() == "of zagreb"
    collect(world)
    rebuild(world)
    assert newest() == "of zagreb"


@pytest.mark.parametrize("has_committed", [False, True])
def test_half_an_overwrite_of_a_crashed_owner_is_left_out(world, has_committed):
    """Whoever opens the log after it has a later epoch, or the same, if it had not committed; here
    each commits once."""
    world.write(1, 2, 3)
    world.write(4)
    with world.writer() as opened:
        if has_committed:
            with opened.transaction() as tx:
                tx.write("daily", rows(0))
        known = {one.key for one in world.store.list("")}
        tx = opened.transaction()
        done = tx.overwrite("hourly", rows(7), "n = 1", validate=False)
        half = [one.key for one in world.store.list("") if one.key not in known]
        world.store.delete([key for key in half if key.endswith(done.rewritten[0])])
        tx.discard()
    for value in range(5, 8):
        world.write(value)
    before = shown(world)
    lose(world)
    rebuild(world)
    assert shown(world) == before
    assert before["hourly"] == [1, 2, 3, 4, 5, 6, 7]


def test_two_guests_after_a_rebuild_are_no_two_owners(world):
    """They have the epoch of the rebuild, which is above that of what it has rebuilt."""
    world.write(1)
    rebuild(world)
    with world.writer(shared=True) as opened, world.writer(shared=True) as other:
        one, two = opened.transaction(), other.transaction()
        one.write("hourly", rows(2))
        two.write("hourly", rows(3))
        world.clock.now_s += 5
        one.commit()
        three = opened.transaction()
        three.write("hourly", rows(4))  # says that the first one was committed right on its base
        world.clock.now_s += 5
        two.commit()
        three.commit()
    before = shown(world)
    lose(world)
    rebuild(world)
    assert shown(world) == before == {"hourly": [1, 2, 3, 4]}
