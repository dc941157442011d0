"""A rebuild is written: it dies at each of its writing requests, two run at once, somebody commits
meanwhile, and those who had the log open before go on afterwards."""

from __future__ import annotations

import contextlib
import warnings

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.checkpointer import write_checkpoint
from lakelog.catalog.format.names import mirror_segments_folder, parse_log_object
from lakelog.catalog.read.mirror import MirrorWarning
from lakelog.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    ForkError,
    PlanOutdated,
    StorageError,
    UsageError,
)
from lakelog.plans import open_source
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.rebuild.plan import survey
from lakelog.store.memory import MemoryStore
from lakelog.testing.crashing import Crash, CrashingStore
from lakelog.testing.doubles import FoldingStore, PassingStore, PlainStore
from rebuild_cases import BASE, LOG, MIRROR, item_of
from sample import EVERY, some
from zombie_world import World, make_world, new_names, write

LOSSES = ("all", "a middle one", "the head", "the end", "nothing")


def everything(store) -> dict[str, bytes]:
    return {info.key: store.get(info.key) for info in store.list("")}


def lost_world(lost: str, *, plain: bool = False) -> World:
    """A log of six revisions, of which something is lost in both copies."""
    world = make_world(commits=6, checkpoint_every=0, plain=plain)
    gone = {"all": set(range(6)), "a middle one": {2}, "the head": {5}, "the end": {4, 5}}
    world.lose(gone.get(lost, set()))
    return world


def check_whole(world: World) -> None:
    """Every row is there, and a new owner goes on."""
    assert world.live() == set(world.paths)
    path = write(world.new_owner(), world.fake)
    assert world.live() == {*world.paths, path}


def check_copies(world: World) -> None:
    """What the new incarnation begins with is there twice."""
    segments = mirror_segments_folder("EWR", "weather")
    now = everything(world.store)
    own = [key for key in now if key.startswith(LOG) and key.endswith("checkpoint")]
    key = max(own, key=lambda one: item_of(one).incarnation)
    assert now[MIRROR + key.removeprefix(LOG)] == now[key]
    for key in now:
        if key.startswith(f"{BASE}segments/"):
            mirrored = now.get(segments + key.rsplit("/", 1)[-1], now[key])
            assert mirrored == now[key]


# --- Deaths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, EVERY])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("lost", LOSSES)
def test_a_death_at_any_request_is_repaired_by_running_it_again(lost, plain, count):
    counting = CrashingStore(lost_world(lost, plain=plain).store)
    execute_rebuild(counting, plan_rebuild(counting, "EWR", "weather"))
    places = [(at, after) for after in (False, True) for at in range(counting.requests)]
    for at, after in some(f"{lost} {plain}", places, count):
        world = lost_world(lost, plain=plain)
        before = everything(world.store)
        dying = CrashingStore(world.store, at, after=after)
        plan = world.plan(dying)
        with pytest.raises(Crash):
            execute_rebuild(dying, plan, ambient=world.fake.ambient)
        assert before.items() <= everything(world.store).items(), "something is changed or gone"
        now = everything(world.store)
        if (at + after) % 2:
            with contextlib.suppress(PlanOutdated):
                execute_rebuild(world.store, plan, ambient=world.fake.ambient)
        else:
            world.rebuild()
        assert now.items() <= everything(world.store).items(), "the second one changed the first"
        check_copies(world)
        check_whole(world)


def test_the_old_incarnation_is_left_with_two_copies_of_all_it_had():
    """The writer died with two copies to put, and nobody opens a sealed incarnation for writing."""
    world = make_world(commits=6, checkpoint_every=0)
    log = [info.key for info in world.store.list(LOG) if item_of(info.key).revision >= 4]
    world.store.delete([MIRROR + key.removeprefix(LOG) for key in log])
    old = {key: body for key, body in everything(world.store).items() if key.startswith(LOG)}
    assert len(old) == 6
    world.rebuild()
    now = everything(world.store)
    for key, body in old.items():
        assert now[MIRROR + key.removeprefix(LOG)] == body


