"""Committers that still run while a log is rebuilt, or wake up afterwards."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.checkpointer import write_checkpoint
from lakelog.errors import (
    CorruptError,
    FencedError,
    ForkError,
    PlanOutdated,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash
from lakelog.testing.doubles import FakeAmbient, PassingStore, PlainStore
from rebuild_cases import LOG, item_of
from zombie_world import make_world, new_names, write


@pytest.mark.parametrize("removals", [0, 1, 3])
def test_a_zombie_is_fenced_after_a_rebuild_of_a_readable_log(removals):
    world = make_world(removals=removals)
    info = world.rebuild()
    head = world.load()
    before = {key.key for key in world.store.list(LOG)}
    for _ in range(2):
        with pytest.raises(FencedError, match=r"sealed|incarnation 2"):
            write(world.zombie, world.fake)
    assert {key.key for key in world.store.list(LOG)} == before
    assert world.load().digest == head.digest
    assert info.revision == head.revision
    assert world.live() == set(world.paths)
    path = write(world.new_owner(), world.fake)
    assert world.live() == {*world.paths, path}


@pytest.mark.parametrize("removals", [0, 3])
def test_a_zombie_is_fenced_while_the_rebuild_is_under_way(removals):
    """Between the seal and the switch, or after a rebuild that was broken off."""
    world = make_world(removals=removals)

    class Dying(PassingStore):
        def put(self, key, body, *, if_absent=False):
            self.inner.put(key, body, if_absent=if_absent)
            if key.startswith(LOG):
                raise Crash

    with pytest.raises(Crash):
        execute_rebuild(Dying(world.store), world.plan(), ambient=world.fake.ambient)
    assert world.load().sealed_for == 2
    with pytest.raises(FencedError, match="sealed"):
        write(world.zombie, world.fake)
    with pytest.raises(FencedError, match="lakelog rebuild"):
        write(world.new_owner(), world.fake)
    assert world.zombie.checkpoint() is None  # a seal is never checkpointed
    assert world.live() == set(world.paths)
    assert world.rebuild().incarnation == 2
    assert world.live() == set(world.paths)
    assert world.load().log.incarnation == 2


def test_what_a_zombie_had_begun_before_the_rebuild_is_not_in_it_and_it_is_told():
    world = make_world()
    begun = world.zombie.transaction()
    (path,) = begun.write("hourly", pa.table({"n": [5]}))
    plan = world.plan()
    assert [item.path for item in plan.left_out] == [path]
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    with pytest.raises(FencedError):
        begun.commit()
    assert world.live() == set(world.paths)


def test_what_was_begun_on_a_lost_log_may_have_been_committed_and_is_in_the_new_one():
    world = make_world()
    begun = world.zombie.transaction()
    (path,) = begun.write("hourly", pa.table({"n": [5]}))
    world.lose_the_log()
    world.rebuild()
    info = begun.commit()  # its name is taken, and the log says that it was committed
    assert path in world.live()
    assert info.transaction_id == begun.transaction_id
    assert info.revision == world.load().revision


def test_a_zombie_from_before_the_first_commit_is_fenced():
    world = make_world()
    world.rebuild()
    with pytest.raises(FencedError):
        write(world.early, world.fake)
    assert world.live() == set(world.paths)


def test_a_guest_is_fenced_too():
    world = make_world()
    guest = Catalog(world.store, ambient=world.fake.ambient).writer("EWR", "weather", shared=True)
    world.rebuild()
    before = {info.key for info in world.store.list(LOG)}
    with pytest.raises(FencedError):
        write(guest, world.fake)
    assert {info.key for info in world.store.list(LOG)} == before


def test_a_zombies_checkpoint_lands_in_the_old_incarnation_and_harms_nobody():
    world = make_world(checkpoint_every=0)
    world.rebuild()
    head = world.load().digest
    before = {info.key for info in world.store.list(LOG)}
    session = world.zombie._session
    write_checkpoint(session._log, session._committer.state.copy(), exclusive=True, salt=bytes(16))
    assert new_names(world, before) == {1}
    assert world.load().digest == head
    assert world.load().log.incarnation == 2


def test_a_reader_from_before_goes_on_and_a_token_from_before_is_read():
    world = make_world()
    catalog = Catalog(world.store, ambient=world.fake.ambient)
    snapshot = catalog.snapshot("weather")
    world.rebuild()
    path = write(world.new_owner(), world.fake)
    assert snapshot.refresh().files("hourly").num_rows == 5
    assert path in snapshot.refresh().files("hourly")["path"].to_pylist()
    again = catalog.snapshot("weather", snapshot.token)
    assert set(again.files("hourly")["path"].to_pylist()) == set(world.paths)
    assert again.token == snapshot.token
    assert snapshot.files("hourly").num_rows == 4


def test_the_next_owner_has_a_higher_epoch_than_every_file():
    world = make_world()
    plan = world.plan()
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    assert (plan.seal.epoch, plan.epoch) == (2, 3)
    owner = world.new_owner()
    write(owner, world.fake)
    assert owner.epoch == 4
    assert world.load().epoch == 4


def test_an_epoch_without_files_is_outdone_as_well():
    world = make_world()
    for _ in range(3):  # owners that only removed
        with world.new_owner() as owner, owner.transaction() as tx:
            tx.remove(world.paths.pop())
    assert world.load().epoch == 4
    assert world.plan().epoch == 6


def test_an_epoch_without_commits_is_outdone_as_well():
    world = make_world()
    world.new_owner().transaction().write("hourly", pa.table({"n": [1]}))
    assert (world.load().epoch, world.plan().epoch) == (1, 3)


class Hooked(PassingStore):
    """Calls a function before the nth writing request."""

    def __init__(self, store, at, hook):
        super().__init__(store)
        self.requests, self._at, self._hook = 0, at, hook
        self.sealed = self.hooked_after_seal = False

    def put(self, key, body, *, if_absent=False):
        if self.requests == self._at:
            self._at, self.hooked_after_seal = -1, self.sealed
            self._hook()
        self.requests += 1
        self.inner.put(key, body, if_absent=if_absent)
        self.sealed = self.sealed or (item_of(key) is not None)


@pytest.mark.parametrize("lost", [False, True])
def test_a_commit_at_any_moment_of_a_rebuild_is_refused_or_it_stops_the_rebuild(lost):
    outcomes = {"stopped": 0, "refused": 0}
    at = 0
    while True:
        world = make_world(removals=1, checkpoint_every=0)
        if lost:
            world.lose_the_log()
        acknowledged = []

        def hook(world=world, acknowledged=acknowledged):
            try:
                acknowledged.append(write(world.zombie, world.fake))
            except (FencedError, CorruptError, ForkError):
                outcomes["refused"] += 1

        store = Hooked(world.store, at, hook)
        plan = world.plan(store)
        if acknowledged:
            pytest.fail("planning wrote something")
        try:
            execute_rebuild(store, plan, ambient=world.fake.ambient)
        except PlanOutdated:
            outcomes["stopped"] += 1
            assert acknowledged
            again = world.plan()
            assert set(acknowledged) <= set(again.live)  # nothing is destroyed
            execute_rebuild(world.store, again, ambient=world.fake.ambient)
            assert set(world.paths) | set(acknowledged) <= world.live()
        else:
            assert not acknowledged
            assert world.live() == set(plan.live)
        with pytest.raises(FencedError):
            write(world.zombie, world.fake)
        if store.requests <= at:
            break
        at += 1
    assert at > 5
    assert outcomes["stopped"] >= 1
    assert outcomes["refused"] >= 4


def test_what_lies_below_the_seals_can_still_be_read_by_tokens():
    """Names are taken above the head only: a second name on a revision would be a fork."""
    world = make_world(commits=6, checkpoint_every=0)
    catalog = Catalog(world.store, ambient=world.fake.ambient)
    tokens = [catalog.snapshot("weather", {"EWR": revision}).token for revision in range(4)]
    gone = [i.key for i in world.store.list(LOG) if item_of(i.key).revision >= 4]
    world.store.delete(gone)
    plan = world.plan()
    assert plan.seal.others
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    for revision, token in enumerate(tokens):
        assert catalog.snapshot("weather", token).files("hourly").num_rows == revision + 1


def test_a_predecessor_without_put_if_absent_is_refused():
    inner = MemoryStore()
    store, fake = PlainStore(inner), FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    zombie = catalog.writer("EWR", "weather")
    paths = {write(zombie, fake) for _ in range(3)}
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    with pytest.raises(FencedError):
        write(zombie, fake)
    assert set(catalog.snapshot("weather").files("hourly")["path"].to_pylist()) == paths
