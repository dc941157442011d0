"""Zombies of a log of which much or all was lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    CommitOutcomeUnknown,
    FencedError,
    ForkError,
)
from lakelog.rebuild import execute_rebuild
from lakelog.testing.crashing import Crash, CrashingStore
from rebuild_cases import BASE, LOG, item_of
from zombie_world import make_world, new_names, write


@pytest.mark.parametrize("removals", [0, 1, 2, 9])
def test_with_nothing_left_of_the_log_footers_tell_which_names_a_zombie_may_still_use(removals):
    world = make_world(commits=10, removals=removals, checkpoint_every=0)
    guest = Catalog(world.store, ambient=world.fake.ambient).writer("EWR", "weather", shared=True)
    world.paths.append(write(guest, world.fake))
    world.lose_the_log()
    plan = world.plan()
    assert any("Stop every process" in note for note in plan.notes)
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    before = {info.key for info in world.store.list(LOG)}
    for zombie in (world.zombie, guest, world.early):
        with pytest.raises(FencedError):
            write(zombie, world.fake)
    assert {info.key for info in world.store.list(LOG)} == before
    path = write(world.new_owner(), world.fake)
    assert world.live() == {*plan.live, path}


@pytest.mark.parametrize("readable", [False, True])
def test_with_nothing_left_of_the_log_the_new_one_is_above_all_epochs_of_files(readable):
    """Whether a footer can be read or not: the name tells the epoch as well."""
    world = make_world(commits=1)
    for _ in range(4):
        with world.new_owner() as owner:
            path = write(owner, world.fake)
    assert owner.epoch == 5
    if not readable:
        world.store.put(f"EWR/weather/{path}", b"no Parquet")
    world.lose_the_log()
    world.rebuild()
    assert world.load().epoch == 6
    assert world.new_owner().epoch == 7


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("moment", ["lost", "sealed", "rebuilt"])
@pytest.mark.parametrize("also", ["write", "remove"])
@pytest.mark.parametrize("told", [False, True])
def test_a_zombie_that_no_footer_tells_of_is_never_told_of_success(told, shared, moment, also):
    """It has only removed files. Where its object of actions is there, a rebuild takes the name
    that it was promised. Else that died with the log, and no rebuild can take it: it looks at the
    log itself before it believes that it has committed."""
    world = make_world(checkpoint_every=0)
    remover = world.zombie
    if shared:
        remover = Catalog(world.store, ambient=world.fake.ambient).writer(
            "EWR", "weather", shared=True
        )
    else:
        remover = world.new_owner()
    with remover.transaction() as tx:
        tx.remove(world.paths[0])
    world.lose_the_log()
    actions = [
        info.key for info in world.store.list(f"{BASE}data/") if info.key.endswith(".actions")
    ]
    assert len(actions) == 1
    if not told:
        world.store.delete(actions)
    if moment == "sealed":
        with pytest.raises(Crash):
            execute_rebuild(CrashingStore(world.store, 8), world.plan(), ambient=world.fake.ambient)
    elif moment == "rebuilt":
        world.rebuild()
    before = {info.key for info in world.store.list(LOG)}
    refused = FencedError if moment == "rebuilt" else (CommitOutcomeUnknown, ForkError)
    tx = remover.transaction()
    if also == "write":
        tx.write("hourly", pa.table({"n": [1]}))
    else:
        tx.remove(world.paths[1])
    for _ in range(2):
        with pytest.raises(refused):
            tx.commit()
    is_taken = told and moment != "lost"
    assert new_names(world, before) == (set() if is_taken else {1})  # put, and not acknowledged
    if moment != "rebuilt":
        world.rebuild()
    assert world.load().log.incarnation == 2
    live = world.live()
    with pytest.raises(FencedError):
        write(remover, world.fake)
    assert world.live() == live
    path = write(world.new_owner(), world.fake)
    assert world.live() == {*live, path}


def test_a_remover_of_a_log_that_is_well_is_told_of_success():
    world = make_world(commits=6, checkpoint_every=0)
    for path in world.paths[:4]:
        with world.zombie.transaction() as tx:
            tx.remove(path)
    assert world.live() == set(world.paths[4:])
    assert world.load().revision == 9


def test_a_head_that_cant_be_read_is_said_to_let_zombies_in():
    world = make_world()
    newest = max(
        (info.key for info in world.store.list(LOG) if info.key.endswith("transaction")),
        key=lambda key: item_of(key).revision,
    )
    checkpoints = [i.key for i in world.store.list(LOG) if i.key.endswith("checkpoint")]
    world.store.delete([key for key in checkpoints if item_of(key).revision == 3])
    world.store.put(newest, world.store.get(newest)[:-1])
    plan = world.plan()
    assert any("the old log's end can't be read" in note for note in plan.notes)
    execute_rebuild(world.store, plan, ambient=world.fake.ambient)
    with pytest.raises(FencedError):
        write(world.zombie, world.fake)
    readable = make_world().plan()
    assert any("is refused from the first request on" in note for note in readable.notes)


def test_one_transaction_over_a_log_that_cant_be_read():
    world = make_world(commits=1, checkpoint_every=0)
    (only,) = (info.key for info in world.store.list(LOG))
    world.store.put(only, world.store.get(only)[:-1])
    info = world.rebuild()
    assert (info.revision, info.transactions) == (0, 1)
    assert world.live() == set(world.paths)
    for zombie in (world.zombie, world.early):
        with pytest.raises(FencedError):
            write(zombie, world.fake)
