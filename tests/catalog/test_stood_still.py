"""A machine that stood still: paused, migrated, or set back. Its own clocks don't show it, the
store's and everybody else's went on."""

from __future__ import annotations

import contextlib
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.log.build import Moment
from lakelog.errors import LakelogError, ObjectExists, StorageError, TransactionExpired
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import ClockedStore, DatedStore, FakeAmbient, PassingStore
from lakelog.testing.keys import log_keys
from own_files import add_own
from table_cases import table, values

DAY_S = 86_400


class Apart:
    """A store and the processes around it, whose clocks go with it; and one machine with clocks of
    its own, which stands still unless it is moved."""

    def __init__(self, face=DatedStore):
        self.store, self.others = ClockedStore(), FakeAmbient(1)
        self.catalog = Catalog(self.store, ambient=self.others.ambient)
        self.machine = FakeAmbient(2)
        self.counting = CountingStore(face(self.store))
        self.paused = Catalog(self.counting, ambient=self.machine.ambient)

    def move(self, seconds):
        """Time goes by for all but the machine."""
        self.store.move(seconds)
        self.others.move(seconds)

    def wake(self, *, wall):
        """The machine goes on; its wall clock is set, or not yet."""
        if wall:
            self.machine.wall_us = self.store.at_us

    def write(self, value):
        with (
            self.catalog.writer("w", "db", shared=True, checkpoint_every=0) as guest,
            guest.transaction() as tx,
        ):
            tx.write("t", table(value))
        return tx.commit_info.revision

    def checkpoint(self):
        with self.catalog.writer("w", "db", shared=True, checkpoint_every=0) as guest:
            return guest.checkpoint()

    def prune(self):
        plan = plan_prune(self.catalog, "w", "db", keep_revisions=1)
        execute_prune(self.catalog, plan)
        return len(plan.actions)

    def gc(self):
        return execute_gc(self.catalog, plan_gc(self.catalog, "w", "db")).deleted_objects

    def values(self):
        return values(self.store)


def others_go_on_and_prune(world, days):
    for value in (10, 11, 12):
        world.write(value)
    world.checkpoint()
    world.move(days * DAY_S / 2)
    world.write(13)
    world.checkpoint()
    world.move(days * DAY_S / 2)
    world.write(14)
    assert world.prune()


