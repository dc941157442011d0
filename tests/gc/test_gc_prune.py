"""Prune: exactly what survives, why, and all that keeps it from deleting anything."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from lakelog.catalog.format.names import parse_log_object
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    PlanOutdated,
    SnapshotPruned,
    UsageError,
    WriterNotFound,
)
from lakelog.gc.plan import Plan
from lakelog.gc.prune import execute_prune, plan_prune
from prune_cases import LOG, SEGMENTS, D, W, build, of_the_log, prune

pytestmark = pytest.mark.usefixtures("parts_decoded_once")

DAY_S = 86_400.0

LEFT = f"{'ab' * 32}.segment"


# name: commits, checkpoints, keep_revisions, names that survive
TIMELINES = {
    "no checkpoint": (4, [], 1, "t0 t1 t2 t3"),
    "one commit": (1, [0], 1, "t0 c0"),
    "checkpoint at the head": (4, [3], 1, "t3 c3"),
    "checkpoint above what is kept": (4, [3], 2, "t0 t1 t2 t3 c3"),
    "checkpoint below the head": (6, [3], 1, "t3 c3 t4 t5"),
    "exactly at the oldest to keep": (6, [1, 3], 3, "t3 c3 t4 t5"),
    "one above the oldest to keep": (6, [1, 3], 4, "t1 c1 t2 t3 c3 t4 t5"),
    "newest of several": (8, [1, 3, 5], 2, "t5 c5 t6 t7"),
    "keep more than there are": (4, [1], 9, "t0 t1 c1 t2 t3"),
    "first revision has one": (4, [0, 1], 4, "t0 c0 t1 c1 t2 t3"),
    "each has one": (5, [0, 1, 2, 3, 4], 2, "t3 c3 t4 c4"),
}


@pytest.mark.parametrize("name", TIMELINES)
def test_what_survives(any_lake, name):
    commits, checkpoints, keep, survivors = TIMELINES[name]
    build(any_lake, commits, checkpoints)
    any_lake.pass_time(30 * DAY_S)
    before = any_lake.log_names().split()
    wanted = {r: any_lake.paths_at(r) for r in range(max(0, commits - keep), commits)}
    plan, report = prune(any_lake, keep_revisions=keep)
    assert any_lake.log_names() == survivors
    assert report.deleted_objects == plan.objects
    assert len(of_the_log(plan)) == len(before) - len(survivors.split())
    assert report.deleted_bytes == plan.size_bytes
    for revision, paths in wanted.items():
        assert any_lake.paths_at(revision) == paths
    again, report = prune(any_lake, keep_revisions=keep)
    assert (again.objects, report.deleted_objects) == (0, 0)
    assert any_lake.log_names() == survivors


def test_a_pruned_log_goes_on(any_lake):
    build(any_lake, 6, [4])
    any_lake.pass_time(30 * DAY_S)
    prune(any_lake, keep_revisions=1)
    with any_lake.writer() as writer:
        assert writer.revision == 5
        any_lake.commit(writer, 6)
        writer.checkpoint()
    any_lake.pass_time(30 * DAY_S)
    prune(any_lake, keep_revisions=1)
    assert any_lake.log_names() == "t6 c6"
    assert any_lake.read() == [3, 4, 5, 6]
    with pytest.raises(SnapshotPruned):
        any_lake.catalog.snapshot(D, {W: 5})


def test_the_plan_says_why(lake):
    build(lake, 6, [3])
    lake.pass_time(30 * DAY_S)
    lake.store.put(f"{LOG}notes.txt", b"mine")
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    keys = of_the_log(plan)
    assert [parse_log_object(key.rsplit("/")[-1]).revision for key in keys] == [0, 1, 2]
    assert all("before revision 3" in action.reason for action in plan.actions)
    assert plan.facts.head == 5
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.facts.checkpoint == lake.log_key("c3")
    kept = {kept.reason.split(":")[0]: kept for kept in plan.kept}
    assert kept["retained"].objects == 4 + 3  # the mirror has no checkpoint yet
    assert kept["unknown name"].names == (f"{LOG}notes.txt",)
    assert "no checkpoint between revisions 4 and 5" in plan.notes[0]
    assert Plan.from_json(plan.to_json()) == plan
    execute_prune(lake.catalog, plan)
    assert lake.store.get(f"{LOG}notes.txt") == b"mine"


def test_without_a_checkpoint_it_says_what_to_do(lake):
    build(lake, 5)
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    assert not plan.actions
    assert "`lakelog checkpoint --execute`" in plan.notes[0]


@pytest.mark.parametrize(
    "keep",
    [
        {},
        {"keep_revisions": 0},
        {"keep_revisions": -1},
        {"keep_revisions": True},
        {"keep_revisions": 1.5},
        {"keep_days": -1},
        {"keep_days": float("nan")},
        {"keep_days": float("inf")},
        {"keep_days": 1e9},
    ],
)
def test_a_retention_is_needed(lake, keep):
    build(lake, 2, [1])
    with pytest.raises(UsageError):
        plan_prune(lake.catalog, W, D, **keep)


def test_no_such_log(lake):
    with pytest.raises(WriterNotFound):
        plan_prune(lake.catalog, W, D, keep_revisions=1)


def test_a_store_will_do_for_a_catalog(lake):
    build(lake, 4, [3])
    lake.pass_time(2 * DAY_S)
    ambient = lake.clock.ambient()
    plan = plan_prune(lake.store, W, D, keep_revisions=1, ambient=ambient)
    assert execute_prune(lake.store, plan, ambient=ambient).deleted_objects == 6


# --- time -----------------------------------------------------------------------------------------


def test_keep_days_keeps_what_was_readable_then(lake):
    build(lake, 10, range(10), gap_s=DAY_S)  # revision r was committed on day r; now it is day 10
    # 3.5 days ago it was day 6.5: revision 6 was the newest one then.
    prune(lake, keep_days=3.5)
    assert lake.log_names() == "t6 c6 t7 c7 t8 c8 t9 c9"
    at = lake.clock.time().timestamp() - 3.5 * DAY_S
    as_of = dt.datetime.fromtimestamp(at, dt.UTC)
    assert lake.catalog.snapshot(D, as_of).cut.revisions == {W: 6}


@pytest.mark.parametrize(
    ("revisions", "days", "first"), [(2, 5.5, 4), (8, 5.5, 2), (2, 0, 8), (1, 400, 0)]
)
def test_with_both_what_either_asks_for_stays(lake, revisions, days, first):
    build(lake, 10, range(10), gap_s=DAY_S)
    prune(lake, keep_revisions=revisions, keep_days=days)
    assert lake.log_names().split()[0] == f"t{first}"


def test_the_floor_protects_what_was_the_newest_within_it(lake):
    """Revision 2 is old, but it was the head until half a day ago: a reader may have it open."""
    build(lake, 3, range(3))
    lake.pass_time(5 * DAY_S)
    with lake.writer() as writer:
        lake.commit(writer, 3)
        writer.checkpoint()
    lake.pass_time(0.5 * DAY_S)
    plan, _ = prune(lake, keep_revisions=1)
    assert lake.log_names() == "t2 c2 t3 c3"
    assert "within the last 1.0 days" in plan.notes[0]
    lake.pass_time(0.5 * DAY_S)
    prune(lake, keep_revisions=1)
    assert lake.log_names() == "t3 c3"


def test_unknown_times_and_times_of_the_future_are_young(lake, hooked):
    build(lake, 4, [1, 3])
    lake.pass_time(30 * DAY_S)
    unknown = hooked(lake.store, infos=lambda info: replace(info, modified_at=None))
    ambient = lake.clock.ambient()
    assert not plan_prune(unknown, W, D, keep_revisions=1, ambient=ambient).actions
    lake.clock.now_s -= 40 * DAY_S
    assert not plan_prune(lake.store, W, D, keep_revisions=1, ambient=ambient).actions
    assert not plan_prune(
        lake.store, W, D, keep_revisions=1, ambient=ambient, margins=Margins(prune_floor_s=0)
    ).actions


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_execution_asks_the_stores_clock(
    request, backend, make_memory_lake, make_local_lake, tmp_path
):
    """A planner whose clock is ahead plans too much; the execution finds out and deletes none."""
    lake = make_memory_lake() if backend == "memory" else make_local_lake(tmp_path)
    build(lake, 4, [3])
    before, probed = lake.log_names(), list(lake.store.list(f"{W}/_probe/"))
    ahead = lake.clock.ambient(ahead_s=30 * DAY_S)
    plan = plan_prune(lake.store, W, D, keep_revisions=1, ambient=ahead)
    assert plan.objects == 6
    with pytest.raises(PlanOutdated, match="store's clock"):
        execute_prune(lake.store, plan, ambient=ahead)
    assert lake.log_names() == before
    assert list(lake.store.list(f"{W}/_probe/")) == probed  # the marker is gone


def test_a_store_without_times_is_young_at_execution(lake, hooked):
    build(lake, 4, [3])
    lake.pass_time(30 * DAY_S)
    ambient = lake.clock.ambient()
    plan = plan_prune(lake.store, W, D, keep_revisions=1, ambient=ambient)
    unknown = hooked(lake.store, infos=lambda info: replace(info, modified_at=None))
    with pytest.raises(PlanOutdated):
        execute_prune(unknown, plan, ambient=ambient)
    assert lake.log_names() == "t0 t1 t2 t3 c3"


# --- spilled segments -----------------------------------------------------------------------------


def test_segments_go_last(lake, spilling):
    build(lake, 6, [1, 3, 5])
    assert lake.needed("c1") - lake.needed("c5")
    needed = lake.needed("c5")
    lake.pass_time(30 * DAY_S)
    plan, _ = prune(lake, keep_revisions=1)
    for in_mirror in (False, True):
        keys = [action.key for action in plan.actions if ("/mirror/" in action.key) is in_mirror]
        kinds = [key.rsplit(".", 1)[-1] for key in keys]
        assert kinds == sorted(kinds, key="segment".__eq__)
    assert lake.log_names() == "t5 c5"
    assert lake.segments() == needed
    assert lake.read() == [3, 4, 5]


def test_segments_stay_while_a_retained_checkpoint_refers_to_them(lake, spilling):
    """Checkpoint 4 is written on the base of checkpoint 2, and refers to its history."""
    build(lake, 5, [2, 4])
    shared = lake.needed("c2") & lake.needed("c4")
    assert shared
    needed = lake.needed("c4")
    lake.pass_time(30 * DAY_S)
    plan, _ = prune(lake, keep_revisions=1)
    assert lake.log_names() == "t4 c4"
    assert lake.segments() == needed
    assert any("retained checkpoint refers" in kept.reason for kept in plan.kept)
    assert lake.read() == [2, 3, 4]
    assert lake.log().load(4).history.holds(0)


def test_the_first_checkpoint_must_be_old_itself(lake, spilling):
    """One being written may refer to segments of the newest one that its writer saw: not to it."""
    build(lake, 6, [1])
    lake.pass_time(30 * DAY_S)
    with lake.writer() as writer:
        writer.checkpoint()  # of revision 5, today
    plan, _ = prune(lake, keep_revisions=1)
    assert lake.log_names().startswith("t1 c1 t2")
    assert lake.needed("c1") <= lake.segments()
    assert "checkpoint of revision 5 is too young" in plan.notes[0]
    ahead = lake.clock.ambient(ahead_s=DAY_S)
    plan = plan_prune(lake.store, W, D, keep_revisions=1, ambient=ahead)
    assert plan.facts.checkpoint == lake.log_key("c5")
    with pytest.raises(PlanOutdated, match="checkpoint 5 was written within"):
        execute_prune(lake.store, plan, ambient=ahead)
    lake.pass_time(DAY_S)
    prune(lake, keep_revisions=1)
    assert lake.log_names() == "t5 c5"
    assert lake.segments() == lake.needed("c5")


def test_whatever_is_young_itself_stays(lake, spilling):
    """A checkpoint of revision 1, slower than anything: its objects wait for their day, and so does
    all that stands after it, for there would be a hole else."""
    build(lake, 6, [5])
    lake.pass_time(30 * DAY_S)
    checkpoint = lake.log_key("t1").removesuffix("transaction") + "checkpoint"
    lake.store.put(SEGMENTS + LEFT, b"of a checkpoint under way")
    lake.store.put(checkpoint, b"the checkpoint")
    plan, _ = prune(lake, keep_revisions=1)
    assert lake.log_names() == "t1 c1 t2 t3 t4 t5 c5"
    assert lake.segments() >= lake.needed("c5") | {LEFT}
    assert any("under way" in kept.reason for kept in plan.kept)
    lake.pass_time(DAY_S)
    prune(lake, keep_revisions=1)
    assert lake.log_names() == "t5 c5"
    assert lake.segments() == lake.needed("c5")


def test_segments_that_nobody_refers_to_go(lake, spilling):
    build(lake, 4, [3])
    lake.store.put(SEGMENTS + LEFT, b"left by a crash")
    lake.store.put(f"{SEGMENTS}notes.txt", b"mine")
    lake.pass_time(30 * DAY_S)
    plan, _ = prune(lake, keep_revisions=1)
    assert lake.log_names() == "t3 c3"
    assert lake.segments() == lake.needed("c3") | {"notes.txt"}
    assert any(f"{SEGMENTS}notes.txt" in kept.names for kept in plan.kept)


def test_a_checkpoint_on_an_old_base_refers_to_nothing_that_prune_takes(lake, spilling):
    """A writer that is open for long wrote the base of its state itself; others have gone on from
    there, and prune took that base meanwhile."""
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
        writer.checkpoint()
        for value in range(3, 6):
            lake.commit(writer, value)
            lake.pass_time(0.4 * DAY_S)
        with lake.writer(shared=True) as guest:
            guest.checkpoint()
        for value in range(6, 9):
            lake.pass_time(0.4 * DAY_S)
            lake.commit(writer, value)
        prune(lake, keep_revisions=1)
        assert lake.log_names().split()[:2] == ["t5", "c5"]
        writer.checkpoint()
    assert lake.needed("c8") <= lake.segments()
    assert lake.read() == list(range(9))
    state = lake.log().checkpoint_state(lake.log().names().checkpoints[8][0])
    assert state.files.count == 9
    assert lake.paths_at(8) == lake.data()
