"""What came back is never taken by gc, whatever comes between; prune, rebuild and seals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cases import World
from hooked import HookedStore, SlowListing
from lakelog.errors import (
    ConflictError,
    SnapshotPruned,
    TransactionExpired,
    UsageError,
)
from lakelog.gc import Deletion, execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild


@pytest.fixture
def world():
    return World()


def restore(world, to, table=None, **options):
    return world.catalog.restore("weather", table, to=to, **{"execute": True, **options})


def test_gc_leaves_what_came_back_whatever_its_epoch_and_age(world):
    first = world.write(1)
    before = world.token
    world.take_out(first)
    for value in range(3):  # each by a new owner: the epoch of the first is long superseded
        world.write(10 + value)
    world.clock.now_s += 30 * 86_400
    restore(world, before)
    world.prune()
    with pytest.raises(SnapshotPruned):
        world.catalog.snapshot("weather", before)
    world.clock.now_s += 30 * 86_400
    report = world.gc()
    assert report.deleted_objects == 3  # what came since and went with the restore
    assert world.rows() == [1]


def test_a_plan_of_gc_that_names_what_came_back_takes_nothing(world):
    """Wherever it comes from: it is held against the log again."""
    first = world.write(1)
    before = world.token
    world.take_out(first)
    other = world.write(2)
    world.take_out(other)
    restore(world, before)
    world.prune()
    world.clock.now_s += 8 * 86_400
    plan = plan_gc(world.catalog, "oslo", "weather")
    assert [action.key for action in plan.actions] == [f"oslo/weather/{other}"]
    key = f"oslo/weather/{first}"
    false = (Deletion(key, len(world.store.get(key)), "left over"),)
    report = execute_gc(world.catalog, replace(plan, actions=false))
    assert (report.deleted_objects, world.rows()) == (0, [1])


def test_a_point_that_is_pruned_while_it_is_gone_back_to_is_told(world):
    """Prune and gc come when the restore is about to put its commit: the files go, and nobody is
    told of a success."""
    first = world.write(1)
    before = world.token
    world.take_out(first)
    world.write(2)
    after = world.token
    with world.writer() as writer:
        writer.checkpoint()
    world.clock.now_s += 2 * 86_400
    calm = world.store

    def meanwhile(request, key):
        if request == "put" and key.endswith(".transaction"):
            world.store = calm
            world.prune()
            assert world.gc().deleted_objects == 1  # epochs are superseded: at once

    world.store = HookedStore(calm, meanwhile)
    with pytest.raises(TransactionExpired, match="pruned meanwhile"):
        restore(world, before)
    assert restore(world, after).is_done  # as it tells to do
    assert world.rows() == [2]


def test_a_commit_just_before_prune_keeps_its_files(world):
    """Prune and gc come right after the put: the restore is a success or is told to be in doubt,
    and its files are there in either case."""
    first = world.write(1)
    before = world.token
    world.take_out(first)
    world.write(2)
    with world.writer() as writer:
        writer.checkpoint()
    world.clock.now_s += 2 * 86_400
    calm = world.store

    def meanwhile(request, key):
        if request == "put" and key.endswith(".transaction"):
            world.store.after = after

    def after():
        world.store = calm
        world.prune()
        world.gc()

    world.store = HookedStore(calm, meanwhile)
    with pytest.raises(TransactionExpired, match="pruned meanwhile"):
        restore(world, before)
    assert world.rows() == [1]


def test_gc_whose_listing_of_the_log_misses_both_sees_the_commit(world):
    """A listing is not of one moment. This one began before a restore, so that it doesn't show its
    commit, and ended after a prune, so that it doesn't show the revision gone back to."""
    first = world.write(1)
    before = world.token
    world.take_out(first)
    world.write(2)
    with world.writer() as writer:
        writer.checkpoint()
    world.clock.now_s += 8 * 86_400
    calm = world.store

    def meanwhile():
        world.store = calm
        restore(world, before)
        plan = plan_prune(world.catalog, "oslo", "weather", keep_revisions=1)
        assert execute_prune(world.catalog, plan).deleted_objects

    world.store = SlowListing(calm, "oslo/weather/transactions/", meanwhile)
    plan = plan_gc(world.catalog, "oslo", "weather")
    assert f"oslo/weather/{first}" not in {action.key for action in plan.actions}
    with pytest.raises(SnapshotPruned):
        world.catalog.snapshot("weather", before)
    assert world.rows() == [1]


def test_a_rebuild_after_a_restore_gives_the_same_rows(world):
    first = world.write(1)
    before = world.token
    world.take_out(first)
    world.write(2)
    restore(world, before)
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, "oslo", "weather"))
    assert world.rows() == [1]
    with pytest.raises(UsageError, match="another incarnation"):
        restore(world, before)
    world.clock.now_s += 30 * 86_400
    world.gc()
    assert world.rows() == [1]


def test_a_sealed_log_takes_no_restore(world):
    from lakelog.testing.rebuilt import seal

    world.write(1)
    before = world.token
    world.write(2)
    seal(world.store, "oslo", "weather")
    with pytest.raises(ConflictError):
        restore(world, before)