def test_the_newest_state_is_that_of_the_mirror_if_only_that_is_left():
    """What was removed before the log was pruned stays removed: only a checkpoint knows of it."""
    world = make_world(commits=4, removals=1, checkpoint_every=0)
    with world.new_owner() as owner:
        key = LOG + owner.checkpoint().key.rsplit("/", 1)[-1]
    before = world.live()
    world.store.put(MIRROR + key.removeprefix(LOG), world.store.get(key))
    world.lose(set(range(4)))
    world.store.delete([info.key for info in world.store.list(LOG)])
    with pytest.warns(MirrorWarning):
        plan = world.plan()
    assert plan.is_whole
    assert (plan.base, plan.notes) == ((1, 4), ())
    world.rebuild()
    assert world.live() == before


def test_the_same_plan_goes_on_after_a_death():
    world = lost_world("a middle one")
    plan = world.plan()
    with pytest.raises(Crash):
        execute_rebuild(CrashingStore(world.store, 6), plan, ambient=world.fake.ambient)
    info = execute_rebuild(world.store, RebuildPlan.from_json(plan.to_json()))
    assert (info.incarnation, info.revision) == (2, plan.revision)
    assert execute_rebuild(world.store, plan) == info  # once more: all of it stands
    check_whole(world)


def test_what_does_not_read_back_stops_before_the_switch(monkeypatch):
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)

    class Bad(PassingStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body[:-1] if "/segments/" in key else body, if_absent=if_absent)

    world = make_world(checkpoint_every=0)
    with pytest.raises(CorruptError):
        execute_rebuild(Bad(world.store), world.plan(), ambient=world.fake.ambient)
    own = [item_of(key) for key in everything(world.store) if key.startswith(LOG)]
    assert max(item.incarnation for item in own) == 1


# --- Two at once ----------------------------------------------------------------------------------


class Hooked(PassingStore):
    """Calls a function before the nth put."""

    def __init__(self, store, at, hook):
        super().__init__(store)
        self.puts, self._at, self._hook = 0, at, hook

    def put(self, key, body, *, if_absent=False):
        self.puts += 1
        if self.puts == self._at:
            self._hook()
        self.inner.put(key, body, if_absent=if_absent)


@pytest.mark.parametrize("count", [5, EVERY])
@pytest.mark.parametrize("lost", ["all", "a middle one", "nothing"])
def test_of_two_at_once_one_stands(lost, count):
    """The second was planned before the first begins, and runs whole at each of its puts."""
    alone = Hooked(lost_world(lost).store, 0, None)
    execute_rebuild(alone, plan_rebuild(alone, "EWR", "weather"))
    stood = {"first": 0, "second": 0}
    for at in [1, 2, *some(lost, range(3, alone.puts + 1), count), alone.puts]:
        world = lost_world(lost)
        second = world.plan()

        def run(world=world, second=second):
            with contextlib.suppress(PlanOutdated):
                execute_rebuild(world.store, second, ambient=world.fake.ambient)
                stood["second"] += 1

        store = Hooked(world.store, at, run)
        with contextlib.suppress(PlanOutdated):
            execute_rebuild(store, world.plan(store), ambient=world.fake.ambient)
            stood["first"] += 1
        opened = {i.key for i in world.store.list(LOG) if item_of(i.key).incarnation > 1}
        assert len(opened) == 1, "two logs stand side by side"
        check_whole(world)
    assert min(stood.values()) >= 1


@pytest.mark.parametrize("lost", ["nothing", "all"])
def test_a_commit_at_any_moment_is_refused_or_it_stops_the_rebuild(lost):
    outcomes = {"stopped": 0, "refused": 0}
    alone = Hooked(lost_world(lost).store, 0, None)
    execute_rebuild(alone, plan_rebuild(alone, "EWR", "weather"))
    for at in range(1, min(alone.puts, 24) + 1):
        world = lost_world(lost)
        acknowledged = []

        def hook(world=world, acknowledged=acknowledged):
            try:
                acknowledged.append(write(world.zombie, world.fake))
            except (FencedError, CorruptError, ForkError):
                outcomes["refused"] += 1

        store = Hooked(world.store, at, hook)
        plan = world.plan(store)
        try:
            execute_rebuild(store, plan, ambient=world.fake.ambient)
        except PlanOutdated:
            outcomes["stopped"] += 1
            world.rebuild()
        assert {*world.paths, *acknowledged} <= world.live()
        with pytest.raises((FencedError, CorruptError)):
            write(world.zombie, world.fake)
    assert outcomes["stopped"] >= 1
    assert outcomes["refused"] >= 3


