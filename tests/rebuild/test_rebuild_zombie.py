"""Committers that still run while a log is rebuilt, or wake up afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    BrokenChain,
    CommitOutcomeUnknown,
    CorruptError,
    FencedError,
    ForkError,
    LakelogError,
    MissingTransaction,
    PlanOutdated,
)
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, PassingStore

if TYPE_CHECKING:
    from lakelog.catalog.commit.writer import Writer

LOG = "EWR/weather/transactions/"


@dataclass
class World:
    """A log with an owner that has it open.

    Attributes:
        early: Opened before the first commit, and never used since.
        zombie: The owner that committed all there is.
    """

    store: MemoryStore
    fake: FakeAmbient
    early: Writer
    zombie: Writer
    paths: list[str]

    def plan(self, store=None, **options) -> RebuildPlan:
        return plan_rebuild(
            store or self.store, "EWR", "weather", ambient=self.fake.ambient, **options
        )

    def load(self):
        return LogReader(self.store, "EWR", "weather", self.fake.ambient).load()

    def live(self) -> set[str]:
        tables = self.load().tables.values()
        return {path for files in tables for path in files.table().column("path").to_pylist()}

    def new_owner(self) -> Writer:
        return Catalog(self.store, ambient=self.fake.ambient).writer("EWR", "weather")


def make_world(commits: int = 4, removals: int = 0, checkpoint_every: int = 3) -> World:
    store, fake = MemoryStore(), FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    early, zombie = (
        catalog.writer("EWR", "weather", checkpoint_every=checkpoint_every) for _ in range(2)
    )
    world = World(store, fake, early, zombie, [])
    for _ in range(commits):
        world.paths.append(write(zombie, fake))
    for _ in range(removals):
        with zombie.transaction() as tx:
            tx.remove(world.paths.pop())
    return world


def write(writer: Writer, fake: FakeAmbient) -> str:
    fake.move(1)
    with writer.transaction() as tx:
        (path,) = tx.write("hourly", pa.table({"n": [1]}))
    return path


@pytest.mark.parametrize("removals", [0, 1, 3])
def test_a_zombie_is_refused_after_a_rebuild_over_a_readable_log(removals):
    world = make_world(removals=removals)
    info = execute_rebuild(world.store, world.plan(replace=True))
    head = world.load()
    with pytest.raises(BrokenChain):
        write(world.zombie, world.fake)
    assert world.load().digest == head.digest
    assert info.revision == head.revision == 4 + removals  # the name that was promised, no more
    path = write(world.new_owner(), world.fake)
    assert path in world.live()


def test_what_a_zombie_had_begun_before_the_rebuild_is_in_it_and_is_not_called_failed():
    """Its files were there, so the rebuild took it in as unproven, under its own id."""
    world = make_world()
    begun = world.zombie.transaction()
    (path,) = begun.write("hourly", pa.table({"n": [5]}))
    execute_rebuild(world.store, world.plan(replace=True))
    with pytest.raises(CommitOutcomeUnknown):
        begun.commit()
    assert path in world.live()


def test_a_zombie_from_before_the_first_commit_is_fenced():
    world = make_world()
    execute_rebuild(world.store, world.plan(replace=True))
    with pytest.raises(FencedError):
        write(world.early, world.fake)
    assert world.live() == set(world.paths)


def test_a_guest_is_refused_too():
    world = make_world()
    guest = Catalog(world.store, ambient=world.fake.ambient).writer("EWR", "weather", shared=True)
    execute_rebuild(world.store, world.plan(replace=True))
    before = {info.key for info in world.store.list(LOG)}
    with pytest.raises(LakelogError):
        write(guest, world.fake)
    assert {info.key for info in world.store.list(LOG)} == before


def test_a_reader_from_before_notices_and_a_token_from_before_is_refused():
    world = make_world()
    catalog = Catalog(world.store, ambient=world.fake.ambient)
    snapshot = catalog.snapshot("weather")
    execute_rebuild(world.store, world.plan(replace=True))
    with pytest.raises(LakelogError):
        snapshot.refresh()
    with pytest.raises(LakelogError, match="another transaction"):
        catalog.snapshot("weather", snapshot.token)
    assert catalog.snapshot("weather").files("hourly").num_rows == 4


def test_the_next_owner_has_a_higher_epoch_than_every_file():
    world = make_world()
    plan = world.plan(replace=True)
    execute_rebuild(world.store, plan)
    assert plan.epoch == 2
    owner = world.new_owner()
    write(owner, world.fake)
    assert owner.epoch == 3
    assert world.load().epoch == 3


def test_an_epoch_without_files_is_outdone_as_well():
    world = make_world()
    for _ in range(3):  # owners that only removed
        with world.new_owner() as owner, owner.transaction() as tx:
            tx.remove(world.paths.pop())
    assert world.load().epoch == 4
    assert world.plan(replace=True).epoch == 5


class Hooked(PassingStore):
    """Calls a function before the nth writing request."""

    def __init__(self, store, at, hook):
        super().__init__(store)
        self.requests, self._at, self._hook = 0, at, hook

    def _count(self):
        if self.requests == self._at:
            self._at = -1
            self._hook()
        self.requests += 1

    def put(self, key, body, *, if_absent=False):
        self._count()
        self.inner.put(key, body, if_absent=if_absent)

    def delete(self, keys, *, ordered=True):
        self._count()
        self.inner.delete(keys, ordered=ordered)


def test_a_commit_at_any_moment_of_a_rebuild_is_refused_or_it_stops_the_rebuild():
    outcomes = {"stopped": 0, "refused": 0}
    at = 0
    while True:
        world = make_world(removals=1, checkpoint_every=0)
        acknowledged = []

        def hook(world=world, acknowledged=acknowledged):
            try:
                acknowledged.append(write(world.zombie, world.fake))
            except CorruptError:
                outcomes["refused"] += 1

        store = Hooked(world.store, at, hook)
        plan = world.plan(store, replace=True)
        if acknowledged:
            pytest.fail("planning wrote something")
        try:
            execute_rebuild(store, plan, ambient=world.fake.ambient)
        except PlanOutdated:
            outcomes["stopped"] += 1
            assert acknowledged
            assert set(acknowledged) <= world.live()
            assert set(world.paths) <= world.live()  # nothing is destroyed
        else:
            assert not acknowledged
            assert world.live() == set(plan.live)
        if store.requests <= at:
            break
        at += 1
    assert at > 10
    assert outcomes["stopped"] >= 4
    assert outcomes["refused"] >= 4


@pytest.mark.parametrize("removals", [0, 1, 2])
def test_with_nothing_left_of_the_log_a_zombie_breaks_the_new_one_and_rebuild_repairs(removals):
    """The limit: the promised name died with the log. It is said in the plan, readers notice,
    and the zombie's files are not lost."""
    world = make_world(removals=removals, checkpoint_every=0)
    world.store.delete([info.key for info in world.store.list(LOG)])
    plan = world.plan()
    assert any("Stop every process" in note for note in plan.notes)
    execute_rebuild(world.store, plan)
    zombies = write(world.zombie, world.fake)  # acknowledged: nothing tells it
    with pytest.raises((BrokenChain, ForkError, MissingTransaction)):
        world.load()
    with pytest.raises(CorruptError):
        world.new_owner()
    again = world.plan(replace=True)
    execute_rebuild(world.store, again)
    assert world.live() == set(plan.live) | {zombies}
    write(world.new_owner(), world.fake)


