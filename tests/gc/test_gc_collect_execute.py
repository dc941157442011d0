"""Executing a plan of gc, perhaps long after it was made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from collect_cases import BASE, D, W, gc, planned, take_over
from lakelog.catalog.format.names import data_path
from lakelog.catalog.margins import Margins
from lakelog.errors import LogLost, LostTail, MissingTransaction, PlanOutdated
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune

DAY_S = 86_400.0


def careless(lake):
    """A committer that doesn't keep its promise: it commits files of any age."""
    lake.promised = Margins(gc_grace_s=10_000 * DAY_S)
    writer = lake.writer()
    lake.promised = Margins()
    return writer


def lose(lake, *shorts):
    """From both copies."""
    for key in map(lake.log_key, shorts):
        lake.store.delete([key, key.replace("transactions/", "mirror/transactions/")])


def test_what_was_named_since_the_plan_stays(lake):
    with careless(lake) as writer:
        lake.commit(writer, 0)
        tx = writer.transaction()
        (late,) = tx.write("hourly", lake.rows(1), partition="p")
        other = lake.put_orphan(1)
        lake.pass_time(30 * DAY_S)
        plan = plan_gc(lake.catalog, W, D)
        assert planned(plan) == {late, other}
        tx.commit()
    report = execute_gc(lake.catalog, plan)
    assert report.deleted_objects == 1
    assert report.kept[0].names == (BASE + late,)
    assert "named by a commit" in report.kept[0].reason
    assert late in lake.data()
    assert other not in lake.data()
    assert lake.read() == [0, 1]


def test_what_was_put_anew_since_the_plan_stays(lake):
    take_over(lake)
    paths = [lake.put_orphan(number, b"old") for number in range(3)]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    assert planned(plan) == set(paths)
    lake.put_orphan(0, b"new")  # as large as before, and young
    lake.put_orphan(1, b"newer")
    lake.store.delete([BASE + paths[2]])
    report = execute_gc(lake.catalog, plan, margins=Margins(gc_grace_s=2))
    assert (report.deleted_objects, report.gone_objects) == (0, 1)
    assert sorted(kept.reason.split(":")[0] for kept in report.kept) == [
        "not the object that was planned",
        "young",
    ]
    assert set(paths[:2]) <= lake.data()


def test_a_plan_deletes_no_more_than_it_names(lake):
    take_over(lake)
    paths = [lake.put_orphan(number) for number in range(4)]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    part = replace(plan, actions=plan.actions[1:3])
    assert execute_gc(lake.catalog, part).deleted_objects == 2
    assert {paths[0], paths[3]} <= lake.data()


def test_a_plan_that_names_live_files_deletes_none(lake):
    """Made by hand, or by a bug: execution believes the log and nothing else."""
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    orphan = lake.put_orphan(1)
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    (template,) = plan.actions
    infos = list(lake.store.list(f"{BASE}data/"))
    everything = tuple(
        replace(template, key=info.key, size_bytes=info.size_bytes) for info in infos
    )
    report = execute_gc(lake.catalog, replace(plan, actions=everything))
    assert report.deleted_objects == 1
    assert report.kept[0].objects == 3
    assert orphan not in lake.data()
    assert lake.read() == [0, 1, 2]


def test_batches_look_again_before_each(lake, hooked, monkeypatch):
    """A commit between two batches names a file of the second: it stays."""
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 2)
    with careless(lake) as writer:
        lake.commit(writer, 0)
        paths = [lake.put_orphan(number) for number in range(5)]
        tx = writer.transaction()
        (late,) = tx.write("hourly", lake.rows(1), partition="z")
        lake.pass_time(30 * DAY_S)
        plan = plan_gc(lake.catalog, W, D)
        deletions = []

        def commit_one(request, key):
            if request == "delete" and "/data/" in key:
                deletions.append(key)
                if len(deletions) == 2:
                    tx.commit()

        report = execute_gc(hooked(lake.store, commit_one), plan, ambient=lake.clock.ambient())
    assert report.deleted_objects == 5
    assert report.kept[0].names == (BASE + late,)
    assert late in lake.data()
    assert not set(paths) & lake.data()
    assert lake.read() == [0, 1]


