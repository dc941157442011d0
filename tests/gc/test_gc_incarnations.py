"""gc and prune of a log that was rebuilt, or is being rebuilt."""

from __future__ import annotations

import pytest
from lakelog.catalog.format.names import mirror_key, parse_log_object
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    ConflictError,
    CorruptObject,
    LakelogError,
    MissingTransaction,
    PlanOutdated,
    StorageError,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.testing.rebuilt import seal

DAY_S = 86_400.0
W, D = "EWR", "weather"
BASE = f"{W}/{D}/"
OLD = "1:t0 1:t1 1:t2 1:c2 1:t3"


@pytest.fixture
def rebuilt(lake):
    """Four revisions, one file removed, an orphan of an epoch that was over at the head; then
    a rebuild. Everything before it is old."""
    with lake.writer() as writer:
        removed = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[removed])
        lake.orphan(writer)
    with lake.writer() as writer:
        lake.commit(writer, 2)
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    lake.token = lake.catalog.snapshot(D).token
    lake.old_paths = {revision: lake.paths_at(revision) for revision in range(3)}
    lake.rebuild()
    assert lake.log_names() == f"{OLD} c4"
    return lake


def prune(lake, **keep):
    plan = plan_prune(lake.catalog, W, D, **(keep or {"keep_revisions": 1}))
    return execute_prune(lake.catalog, plan)


def collect(lake):
    plan = plan_gc(lake.catalog, W, D)
    execute_gc(lake.catalog, plan)
    return {action.key.removeprefix(BASE) for action in plan.actions}


def test_a_lower_incarnation_stays_for_the_floor_and_its_tokens_work(rebuilt):
    lake = rebuilt
    assert not prune(lake).deleted_objects
    lake.pass_time(DAY_S - 1)
    assert not prune(lake).deleted_objects
    old = lake.catalog.snapshot(D, lake.token)
    assert set(old.files("hourly").column("path").to_pylist()) == lake.old_paths[2]
    lake.pass_time(1)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    assert all("incarnation 1" in action.reason for action in plan.actions)
    execute_prune(lake.catalog, plan)
    assert lake.log_names() == "c4"
    with pytest.raises(LakelogError):
        lake.catalog.snapshot(D, lake.token)
    assert lake.read() == [1, 2]
    with lake.writer() as writer:
        lake.commit(writer, 3)
    assert lake.read() == [1, 2, 3]


def test_gc_goes_on_after_the_rebuild_of_a_lost_log(lake):
    """All that is left of the old incarnation are seals under names that it may still have had,
    which no chain could hold."""
    with lake.writer() as writer:
        lake.commit(writer, 0)
    lake.store.delete([found.key for found in lake.store.list(f"{BASE}transactions/")])
    execute_rebuild(lake.catalog, plan_rebuild(lake.catalog, W, D))
    assert "1:t1" in lake.log_names().split()
    lake.pass_time(30 * DAY_S)
    assert collect(lake) == set()
    assert lake.read() == [0]


def test_a_lower_incarnation_stays_for_the_days_to_keep(rebuilt):
    lake = rebuilt
    with lake.writer() as writer:
        lake.commit(writer, 3)
        writer.checkpoint()
    lake.pass_time(5 * DAY_S)
    assert not prune(lake, keep_days=5.5, keep_revisions=1).deleted_objects
    lake.pass_time(DAY_S)
    assert prune(lake, keep_days=5.5, keep_revisions=1).deleted_objects == 11
    assert lake.log_names() == "t5 c5"


def test_a_lower_incarnation_goes_whole(rebuilt):
    """Its seal is the youngest of it: with older ones gone, hardly any revision could be read."""
    lake = rebuilt
    lake.pass_time(DAY_S)
    key = lake.log_key("1:t1")
    lake.store.put(key, lake.store.get(key))  # restored just now
    assert not prune(lake).deleted_objects
    assert lake.log_names() == f"{OLD} c4"


def test_segments_of_a_lower_incarnation_stay_with_its_checkpoints(lake, monkeypatch):
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)
    with lake.writer() as writer:
        lake.commit(writer, 0)
        writer.checkpoint()
    old = lake.segments()
    lake.pass_time(30 * DAY_S)
    lake.rebuild()
    new = lake.needed("2:c2")
    assert old - new
    lake.pass_time(DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1, keep_days=1.5)
    assert not plan.actions
    assert lake.segments() == old | new
    prune(lake)
    assert lake.log_names() == "c2"
    assert prune(lake).deleted_objects == len(old - new)  # once their checkpoint has gone
    assert lake.segments() == new


def test_a_damaged_lower_incarnation_may_go_and_stops_gc_until_then(rebuilt):
    lake = rebuilt
    lake.damage(lake.log_key("1:t1"))
    lake.damage(lake.log_key("1:c2"))
    before = lake.data()
    with pytest.raises(CorruptObject) as caught:
        plan_gc(lake.catalog, W, D)
    assert "lakelog prune" in caught.value.hint
    lake.pass_time(30 * DAY_S)
    assert lake.data() == before
    assert "No segment goes" in plan_prune(lake.catalog, W, D, keep_revisions=1).notes[-1]
    prune(lake)
    assert lake.log_names() == "c4"
    assert len(collect(lake)) == 2
    assert lake.data() == lake.paths_at()


