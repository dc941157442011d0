"""Executing a plan of prune, perhaps long after it was made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lakelog.errors import (
    BrokenChain,
    CorruptError,
    PlanOutdated,
)
from lakelog.gc.collect import plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from prune_cases import LOG, D, W, build

DAY_S = 86_400.0


def test_an_outdated_plan_deletes_nothing(lake, make_memory_lake):
    build(lake, 6, [2, 4])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=3)
    assert plan.facts.checkpoint == lake.log_key("c2")
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, keep_revisions=1))
    before = lake.log_names()
    with pytest.raises(PlanOutdated, match="gone"):
        execute_prune(lake.catalog, plan)
    assert lake.log_names() == before == "t4 c4 t5"
    other = make_memory_lake()
    build(other, 6, [2, 4])
    other.pass_time(30 * DAY_S)
    with pytest.raises((PlanOutdated, CorruptError)):
        execute_prune(other.catalog, plan)
    assert other.log_names() == "t0 t1 t2 c2 t3 t4 c4 t5"


def test_a_plan_outdated_by_a_log_that_ends_earlier(lake):
    build(lake, 6, [2])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    key = lake.log_key("t5")
    lake.store.delete([key, key.replace("transactions/", "mirror/transactions/")])
    with pytest.raises(PlanOutdated, match="ended at revision 5"):
        execute_prune(lake.catalog, plan)
    tampered = replace(plan, facts=replace(plan.facts, head=4, head_digest="00" * 32))
    with pytest.raises(PlanOutdated, match="another transaction"):
        execute_prune(lake.catalog, tampered)


def test_commits_since_the_plan_do_not_void_it(lake):
    build(lake, 6, [4])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    with lake.writer() as writer:
        lake.commit(writer, 6)
    assert execute_prune(lake.catalog, plan).deleted_objects == 8
    assert lake.log_names() == "t4 c4 t5 t6"
    again = execute_prune(lake.catalog, plan)
    assert (again.deleted_objects, again.gone_objects) == (0, 8)


def test_the_mirror_is_complete_before_anything_is_deleted(lake, hooked):
    """It then holds every revision from the checkpoint on, wherever the prune stops."""
    build(lake, 6, [4])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    copy = lake.log_key("c4").replace("transactions/", "mirror/transactions/")
    there = []

    def note(request, key):
        if request == "delete" and "/transactions/" in key:
            there.append(copy in {info.key for info in lake.store.list("")})

    execute_prune(hooked(lake.store, note), plan, ambient=lake.clock.ambient())
    assert there
    assert all(there)


def test_a_plan_deletes_no_more_than_it_names(lake):
    build(lake, 6, [4])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    part = replace(plan, actions=plan.actions[:2])
    assert execute_prune(lake.catalog, part).deleted_objects == 2
    assert lake.log_names() == "t2 t3 t4 c4 t5"


@pytest.mark.parametrize("days_since", [0, 2])
def test_a_checkpoint_that_came_late_is_no_hole(lake, spilling, days_since):
    """One of a handle that stood still: it came after the plan, and is perhaps old by now."""
    build(lake, 6, [0, 4])
    key = lake.log_key("c0")
    late = lake.store.get(key)
    lake.store.delete([key])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    lake.store.put(key, late)
    lake.pass_time(days_since * DAY_S)
    execute_prune(lake.catalog, plan)
    plan_gc(lake.catalog, W, D)  # it finds no hole
    assert lake.catalog.snapshot(D, {W: 0}).tables() == ["hourly"]
    fresh = plan_prune(lake.catalog, W, D, keep_revisions=1)
    execute_prune(lake.catalog, fresh)
    plan_gc(lake.catalog, W, D)
    lake.pass_time(2 * DAY_S)
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, keep_revisions=1))
    assert lake.log_names() == "t4 c4 t5"
    assert lake.catalog.snapshot(D).to_arrow("hourly").num_rows == 6


def test_a_segment_that_is_needed_by_now_stays(lake, spilling):
    build(lake, 6, [1, 4])
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    segment = next(a.key for a in plan.actions if a.key.endswith(".segment"))
    lake.store.put(segment, lake.store.get(segment))  # somebody wrote it again: it is young
    report = execute_prune(lake.catalog, plan)
    assert report.kept[0].names == (segment,)
    assert report.deleted_objects == plan.objects - 1


def test_progress_is_told(lake):
    build(lake, 6, [4])
    lake.pass_time(30 * DAY_S)
    told = []
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1, progress=lambda *a: told.append(a))
    execute_prune(lake.catalog, plan, progress=lambda *a: told.append(a))
    assert ("transactions read") in {what for *_, what in told}
    assert (8, 8, "objects deleted") in told
    assert all(done <= total for done, total, _ in told)


def test_broken_chain_is_a_refusal(lake, make_memory_lake):
    """A transaction of another log under the right name: sound in itself, not the successor."""
    build(lake, 6, [3])
    lake.pass_time(30 * DAY_S)
    other = make_memory_lake()
    build(other, 6, [3])
    key = lake.log_key("t5")
    stolen = other.log_key("t5")
    lake.store.delete([key])
    lake.store.put(LOG + stolen.rsplit("/", 1)[-1], other.store.get(stolen))
    lake.pass_time(30 * DAY_S)
    with pytest.raises(BrokenChain):
        plan_prune(lake.catalog, W, D, keep_revisions=2)
