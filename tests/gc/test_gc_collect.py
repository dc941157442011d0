"""Garbage collection: what is an orphan, what is not, and what keeps it from deleting at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from collect_cases import BASE, D, W, gc, planned, take_over
from lakelog.catalog.margins import Margins
from lakelog.errors import EpochChanged, UsageError
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.plan import Plan
from lakelog.gc.prune import execute_prune, plan_prune

DAY_S = 86_400.0
GRACE_S = 7 * DAY_S


def test_tracked_files_stay_and_orphans_go(any_lake):
    lake = any_lake
    with lake.writer() as writer:
        paths = [lake.commit(writer, value) for value in range(4)]
        lake.commit(writer, 4, remove=[paths[0]])
        writer.checkpoint()
        lake.commit(writer, 5, remove=[paths[1]])
        orphan = lake.orphan(writer)
    take_over(lake)
    stray = lake.put_foreign("somebody/else's.parquet")
    note = lake.put_foreign("_SUCCESS")
    lake.pass_time(30 * DAY_S)
    before = lake.data()
    plan, report = gc(lake)
    assert planned(plan) == {orphan}
    assert lake.data() == before - {orphan}
    assert {stray, note} <= lake.data()
    assert lake.retained_paths() <= lake.data()
    assert {paths[0], paths[1]} <= lake.data()  # removed, and yet named by a retained revision
    assert report.deleted_objects == 1
    assert report.deleted_bytes == plan.size_bytes > 0
    assert sorted(lake.read()) == [2, 3, 4, 5, 99]
    again, report = gc(lake)
    assert (again.objects, report.deleted_objects) == (0, 0)


def test_files_of_pruned_revisions_go(any_lake):
    lake = any_lake
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[first])
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    assert not gc(lake)[0].actions
    execute_prune(
        lake.catalog,
        plan_prune(lake.catalog, W, D, keep_revisions=1, margins=lake.margins),
        margins=lake.margins,
    )
    plan, _ = gc(lake)
    assert planned(plan) == {first}
    assert lake.data() == lake.retained_paths() == lake.paths_at()


def test_files_of_a_large_commit_are_named_too(lake):
    """More than 256 adds travel as one batch of columns."""
    with lake.writer() as writer:
        with writer.transaction() as tx:
            paths = [tx.write("hourly", lake.rows(i), partition=f"p{i % 7}")[0] for i in range(300)]
        with writer.transaction() as tx:
            for path in paths[:299]:
                tx.remove(path)
    take_over(lake)
    lake.pass_time(30 * DAY_S)
    first = lake.log().transaction(lake.log().names().transactions[0][0])
    assert len(first.batches) == 1
    plan, _ = gc(lake)
    assert not plan.actions
    assert set(paths) <= lake.data()


def test_the_plan_says_why(lake):
    with lake.writer() as writer:
        lake.commit(writer, 0)
        orphan = lake.orphan(writer)
    take_over(lake)
    lake.pass_time(GRACE_S)
    young = lake.put_foreign(f"p/hourly/2-{7:032x}-0.parquet")
    notes = lake.put_foreign("p/hourly/notes.txt")
    plan = plan_gc(lake.catalog, W, D)
    (deletion,) = plan.actions
    assert deletion.key == BASE + orphan
    assert "of no commit in the history; written at least 7.0 days ago" in deletion.reason
    kept = {kept.reason.split(":")[0]: kept for kept in plan.kept}
    assert kept["named by a retained revision"].objects == 2
    assert kept["young"].names == (BASE + young,)
    assert kept["stray"].names == (BASE + notes,)
    assert plan.facts.head == 1
    assert Plan.from_json(plan.to_json()) == plan


# --- The grace period -----------------------------------------------------------------------------


def test_files_of_every_epoch_wait_for_grace(lake):
    """One of a past epoch may be what is left of a commit that the log has lost."""
    with lake.writer() as writer:
        lake.commit(writer, 0)
        past = lake.orphan(writer)
    owner = lake.writer()
    lake.commit(owner, 1)
    guest = lake.writer(shared=True)
    files = {past, lake.orphan(owner), lake.orphan(guest), lake.orphan(lake.writer())}
    assert {path.rsplit("/", 1)[-1][0] for path in files} == {"1", "2", "3"}
    lake.pass_time(GRACE_S - 1)
    assert not plan_gc(lake.catalog, W, D).actions
    lake.pass_time(1)
    assert planned(plan_gc(lake.catalog, W, D)) == files


def test_a_guest_of_an_ended_epoch_takes_its_files_back(lake):
    owner = lake.writer()
    lake.commit(owner, 0)
    guest = lake.writer(shared=True)
    tx = guest.transaction()
    (path,) = tx.write("hourly", lake.rows(1))
    assert not gc(lake)[0].actions  # it can still be committed
    take_over(lake)
    with pytest.raises(EpochChanged):
        tx.commit()
    assert path not in lake.data()
    assert lake.paths_at() <= lake.data()


def test_a_guest_commit_supersedes_nothing(lake):
    owner = lake.writer()
    lake.commit(owner, 0)
    tx = owner.transaction()
    (path,) = tx.write("hourly", lake.rows(1))
    with lake.writer(shared=True) as guest:
        lake.commit(guest, 2)
    assert not gc(lake)[0].actions
    tx.commit()
    assert path in lake.paths_at() & lake.data()


def test_a_name_of_ours_in_no_folder_of_a_table_is_a_stray(lake):
    take_over(lake)
    take_over(lake)
    lake.put_foreign("1-" + "0" * 32 + "-0.parquet")
    lake.put_foreign("hourly/1-" + "0" * 32 + "-0.parquet")
    lake.pass_time(30 * DAY_S)
    assert not gc(lake)[0].actions


def test_files_of_an_epoch_that_the_log_has_not_come_to_stay(lake):
    """Of another log, or of one that was lost here."""
    take_over(lake)
    path = lake.put_foreign(f"p/hourly/3-{7:032x}-0.parquet")
    orphan = lake.put_foreign(f"p/hourly/2-{7:032x}-0.parquet")
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    assert planned(plan) == {orphan}
    (kept,) = [kept for kept in plan.kept if "rebuild it" in kept.reason]
    assert kept.names == (BASE + path,)


# --- Strays ---------------------------------------------------------------------------------------


def test_strays_go_only_if_a_pattern_asks_for_them(lake):
    take_over(lake)
    names = {lake.put_foreign(name) for name in ("in/a.csv", "in/b.csv", "in/a.parquet", "_DONE")}
    lake.pass_time(GRACE_S - 5)
    asked = {"strays": ["data/in/*.csv", "data/nothing*"]}
    assert not gc(lake, strays=["data/*"])[0].actions, "young"
    lake.pass_time(5)
    assert not gc(lake)[0].actions
    plan = plan_gc(lake.catalog, W, D, **asked)
    assert planned(plan) == {"data/in/a.csv", "data/in/b.csv"}
    plan = Plan.from_json(plan.to_json())
    assert execute_gc(lake.catalog, plan).deleted_objects == 2
    assert lake.data() - lake.paths_at() == names - planned(plan)
    with pytest.raises(UsageError):
        plan_gc(lake.catalog, W, D, strays=["*"])


def test_a_pattern_takes_nothing_that_is_named_or_of_another_log(lake):
    take_over(lake)
    inner = lake.put_foreign("x/w2/db2/transactions/998-999999999999-0.00000000.transaction")
    lake.put_foreign("x/w2/db2/data/_/t/x.parquet")
    before = lake.data()
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake, strays=["data/*"])
    assert not plan.actions
    assert lake.data() == before
    assert inner in before


# --- rule B: grace --------------------------------------------------------------------------------


def test_unknown_times_and_times_of_the_future_are_young(lake, hooked):
    take_over(lake)
    lake.put_foreign(f"p/hourly/1-{7:032x}-0.parquet")
    ambient = lake.clock.ambient()
    zero = Margins(gc_grace_s=0)
    timeless = hooked(lake.store, infos=lambda info: replace(info, modified_at=None))
    assert not plan_gc(timeless, W, D, ambient=ambient, margins=zero).actions
    assert plan_gc(lake.store, W, D, ambient=ambient, margins=zero).objects == 1
    lake.clock.now_s -= 3600
    assert not plan_gc(lake.store, W, D, ambient=ambient, margins=zero).actions


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_execution_asks_the_stores_clock(
    request, backend, make_memory_lake, make_local_lake, tmp_path
):
    lake = make_memory_lake() if backend == "memory" else make_local_lake(tmp_path)
    take_over(lake)
    path = lake.put_foreign(f"p/hourly/1-{7:032x}-0.parquet")
    ahead = lake.clock.ambient(ahead_s=30 * DAY_S)
    plan = plan_gc(lake.store, W, D, ambient=ahead)
    assert planned(plan) == {path}
    before = list(lake.store.list(f"{W}/_probe/"))
    report = execute_gc(lake.store, plan, ambient=ahead)
    assert report.deleted_objects == 0
    assert report.kept[0].names == (BASE + path,)
    assert "young" in report.kept[0].reason
    assert path in lake.data()
    assert list(lake.store.list(f"{W}/_probe/")) == before


@pytest.mark.parametrize(
    "name",
    [
        "p/hourly/x.parquet.tmp",
        "p/hourly/x.PARQUET",
        "p/hourly/x",
        "p/.parquet",
        "back\\slash.parquet",
        "new\nline.parquet",
        "s" * 300 + ".parquet",
        "_delta_log/00000000000000000000.json",
    ],
)
def test_strays_stay_for_ever(lake, name):
    take_over(lake)
    path = lake.put_foreign(name)
    lake.pass_time(365 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    (unknown,) = [kept for kept in plan.kept if kept.reason.startswith("stray")]
    assert unknown.names == (BASE + path,)
    assert path in lake.data()


def test_only_this_writers_data_is_looked_at(lake):
    take_over(lake)
    elsewhere = [
        f"{W}/{D}2/data/x.parquet",
        f"{W}2/{D}/data/x.parquet",
        f"{W}/{D}/x.parquet",
        f"{W}/{D}/data2/x.parquet",
        f"{W}/{D}/segments/x.parquet",
    ]
    for key in elsewhere:
        lake.store.put(key, b"x")
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    assert all(lake.store.get(key) == b"x" for key in elsewhere)