# --- Who had the log open -------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["zombie", "early", "guest"])
def test_a_committer_from_before_is_fenced(which):
    world = make_world(removals=1)
    if which == "guest":
        world.zombie = Catalog(world.store, ambient=world.fake.ambient).writer(
            "EWR", "weather", shared=True
        )
    world.rebuild()
    before = {info.key for info in world.store.list(LOG)}
    for _ in range(2):
        with pytest.raises(FencedError, match=r"sealed|incarnation 2|taken over"):
            write(world.early if which == "early" else world.zombie, world.fake)
    assert {info.key for info in world.store.list(LOG)} == before
    check_whole(world)


def test_a_log_without_any_object_below_data_is_rebuilt():
    """Nothing but the rebuild itself says when the incarnation was begun."""
    world = make_world(commits=1, removals=1)
    world.store.delete([info.key for info in world.store.list(f"{BASE}data/")])
    world.rebuild()
    state = world.load()
    assert state.begun_at_us == state.committed_at_us
    check_whole(world)


def test_who_opened_before_there_was_a_log_takes_back_no_file_that_a_rebuild_took_in():
    world = make_world(commits=0)
    tx = world.early.transaction()
    tx.write("hourly", pa.table({"n": [2]}))
    world.paths.append(write(world.zombie, world.fake))
    world.rebuild()
    with pytest.raises(FencedError):
        tx.commit()
    live = world.live()
    assert len(live) == 2
    assert {BASE + path for path in live} <= everything(world.store).keys()


def begun_over_remains() -> World:
    """A log whose owner opened before the loss of the one before, of which the end is left."""
    world = make_world(commits=2, checkpoint_every=0)
    world.lose({0, 1})
    world.paths += [write(world.zombie, world.fake), write(world.early, world.fake)]
    with pytest.raises(CorruptError):
        world.load()
    return world


@pytest.mark.parametrize("at", [None, *range(0, 24, 4)])
def test_a_log_that_was_begun_over_the_remains_of_a_lost_one(at):
    """They are no news of it, and nobody goes on in either. Perhaps the first attempt dies."""
    world = begun_over_remains()
    if at is not None:
        dying = CrashingStore(world.store, at)
        plan = world.plan(dying)
        with pytest.raises(Crash):
            execute_rebuild(dying, plan, ambient=world.fake.ambient)
    world.rebuild()
    for writer in (world.early, world.zombie):
        with pytest.raises(FencedError):
            write(writer, world.fake)
    check_whole(world)


def test_between_seal_and_switch_nobody_commits():
    world = make_world()

    class Dying(PassingStore):
        def put(self, key, body, *, if_absent=False):
            self.inner.put(key, body, if_absent=if_absent)
            if key.startswith(LOG):
                raise Crash

    with pytest.raises(Crash):
        execute_rebuild(Dying(world.store), world.plan(), ambient=world.fake.ambient)
    with pytest.raises(FencedError, match="sealed"):
        write(world.zombie, world.fake)
    with pytest.raises((FencedError, CorruptError), match="rebuild"):
        write(world.new_owner(), world.fake)
    assert world.zombie.checkpoint() is None  # a seal is never checkpointed
    assert world.rebuild().incarnation == 2
    assert set(world.paths) <= world.live()


def test_a_zombies_checkpoint_lands_in_the_old_incarnation_and_harms_nobody():
    world = make_world(checkpoint_every=0)
    world.rebuild()
    before = {info.key for info in world.store.list(LOG)}
    session = world.zombie._session
    write_checkpoint(session._log, session._committer.state.copy(), exclusive=True, salt=bytes(16))
    assert new_names(world, before) == {1}
    check_whole(world)


def test_a_reader_from_before_goes_on_and_tokens_from_before_are_read():
    world = make_world()
    catalog = Catalog(world.store, ambient=world.fake.ambient)
    snapshot = catalog.snapshot("weather")
    tokens = [catalog.snapshot("weather", {"EWR": n}).token for n in range(4)]
    world.rebuild()
    path = write(world.new_owner(), world.fake)
    assert path in snapshot.refresh().files("hourly")["path"].to_pylist()
    for revision, token in enumerate(tokens):
        assert catalog.snapshot("weather", token).files("hourly").num_rows == revision + 1