def test_gc_keeps_what_a_lower_incarnation_names(rebuilt):
    lake = rebuilt
    (removed,) = lake.old_paths[0]
    lake.pass_time(30 * DAY_S)
    assert removed not in lake.retained_paths()
    (orphan,) = collect(lake)
    assert orphan != removed
    assert removed in lake.data()
    prune(lake)
    assert collect(lake) == {removed}
    assert lake.data() == lake.paths_at()


def test_what_a_rebuild_left_out_stays_for_the_grace_period(rebuilt):
    """The orphan is of epoch 1; the rebuilt log begins with epoch 4."""
    lake = rebuilt
    (old,) = lake.data() - lake.old_paths[0] - lake.old_paths[1] - lake.old_paths[2]
    with lake.writer() as writer:
        lake.commit(writer, 3)
        ours = lake.orphan(writer)
    lake.pass_time(1)
    with lake.writer() as writer:
        lake.commit(writer, 4)
    first = lake.log().load(4).epoch
    assert first == lake.log().load().first_epoch == 4
    assert parse_epoch(ours) > first > parse_epoch(old)
    lake.pass_time(7 * DAY_S - 2)
    plan = plan_gc(lake.catalog, W, D)
    (kept,) = [kept for kept in plan.kept if "of before the rebuild" in kept.reason]
    assert kept.names == (BASE + old,)
    assert collect(lake) == set()
    lake.pass_time(1)
    assert collect(lake) == {old, ours}


def parse_epoch(path):
    return int(path.rsplit("/", 1)[-1].split("-")[0])


def test_the_first_epoch_is_known_when_its_revision_is_pruned(rebuilt):
    """Its first revision is gone: checkpoints say what its epoch was."""
    lake = rebuilt
    lake.pass_time(30 * DAY_S)
    with lake.writer() as writer:
        lake.commit(writer, 3)
        ours = lake.orphan(writer)
    for value in range(4, 8):
        with lake.writer() as writer:
            lake.commit(writer, value)
            writer.checkpoint()
        lake.pass_time(2 * DAY_S)
        prune(lake)
    assert lake.log_names() == "t9 c9"
    assert lake.log().load().first_epoch == 4
    lake.pass_time(7 * DAY_S)
    left = collect(lake)
    assert {parse_epoch(path) for path in left - {ours}} == {1}
    assert lake.data() == lake.paths_at()


# --- A rebuild under way --------------------------------------------------------------------------


def unfinished(lake):
    """All of a rebuild but its checkpoint."""
    lake.rebuild()
    key = lake.log_key("2:c6")
    body = lake.store.get(key)
    lake.store.delete([key, mirror_key(key)])
    return key, body


def build(lake):
    with lake.writer() as writer:
        for value in range(4):
            lake.commit(writer, value)
        writer.checkpoint()
        lake.orphan(writer)
    with lake.writer() as writer:
        lake.commit(writer, 4)
    lake.pass_time(30 * DAY_S)


def test_a_sealed_log_is_left_alone(lake):
    build(lake)
    before = lake.data()
    collection = plan_gc(lake.catalog, W, D)
    pruning = plan_prune(lake.catalog, W, D, keep_revisions=1)
    assert (collection.objects, pruning.objects) == (1, 6)
    key, body = unfinished(lake)
    lake.pass_time(30 * DAY_S)
    names = lake.log_names()
    for step in (
        lambda: plan_gc(lake.catalog, W, D),
        lambda: plan_prune(lake.catalog, W, D, keep_revisions=1),
        lambda: plan_prune(lake.catalog, W, D, keep_revisions=100),
        lambda: execute_gc(lake.catalog, collection),
        lambda: execute_prune(lake.catalog, pruning),
    ):
        with pytest.raises((ConflictError, CorruptObject), match="sealed"):
            step()
    assert (lake.log_names(), lake.data()) == (names, before)
    lake.store.put(key, body)
    with pytest.raises(PlanOutdated):
        execute_prune(lake.catalog, pruning)
    with pytest.raises(MissingTransaction):
        execute_gc(lake.catalog, collection)
    lake.store.put(mirror_key(key), body)
    assert not execute_gc(lake.catalog, collection).deleted_objects  # of before the rebuild
    assert lake.data() == before


def test_a_seal_between_two_batches_stops_gc(lake, hooked, monkeypatch):
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 1)
    build(lake)
    for number in range(3):
        lake.put_foreign(f"p/hourly/1-{number:032x}-0.parquet")
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    done = []

    def seal_now(request, key):
        if request == "delete" and "/data/" in key:
            done.append(key)
            if len(done) == 2:
                seal(lake.store, W, D)

    with pytest.raises(ConflictError, match="sealed"):
        execute_gc(hooked(lake.store, seal_now), plan, ambient=lake.clock.ambient())
    assert len(done) == 2


@pytest.mark.parametrize("number", range(12))
def test_prune_of_a_lower_incarnation_stopped_after_each_deletion(rebuilt, hooked, number):
    lake = rebuilt
    lake.pass_time(30 * DAY_S)
    seen = 0

    def stop(request, key):
        nonlocal seen
        if request == "delete" and parse_log_object(key.rsplit("/", 1)[-1]) is not None:
            if seen == number:
                raise StorageError("the test pulled the plug", key=key)
            seen += 1

    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    try:
        execute_prune(hooked(lake.store, stop), plan, ambient=lake.clock.ambient())
    except StorageError:
        assert number < plan.objects
    else:
        assert number >= plan.objects
    assert lake.read() == [1, 2]
    plan_gc(lake.catalog, W, D, margins=Margins())
    execute_prune(lake.catalog, plan)
    assert lake.log_names() == "c4"
