"""What came back is never taken by gc, whatever comes between; prune, rebuild and seals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cases import World
from hooked import HookedStore, SlowListing
from lakelog.errors import (
    CorruptObject,
    PlanOutdated,
    SnapshotPruned,
    TransactionExpired,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.plan import Deletion
from lakelog.gc.prune import execute_prune, plan_prune
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
    # What came since and went with the restore, and what told of a removal that no longer holds.
    assert report.deleted_objects == 3
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
    files = [action.key for action in plan.actions]
    assert files == [f"oslo/weather/{other}"]
    key = f"oslo/weather/{first}"
    false = (Deletion(key, len(world.store.get(key)), "left over"),)
    report = execute_gc(world.catalog, replace(plan, actions=false))
    assert (report.deleted_objects, world.rows()) == (0, [1])


def long_ago(world):
    """A file that was removed days ago, by an owner before the last; the token of before, and what
    is there now."""
    first = world.write(1)
    before = world.token
    world.take_out(first)
    world.write(2)
    with world.writer() as writer:
        writer.checkpoint()
    world.clock.now_s += 8 * 86_400
    return before, world.token


def prune(world):
    plan = plan_prune(world.catalog, "oslo", "weather", keep_revisions=1)
    assert execute_prune(world.catalog, plan).deleted_objects


def at_put(world, number, what):
    """Do something right before (`what(calm)`) the put of so many transactions from now."""
    calm, left = world.store, [number]

    def before(request, key):
        if key.endswith(".transaction") and "/mirror/" not in key:
            left[0] -= 1
            if not left[0]:
                world.store = calm
                what()

    world.store = HookedStore(calm, before)
    return world.store


def prune_and_gc_at_put(world, number, *, takes):
    """Prune and gc, which takes so many objects, right before that put."""

    def meanwhile():
        prune(world)
        assert world.gc().deleted_objects == takes

    at_put(world, number, meanwhile)


def operations(world):
    return world.catalog.history("weather").column("operation").to_pylist()


def test_what_was_removed_just_now_comes_back_in_one_commit(world):
    first = world.write(1)
    before = world.token
    world.take_out(first)
    restore(world, before)
    assert operations(world) == ["append", "delete", "overwrite"]


def test_what_was_removed_long_ago_is_named_before_it_comes_back(world):
    before, _ = long_ago(world)
    restore(world, before)
    assert operations(world)[-2:] == ["maintenance", "overwrite"]
    assert world.rows() == [1]
    execute_change = world.catalog.history("weather").to_pylist()[-2]
    assert "lakelog.keeps" in execute_change["summary"]
    assert (execute_change["rows_added"], execute_change["rows_removed"]) == (1, 1)
    since = {"oslo": execute_change["revision"] - 1}
    assert world.rows(as_of=since) == world.rows(as_of={"oslo": execute_change["revision"]}) == [2]
    until = {"oslo": execute_change["revision"]}
    assert world.catalog.changes("weather", "hourly", since, until).read_all().num_rows == 0


def test_a_point_that_is_pruned_while_it_is_gone_back_to_is_told(world):
    """Prune and gc come before anything is put: the files are gone, and no row changes."""
    before, _ = long_ago(world)

    prune_and_gc_at_put(world, 1, takes=1)
    with pytest.raises(SnapshotPruned, match="while it was gone back to"):
        restore(world, before)
    assert world.rows() == [2]
    world.write(3)
    assert world.rows() == [2, 3]


def test_a_point_that_is_pruned_after_its_files_are_named_again_may_go(world):
    """Prune and gc come between the two commits."""
    before, _ = long_ago(world)

    prune_and_gc_at_put(world, 2, takes=0)
    assert restore(world, before).is_done
    with pytest.raises(SnapshotPruned):
        world.catalog.snapshot("weather", before)
    assert world.rows() == [1]


def test_who_stands_still_between_the_two_commits_is_told(world):
    before, _ = long_ago(world)

    def meanwhile():
        world.clock.now_s += 2 * 86_400

    at_put(world, 2, meanwhile)
    with pytest.raises(TransactionExpired, match="stood still"):
        restore(world, before)


def test_a_table_whose_restore_stopped_after_its_files_were_named_is_written_again(world):
    """It was dropped: that the log knows schemas from before drops no column of what comes."""
    world.write(1)
    before = world.token
    world.catalog.drop("weather", "hourly", execute=True)
    world.clock.now_s += 8 * 86_400
    at_put(world, 2, lambda: world.write(3, table="other"))
    with pytest.raises(PlanOutdated):
        restore(world, before)
    assert "hourly" in world.catalog.snapshot("weather").tables()
    world.write(2)
    assert world.rows() == [2]
    restore(world, before)
    assert world.rows() == [1]


def test_who_commits_between_the_two_stops_it(world):
    before, _ = long_ago(world)
    at_put(world, 2, lambda: world.write(3))
    with pytest.raises(PlanOutdated):
        restore(world, before)
    assert world.rows() == [2, 3]


def test_files_without_end_are_named_in_several_commits(world, monkeypatch):
    from lakelog.catalog.commit import execute_change

    monkeypatch.setattr(execute_change, "_AT_ONCE", 4)
    paths = [world.write(value) for value in range(5)]
    before = world.token
    world.catalog.drop("weather", "hourly", execute=True)
    with world.writer() as writer:
        writer.checkpoint()
    world.clock.now_s += 8 * 86_400
    restore(world, before)
    *_, one, two, three, last = world.catalog.history("weather").to_pylist()
    assert last["operation"] == "overwrite"
    for commit in (one, two, three):  # in none of them is a row
        assert commit["operation"] == "maintenance"
        snapshot = world.catalog.snapshot("weather", {"oslo": commit["revision"]})
        assert snapshot.files("hourly").num_rows == 0
    assert world.rows() == list(range(len(paths)))


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
    restore(world, before)  # to an earlier incarnation
    assert world.rows() == [1]
    world.clock.now_s += 30 * 86_400
    world.gc()
    assert world.rows() == [1]


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "lost"])
@pytest.mark.parametrize("mode", ["predicate", "rows"])
def test_a_rebuild_keeps_the_deletes_of_what_came_back_after_long(world, mode, lost):
    """A commit between names the files; what is said of the deletes is of one base all the same."""
    first = world.write(1, 2, 3)
    with world.writer() as writer, writer.transaction() as tx:
        tx.delete("hourly", "n = 2", mode=mode)
    before = world.token
    world.take_out(first)
    world.clock.now_s += 86_400
    restore(world, before)
    world.write(9)
    assert world.rows() == [1, 3, 9]
    if lost:
        world.store.delete([info.key for info in world.store.list("oslo/weather/transactions/")])
    execute_rebuild(world.catalog, plan_rebuild(world.catalog, "oslo", "weather"))
    assert world.rows() == [1, 3, 9]


def test_a_sealed_log_takes_no_restore(world):
    from lakelog.testing.rebuilt import seal

    world.write(1)
    before = world.token
    world.write(2)
    seal(world.store, "oslo", "weather")
    with pytest.raises(CorruptObject, match="sealed for a rebuild"):
        restore(world, before)