def test_the_rebuilt_log_is_above_all_that_was_seen():
    world = make_world()
    world.new_owner().transaction().write("hourly", pa.table({"n": [1]}))  # an epoch of no commit
    head = world.load()
    plan = world.plan()
    assert plan.epoch > 2
    assert plan.revision > head.revision
    info = execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    assert info.revision == plan.revision
    assert world.load().epoch == plan.epoch


# --- Plans ----------------------------------------------------------------------------------------


def test_a_plan_is_void_once_data_came_or_the_log_went_on():
    for what in ("data", "log", "rebuilt"):
        world = lost_world("a middle one")
        plan = world.plan()
        if what == "data":
            world.store.put(f"{BASE}data/_/hourly/x.parquet", b"junk")
        elif what == "log":
            with contextlib.suppress(ConflictError, CorruptError), world.zombie.transaction() as tx:
                tx.evolve("hourly", add={"x": pa.int64()})
            world.zombie.close()
        else:
            world.rebuild()
        before = everything(world.store)
        with pytest.raises(PlanOutdated):
            execute_rebuild(world.store, plan, ambient=world.fake.ambient)
        assert everything(world.store) == before


class CommitsAfterListing(PassingStore):
    """Somebody commits just after the log is listed for the first time."""

    commit = None

    def list(self, prefix, **options):
        found = [*self.inner.list(prefix, **options)]
        if prefix == LOG and self.commit is not None:
            commit, self.commit = self.commit, None
            commit()
        return iter(found)


def test_a_commit_between_listing_and_reading_promises_the_name_of_the_seal():
    world = make_world(commits=2, checkpoint_every=0)
    store = CommitsAfterListing(world.store)
    second = world.new_owner()
    with second:
        first, then = second.transaction(), second.transaction()
        for tx in (first, then):
            tx.write("hourly", pa.table({"n": [1]}))
        store.commit = first.commit
        found = survey(open_source(store, world.fake.ambient), "EWR", "weather", (), ())
        plan = found.plan
        assert (plan.base[1], found.seals[0].revision) == (2, 3)
        then.commit()
    names = {info.key for info in world.store.list(LOG)}
    with pytest.raises(PlanOutdated):
        execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    assert {info.key for info in world.store.list(LOG)} == names, "no seal was put"


def test_a_store_without_put_if_absent():
    world = make_world(plain=True)
    assert isinstance(world.store, PlainStore)
    world.rebuild()
    with pytest.raises(FencedError):
        write(world.zombie, world.fake)
    check_whole(world)


def test_names_above_the_lost_end_are_taken_but_none_below():
    """A second name on a revision that is read would be a fork."""
    world = make_world(commits=6, checkpoint_every=0)
    catalog = Catalog(world.store, ambient=world.fake.ambient)
    tokens = [catalog.snapshot("weather", {"EWR": n}).token for n in range(4)]
    world.lose({4, 5})
    found = survey(open_source(world.store, world.fake.ambient), "EWR", "weather", (), ())
    plan = found.plan
    assert len(found.seals) > 1
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    with pytest.raises((FencedError, CorruptError)):
        write(world.zombie, world.fake)
    for revision, token in enumerate(tokens):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert catalog.snapshot("weather", token).files("hourly").num_rows == revision + 1
    assert world.live() == set(world.paths)
    assert isinstance(world.store, MemoryStore)


def test_a_restore_goes_back_to_a_token_of_the_incarnation_before():
    world = make_world()
    catalog = Catalog(world.store, ambient=world.fake.ambient)
    token = catalog.snapshot("weather", {"EWR": 1}).token
    world.lose({3})
    world.rebuild()
    with world.new_owner() as writer, writer.transaction() as tx:
        tx.remove(world.paths[0])
    write(world.new_owner(), world.fake)
    catalog.restore("weather", to=token, execute=True)
    assert world.live() == set(world.paths[:2])


# --- Listings -------------------------------------------------------------------------------------


class Forgetful(PassingStore):
    """Its listings lack one object."""

    def __init__(self, store, key):
        super().__init__(store)
        self.key = key

    def list(self, prefix, **options):
        return (info for info in self.inner.list(prefix, **options) if info.key != self.key)