@pytest.mark.parametrize("face", [DatedStore, PassingStore])
@pytest.mark.parametrize("wall", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("days", [3, 6])
def test_no_commit_under_a_pruned_name_is_acknowledged(face, wall, shared, days):
    """Neither owner nor guest, whether its wall clock was set meanwhile or not. What is
    acknowledged is read; what is too old by then is refused."""
    world = Apart(face)
    world.write(0)
    writer = world.paused.writer("w", "db", shared=shared, checkpoint_every=0)
    tx = writer.transaction()
    tx.write("t", table(777))
    others_go_on_and_prune(world, days)
    world.wake(wall=wall)
    try:
        acknowledged = tx.commit() is not None
    except LakelogError:
        acknowledged = False
    assert (777 in world.values()) == acknowledged
    assert acknowledged == (days == 3)
    assert sorted({*world.values()} - {777}) == [0, 10, 11, 12, 13, 14]


def test_a_commit_that_is_still_in_the_log_is_acknowledged_after_another_look():
    """Nobody pruned meanwhile: the listing shows it."""
    world = Apart()
    world.write(0)
    writer = world.paused.writer("w", "db", checkpoint_every=0)
    tx = writer.transaction()
    tx.write("t", table(1))
    world.move(DAY_S)
    world.counting.reset()
    revision = tx.commit().revision
    assert world.counting.reset()["list"] > 0
    assert world.values() == [0, 1]
    with writer.transaction() as tx:
        tx.write("t", table(2))
    assert tx.commit_info.revision == revision + 1
    assert world.counting.reset()["list"] == 0, "and is trusted again"


def test_no_commit_of_files_that_gc_has_taken_is_acknowledged():
    world = Apart()
    world.write(0)
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    tx = writer.transaction()
    (path,) = tx.write("t", table(1))
    world.move(8 * DAY_S)
    assert world.gc() == 1
    for _ in range(2):
        with pytest.raises(TransactionExpired, match=path) as caught:
            tx.commit()
        assert "stands as revision" in caught.value.message
    with writer.transaction() as tx:
        tx.remove(path)
    assert world.values() == [0], "as the hint says"


@pytest.mark.parametrize("days", [4, 6])
def test_old_files_that_are_there_are_committed(days):
    """Older than half the grace period by the store's time: each of them is asked for."""
    world = Apart()
    world.write(0)
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    tx = writer.transaction()
    for value in (1, 2, 3):
        tx.write("t", table(value))
    world.move(days * DAY_S)
    assert world.gc() == 0
    world.counting.reset()
    assert tx.commit()
    assert world.counting.reset()["head"] == 3
    assert world.values() == [0, 1, 2, 3]


def test_what_came_after_the_grace_is_not_acknowledged():
    """A gc that decided before may delete its files at any time, though they are there now."""
    world = Apart()
    world.write(0)
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    tx = writer.transaction()
    tx.write("t", table(1))
    world.move(8 * DAY_S)
    for _ in range(2):
        with pytest.raises(TransactionExpired, match="came so long after"):
            tx.commit()
    assert world.values() == [0, 1], "it stands, as the error says"


def test_what_came_in_time_is_acknowledged_at_any_time_later():
    """Whose answer was lost asks again, days later: the transaction's own time counts."""
    world = Apart()
    world.write(0)
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    tx = writer.transaction()
    tx.write("t", table(1))
    put = world.counting.put

    def put_unheard(key, *rest, **options):
        with contextlib.suppress(ObjectExists):
            put(key, *rest, **options)
        raise StorageError("no answer", key=key)

    with (
        mock.patch.object(world.counting, "put", put_unheard),
        mock.patch.object(world.counting, "get", side_effect=StorageError("no answer", key="")),
        pytest.raises(LakelogError),
    ):
        tx.commit()
    world.move(8 * DAY_S)
    assert world.gc() == 0
    assert tx.commit()
    assert world.values() == [0, 1]


def test_what_is_known_before_the_put_is_refused_before_it():
    """An answer came after the pause: nothing is written."""
    world = Apart()
    world.write(0)
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    tx = writer.transaction()
    tx.write("t", table(1))
    world.move(4 * DAY_S)
    tx.write("t", table(2))
    before = log_keys(world.store)
    with pytest.raises(TransactionExpired, match="96 hours ago"):
        tx.commit()
    assert log_keys(world.store) == before


class Stopping(DatedStore):
    """The machine stands still right before a checkpoint is put."""

    pause = staticmethod(lambda: None)

    def put(self, key, body, *, if_absent=False):
        if key.endswith(".checkpoint"):
            type(self).pause()
        super().put(key, body, if_absent=if_absent)


def test_no_checkpoint_that_came_late_is_built_upon():
    """It may refer to segments that prune has taken: the next one starts from what is there."""
    world = Apart(Stopping)
    world.write(0)
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    Stopping.pause = staticmethod(lambda: world.move(DAY_S))
    try:
        with pytest.raises(StorageError, match="took too long"):
            writer.checkpoint()
    finally:
        Stopping.pause = staticmethod(lambda: None)
    assert writer.last_checkpoint is None
    assert writer.checkpoint() is not None
    assert world.values() == [0]


def test_an_age_is_what_the_fastest_clock_says():
    then = Moment(100.0, 1_000.0, 5_000.0)
    assert then.age_s(Moment(103.0, 1_000.0, 5_000.0)) == 3
    assert then.age_s(Moment(100.0, 1_004.0, 5_000.0)) == 4
    assert then.age_s(Moment(100.0, 1_000.0, 5_005.0)) == 5
    assert then.age_s(Moment(100.0, 900.0, 4_000.0)) == 0, "clocks that were set back say nothing"
    assert then.age_s(Moment(101.0, 1_000.0)) == 1
    assert Moment(100.0, 1_000.0).age_s(Moment(101.0, 1_000.0, 9_999.0)) == 1
    assert then.before(60) == Moment(40.0, 940.0, 4_940.0)
    assert then.before(60, store_s=7.0) == Moment(40.0, 940.0, 7.0)
    assert then.or_before(Moment(200.0, 900.0)) == Moment(100.0, 900.0, 5_000.0)


def test_an_adopted_file_has_the_age_that_the_store_says():
    """Whatever this machine's clocks show: here they have stood still since it was put."""
    import io

    import pyarrow.parquet as pq

    world = Apart()
    world.write(0)
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    world.store.put("w/db/data/in/old.parquet", sink.getvalue())
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    world.move(4 * DAY_S)
    with pytest.raises(TransactionExpired):
        add_own(writer.transaction(), "t", "data/in/old.parquet")


def test_of_adopted_files_the_oldest_counts():
    """Some days pass between the adding and the commit, which asks once more."""
    import io

    import pyarrow.parquet as pq

    world = Apart()
    world.write(0)
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    world.store.put("w/db/data/in/old.parquet", sink.getvalue())
    world.move(2 * DAY_S)
    for name in ("new", "newer"):
        world.store.put(f"w/db/data/in/{name}.parquet", sink.getvalue())
    writer = world.paused.writer("w", "db", shared=True, checkpoint_every=0)
    both = writer.transaction()
    add_own(both, "t", "data/in/old.parquet")
    add_own(both, "t", "data/in/new.parquet")
    young = writer.transaction()
    add_own(young, "t", "data/in/newer.parquet")
    world.move(2 * DAY_S)
    world.write(1)
    young.commit()
    with pytest.raises(TransactionExpired):
        both.commit()