def test_a_prune_between_batches_is_no_harm(lake, hooked, monkeypatch):
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 1)
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    paths = [lake.put_orphan(number) for number in range(3)]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    done = []

    def commit_and_prune(request, key):
        if request == "delete" and "/data/" in key and not done:
            done.append(key)
            with lake.writer() as writer:
                for value in range(3, 6):
                    lake.commit(writer, value)
                writer.checkpoint()
            zero = Margins(prune_floor_s=0)
            prune = plan_prune(lake.catalog, W, D, keep_revisions=1, margins=zero)
            execute_prune(lake.catalog, prune, margins=zero)

    report = execute_gc(hooked(lake.store, commit_and_prune), plan, ambient=lake.clock.ambient())
    assert lake.log_names() == "t5 c5"
    assert report.deleted_objects == 3
    assert not set(paths) & lake.data()
    assert lake.read() == [0, 1, 2, 3, 4, 5]


def test_an_outdated_plan_deletes_nothing(lake, make_memory_lake):
    for _ in range(3):
        take_over(lake)
    path = lake.put_orphan(1)
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    lose(lake, "t2")
    with pytest.raises(PlanOutdated, match="ended at revision 2"):
        execute_gc(lake.catalog, plan)
    lose(lake, "t0", "t1")
    with pytest.raises(LogLost):  # no other log is begun while the data files of this one are there
        lake.writer()
    keys = [info.key for info in lake.store.list(f"{BASE}data/")]
    bodies = {key: lake.store.get(key) for key in keys}
    lake.store.delete(list(bodies))
    for _ in range(4):
        take_over(lake)
    for key, body in bodies.items():
        lake.store.put(key, body)
    with pytest.raises((PlanOutdated, LostTail)):
        execute_gc(lake.catalog, plan)
    assert path in lake.data()


def test_names_with_hard_characters(any_lake):
    lake = any_lake
    with lake.writer() as writer, writer.transaction() as tx:
        kept = tx.write("ta/b le%", lake.rows(1), partition="../ß..")
    with lake.writer() as writer:
        tx = writer.transaction()
        orphans = tx.write("..", lake.rows(2), partition="ü \\ +?#&")
        lake.die(tx)
    lake.pass_time(8 * DAY_S)
    plan, _ = gc(lake)
    assert planned(plan) == set(orphans)
    assert set(kept) <= lake.data()
    assert not set(orphans) & lake.data()


def test_progress_is_told(lake):
    with lake.writer() as writer:
        lake.commit(writer, 0)
    lake.put_orphan(1)
    lake.pass_time(30 * DAY_S)
    told = []
    plan = plan_gc(lake.catalog, W, D, progress=lambda *a: told.append(a))
    execute_gc(lake.catalog, plan, progress=lambda *a: told.append(a))
    assert {what for *_, what in told} == {
        "data files listed",
        "transactions read",
        "objects deleted",
    }
    assert told[-1] == (1, 1, "objects deleted")


def test_a_log_wiped_to_its_last_checkpoint(any_lake):
    """All but one checkpoint is lost: it reads, it commits, and maintenance stays careful."""
    lake = any_lake
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[first])
        lake.commit(writer, 2)
        writer.checkpoint()
    checkpoint = lake.log_key("c2")
    keys = [info.key for info in lake.store.list(BASE) if "transactions/" in info.key]
    lake.store.delete([key for key in keys if key != checkpoint])
    assert lake.read() == [1, 2]
    lake.pass_time(30 * DAY_S)
    assert not plan_prune(lake.catalog, W, D, keep_revisions=1, margins=lake.margins).actions
    with pytest.raises(MissingTransaction, match="miss what is below the checkpoint"):
        gc(lake)
    assert lake.read() == [1, 2]
    with lake.writer() as writer:
        lake.commit(writer, 3)
    assert lake.read() == [1, 2, 3]
    lake.catalog.repair(D, execute=True)
    plan, _ = gc(lake)
    assert planned(plan) == {first}


def test_the_paths_of_this_test_are_those_of_lakelog(lake):
    path = take_over(lake)
    name = path.rsplit("/", 1)[-1]
    epoch, identity, _ = name.removesuffix(".parquet").split("-")
    assert path == data_path("p", "hourly", int(epoch), bytes.fromhex(identity), 0)
