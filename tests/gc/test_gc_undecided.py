"""A log that was lost and begun anew: what lay there before is kept, and named."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from collect_cases import BASE, D, W, gc, lose_log, planned, take_over
from lakelog.errors import LogLost
from lakelog.gc import Plan, execute_gc, plan_gc
from lakelog.rebuild import execute_rebuild, plan_rebuild

DAY_S = 86_400.0


def parquet(value):
    body = io.BytesIO()
    pq.write_table(pa.table({"value": pa.array([value], pa.int64())}), body)
    return body.getvalue()


def adopt(lake, *names):
    paths = [lake.put_foreign(f"in/{name}.parquet", parquet(1)) for name in names]
    with lake.writer() as writer:
        for path in paths:
            with writer.transaction() as tx:
                tx.add("hourly", path)
    return set(paths)


def lose_objects(lake):
    """What tells of adopted files beside the log."""
    lake.store.delete([i.key for i in lake.store.list(BASE) if i.key.endswith(".actions")])


def undecided(plan):
    kept = [kept for kept in plan.kept if "undecided" in kept.reason]
    names = {name.removeprefix(BASE) for one in kept for name in one.names}
    return {name for name in names if not name.endswith(".actions")}


def test_objects_of_actions_prove_that_there_was_a_log(lake):
    adopt(lake, "a", "b")
    lose_log(lake)
    with pytest.raises(LogLost, match=r"\.actions"):
        lake.writer()


def test_adopted_files_of_a_lost_log_stay(lake):
    adopted = adopt(lake, "a", "b")
    lose_log(lake)
    lose_objects(lake)
    lake.pass_time(1)
    take_over(lake)
    late = lake.put_foreign("late.parquet")
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake)
    assert planned(plan) == {late}
    assert undecided(plan) == adopted
    asked = plan_gc(lake.catalog, W, D, undecided=True)
    assert planned(asked) == adopted
    assert all(action.reason.startswith("asked for: undecided") for action in asked.actions)
    assert Plan.from_json(asked.to_json()) == asked


def test_undecided_files_wait_for_grace_too(lake):
    adopted = adopt(lake, "a")
    lose_log(lake)
    take_over(lake)
    assert not plan_gc(lake.catalog, W, D, undecided=True).actions
    lake.pass_time(7 * DAY_S)
    plan = plan_gc(lake.catalog, W, D, undecided=True)
    assert execute_gc(lake.catalog, plan).deleted_objects == len(adopted)
    assert not adopted & lake.data()


def test_a_plan_without_them_never_takes_them(lake):
    """What was asked for is part of the plan."""
    adopt(lake, "a")
    lose_log(lake)
    take_over(lake)
    lake.pass_time(30 * DAY_S)
    asked = plan_gc(lake.catalog, W, D, undecided=True)
    assert asked.facts.undecided
    assert not plan_gc(lake.catalog, W, D).facts.undecided


def test_a_lost_first_commit_begun_anew_stays(lake):
    """Its files can't be told from those of an attempt that failed: both stay."""
    with lake.writer() as writer, writer.transaction() as tx:
        lost = {tx.write("hourly", lake.rows(n), partition=f"p{n}")[0] for n in range(2)}
    lose_log(lake)
    take_over(lake)
    with lake.writer() as writer:
        lake.commit(writer, 1)
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    assert undecided(plan) == lost


def test_the_first_commits_own_files_are_known_by_their_footers(lake):
    with lake.writer() as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("hourly", lake.rows(1))
        orphan = lake.orphan(writer)
    take_over(lake)
    assert planned(gc(lake)[0]) == {orphan}
    assert path in lake.data()


def test_a_landing_before_the_first_commit_is_legal(lake):
    adopted = adopt(lake, "a", "b")
    assert adopted <= lake.paths_at()


def test_segments_prove_that_there_was_a_log(lake, spilling):
    adopt(lake, "a")
    with lake.writer() as writer:
        writer.checkpoint()
    lose_log(lake)
    assert lake.segments()
    with pytest.raises(LogLost, match="segments of checkpoints"):
        lake.writer()


def test_adopted_files_left_out_by_a_rebuild_stay(lake):
    """With one file of lakelog's own, so that there is something to rebuild from."""
    take_over(lake)
    adopted = adopt(lake, "a", "b")
    lose_log(lake)
    assert adopted <= plan_rebuild(lake.catalog, W, D).live.keys()
    lose_objects(lake)
    lake.pass_time(30 * DAY_S)
    plan = plan_rebuild(lake.catalog, W, D)
    assert adopted <= {item.path for item in plan.left_out}
    execute_rebuild(lake.catalog, plan)
    lake.pass_time(30 * DAY_S)
    take_over(lake)
    found, _ = gc(lake)
    assert not found.actions
    assert undecided(found) == adopted