def test_a_live_file_that_the_listing_lacks_stops_the_plan():
    world = make_world()
    key = BASE + world.paths[0]
    with pytest.raises(StorageError, match="doesn't show") as caught:
        world.plan(Forgetful(world.store, key))
    assert caught.value.key == key
    world.store.delete([key])
    plan = world.plan()  # one that is gone does not
    assert [one.path for one in plan.left_out if one.kind == "gone"] == [world.paths[0]]
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    assert world.live() == set(world.paths[1:])


# --- What is included on request ------------------------------------------------------------------


def lose_twice(store, revision):
    keys = [info.key for info in store.list("w/db/")]
    names = {key: parse_log_object(key.rsplit("/", 1)[-1]) for key in keys}
    store.delete([key for key, item in names.items() if item and item.revision == revision])


def left_out(plan, kind):
    return {item.transaction_id for item in plan.left_out if item.kind == kind}


def rows_of(store):
    return sorted(Catalog(store).snapshot("db").to_arrow("t").column("a").to_pylist())


def test_the_newest_commit_lost_twice_comes_back_if_it_is_included():
    """Another commit has its revision now: its file looks like that of an attempt that failed."""
    store = MemoryStore("newest")
    for number in (1, 2):
        with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"a": [number]}))
    lose_twice(store, 1)
    for number in (3, 4):
        with Catalog(store).writer("w", "db") as writer, writer.transaction() as tx:
            tx.write("t", pa.table({"a": [number]}))
    plan = plan_rebuild(store, "w", "db")
    assert not plan.transactions
    (lost,) = left_out(plan, "uncommitted")
    plan = plan_rebuild(store, "w", "db", include=[lost])
    assert RebuildPlan.from_json(plan.to_json()) == plan
    execute_rebuild(store, plan)
    assert rows_of(store) == [1, 2, 3, 4]
    with pytest.raises(UsageError, match="leaves no file of a transaction"):
        plan_rebuild(store, "w", "db", include=[lost])


def test_rows_that_only_a_lost_restore_brought_back_come_back_if_they_are_included():
    store = MemoryStore("restored")
    catalog = Catalog(store)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        (path,) = tx.write("t", pa.table({"a": [1]}))
        tx.write("t", pa.table({"a": [2]}))
    token = catalog.snapshot("db").token
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.remove(path)
    catalog.restore("db", to=token, execute=True)
    assert rows_of(store) == [1, 2]
    lose_twice(store, 2)
    assert rows_of(store) == [2]
    plan = plan_rebuild(store, "w", "db")
    (lost,) = left_out(plan, "removed")
    execute_rebuild(store, plan_rebuild(store, "w", "db", include=[lost]))
    assert rows_of(store) == [1, 2]


# --- Stores that show names in another spelling ---------------------------------------------------


@pytest.mark.parametrize("lost", [set(), {1, 2}, {4, 5}, set(range(6))])
def test_files_in_folders_that_a_store_shows_in_another_spelling_are_live(lost):
    """The folders of two tables are one there, in the spelling of the first."""
    store = FoldingStore(MemoryStore("folding"))
    tables = ["Days", "days", "caf\u00e9", "cafe\u0301", "end", "end."]
    with Catalog(store).writer("w", "db", checkpoint_every=0) as writer:
        for number, table in enumerate(tables):
            with writer.transaction() as tx:
                tx.write(table, pa.table({"a": [number]}))
    for revision in lost:
        lose_twice(store, revision)
    plan = plan_rebuild(store, "w", "db")
    assert not left_out(plan, "gone")
    execute_rebuild(store, plan)
    cut = Catalog(store).snapshot("db")
    rows = {table: cut.to_arrow(table).column("a").to_pylist() for table in tables}
    assert rows == {table: [number] for number, table in enumerate(tables)}


def test_a_live_file_that_a_store_shows_in_another_spelling():
    """Its footer says which one it is; if that is damaged, nothing does."""
    store = FoldingStore(MemoryStore("folding"))
    with Catalog(store).writer("w", "db") as writer:
        for table in ("Days", "days"):
            with writer.transaction() as tx:
                (path,) = tx.write(table, pa.table({"a": [1]}))
    assert not plan_rebuild(store, "w", "db").left_out
    store.put(f"w/db/{path}", b"damaged")
    with pytest.raises(StorageError, match="doesn't show"):
        plan_rebuild(store, "w", "db")