def test_a_zombie_that_also_writes_a_checkpoint_can_hide_commits_until_another_rebuild():
    """The worst of that limit: its checkpoint stands above what a new owner committed. No file is
    lost, and another rebuild shows all of them."""
    world = make_world(removals=1, checkpoint_every=0)
    world.store.delete([info.key for info in world.store.list(LOG)])
    execute_rebuild(world.store, world.plan())
    newer = write(world.new_owner(), world.fake)
    zombies = write(world.zombie, world.fake)
    world.zombie.checkpoint()
    assert newer not in world.live()
    execute_rebuild(world.store, world.plan(replace=True))
    assert {newer, zombies, *world.paths} <= world.live()


def test_a_head_that_cant_be_read_is_said_to_let_zombies_in():
    world = make_world()
    head = max(info.key for info in world.store.list(LOG) if info.key.endswith("transaction"))
    world.store.put(head, world.store.get(head)[:-1])
    plan = world.plan(replace=True)
    assert any("the old log's end can't be read" in note for note in plan.notes)
    readable = make_world().plan(replace=True)
    assert any("is refused from the first request on" in note for note in readable.notes)


def test_one_transaction_over_a_log_that_cant_be_read():
    """The name of revision 0 is the same in every log: the new one needs another name on top."""
    world = make_world(commits=1, checkpoint_every=0)
    (only,) = (info.key for info in world.store.list(LOG))
    world.store.put(only, world.store.get(only)[:-1])
    info = execute_rebuild(world.store, world.plan(replace=True))
    assert (info.revision, info.transactions) == (1, 1)
    assert world.live() == set(world.paths)


def test_a_long_old_log_is_not_padded_without_end(monkeypatch):
    from lakelog.rebuild import old_log

    monkeypatch.setattr(old_log, "MAX_PADDING", 2)
    world = make_world(removals=2)
    assert world.plan(replace=True).padding == 0
    plan = world.plan(replace=True)
    assert any("the old log is longer" in note for note in plan.notes)
    info = execute_rebuild(world.store, plan)
    assert info.revision == 3
    assert world.live() == set(plan.live)
