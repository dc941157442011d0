"""More of the ancestor's list (`test_ancestor.py`): checkpoints, files, gc, prune, rebuild."""

from __future__ import annotations

import io
import threading

import pyarrow.parquet as pq
import pytest
from ancestor_lake import D, T, W, rows
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    NotFoundError,
    SnapshotPruned,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.testing.keys import drop_mirror, revision_in
from own_files import add_own

BASE = f"{W}/{D}/"

FOLDER = BASE + "transactions/"

AT_ONCE = Margins(prune_floor_s=0.0, gc_grace_s=0.0)


# --- Checkpoints ----------------------------------------------------------------------------------


def test_checkpoint_loads_with_every_earlier_transaction_deleted(lake):
    paths = lake.build(4, checkpoint_at=[2])
    lake.lose([lake.key(revision) for revision in range(3)])
    assert lake.live() == sorted(paths)
    assert lake.live({W: 2}) == sorted(paths[:3])
    with pytest.raises(SnapshotPruned):
        lake.live({W: 1})


def test_a_checkpoint_alone_is_enough_to_exist_and_to_load(lake):
    paths = lake.build(3, checkpoint_at=[2])
    lake.lose([lake.key(revision) for revision in range(3)])
    assert len(lake.log()) == 1
    assert lake.catalog.databases() == [D]
    assert lake.catalog.writers(D) == [W]
    assert lake.live() == sorted(paths)
    with lake.writer() as writer:
        assert writer.revision == 2
    lake.commit(9)
    assert len(lake.live()) == 4


def test_store_wiped_to_its_last_checkpoint_loads(lake):
    paths = lake.build(6, checkpoint_at=[1, 3, 5])
    last = lake.key(5, "checkpoint")
    lake.lose([key for key in lake.log() if key != last])
    assert lake.live() == sorted(paths)
    lake.commit(7)
    assert len(lake.live()) == 7


# --- Add and remove -------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", ["a", "r", "ar", "ra", "ara", "rar"])
def test_add_remove_combinations(lake, steps):
    """One file, added (a) and removed (r) by transactions of their own; where the first step is a
    removal it was there before. The same by log and by checkpoint."""
    start = lake.commit(0)
    path = "data/in/added.parquet"
    lake.store.put(f"{W}/{D}/{path}", lake.store.get(f"{W}/{D}/{start}"))
    with lake.writer() as writer:
        if steps[0] == "r":
            with writer.transaction() as tx:
                add_own(tx, T, path)
        for step in steps:
            with writer.transaction() as tx:
                if step == "a":
                    add_own(tx, T, path)
                else:
                    tx.remove(path)
    expected = sorted([start, path] if steps[-1] == "a" else [start])
    assert lake.live() == expected
    lake.checkpoint()
    assert lake.live() == expected


def test_duplicate_add_is_refused_with_the_state_unchanged(lake):
    with lake.writer() as writer:
        with writer.transaction() as tx:
            (path,) = tx.write(T, rows(1))
        log = lake.log()
        tx = writer.transaction()
        add_own(tx, T, path)
        with pytest.raises(DuplicateFile):
            tx.commit()
    assert (lake.log(), lake.live()) == (log, [path])


def test_double_remove_is_refused_with_the_state_unchanged(lake):
    paths = lake.build(2)
    lake.commit(9, paths[0])
    log, live = lake.log(), lake.live()
    with lake.writer() as writer:
        tx = writer.transaction()
        with pytest.raises(FileNotLive):
            tx.remove(paths[0])
    assert (lake.log(), lake.live()) == (log, live)


# --- Cleanup --------------------------------------------------------------------------------------


def orphan(lake):
    with lake.writer() as writer:
        return writer.transaction().write(T, rows(77))[0]


def data(lake):
    return sorted(item.key[len(BASE) :] for item in lake.store.list(BASE + "data/"))


def collect(lake, margins=AT_ONCE):
    plan = plan_gc(lake.catalog, W, D, margins=margins)
    return execute_gc(lake.catalog, plan, margins=margins).deleted_objects


def test_cleanup_keeps_tracked_and_added_then_removed_files(lake):
    paths = lake.build(3)
    lake.commit(9, paths[0])
    before = data(lake)
    collect(lake)
    assert data(lake) == before
    assert paths[0] in before
    assert len(lake.catalog.snapshot(D, {W: 2}).to_arrow(T)) == 3


def test_cleanup_deletes_orphans_and_is_idempotent(lake):
    paths = lake.build(2)
    lost = [orphan(lake), orphan(lake)]
    paths += [lake.commit(3), lake.commit(4)]  # owners of later epochs
    assert set(lost) <= set(data(lake))
    assert collect(lake) == 2
    assert data(lake) == sorted(paths)
    assert collect(lake) == 0


@pytest.mark.parametrize("races", [33, pytest.param(99, marks=pytest.mark.long)])
def test_cleanup_never_deletes_a_live_file_in_races(lake, races):
    """With the grace period that is the rule; the ancestor needed exclusive access."""
    lake.commit(0)
    failures = []

    def committing(number, begun):
        try:
            begun.wait()
            lake.commit(number)
        except Exception as error:
            failures.append(error)

    for number in range(races):
        begun = threading.Barrier(2)
        thread = threading.Thread(target=committing, args=(number, begun))
        thread.start()
        begun.wait()
        collect(lake, Margins())
        thread.join(60)
    assert failures == []
    assert set(lake.live()) <= set(data(lake))
    assert len(lake.catalog.snapshot(D).to_arrow(T)) == races + 1


# --- Prune ----------------------------------------------------------------------------------------


def prune(lake, keep):
    plan = plan_prune(lake.catalog, W, D, keep_revisions=keep, margins=AT_ONCE)
    execute_prune(lake.catalog, plan, margins=AT_ONCE)


@pytest.mark.parametrize(
    ("commits", "checkpoints", "keep", "survivors"),
    [
        (3, [], 1, "t0 t1 t2"),
        (3, [0], 3, "c0 t0 t1 t2"),
        (4, [3], 1, "c3 t3"),
        (6, [1, 3], 3, "c3 t3 t4 t5"),
        (6, [1, 3], 4, "c1 t1 t2 c3 t3 t4 t5"),
        (6, [1, 3, 5], 1, "c5 t5"),
    ],
)
def test_exact_survivors_of_prune(lake, commits, checkpoints, keep, survivors):
    lake.build(commits, checkpoints)
    live = lake.live()
    prune(lake, keep)
    found = [f"{key.rsplit('.', 1)[1][0]}{revision_in(key)}" for key in lake.log()]
    assert " ".join(found) == survivors
    assert lake.live() == live


# --- Wipe and rebuild -----------------------------------------------------------------------------


def rebuild(lake):
    plan = plan_rebuild(lake.catalog, W, D)
    execute_rebuild(lake.catalog, plan)
    return plan


def test_wipe_and_rebuild_of_nothing(lake):
    with pytest.raises(NotFoundError):
        rebuild(lake)
    assert list(lake.store.list("")) == []


def test_wipe_and_rebuild_of_a_normal_log(lake):
    """Nothing of it is wiped: the new log stands beside it, and counts."""
    paths = lake.build(3)
    before = {key: lake.store.get(key) for key in lake.log()}
    rebuild(lake)
    assert {key: lake.store.get(key) for key in before} == before
    assert lake.live() == sorted(paths)
    assert set(before) < set(lake.log())


def test_wipe_and_rebuild_of_a_broken_log(lake):
    paths = lake.build(3)
    lake.put(lake.key(1), b"junk")
    lake.lose([lake.key(2)])
    rebuild(lake)
    assert lake.live() == sorted(paths)


def test_rebuild_gives_the_same_paths(lake):
    """A file that was removed is live again only where both copies of the log are lost."""
    paths = lake.build(4, checkpoint_at=[2])
    replaced = lake.commit(9, paths[1])
    live = lake.live()
    assert replaced in live
    lake.store.delete(lake.log())
    rebuild(lake)
    assert lake.live() == live
    lake.store.delete(lake.log())
    drop_mirror(lake.store, writer=W, database=D)
    rebuild(lake)
    assert lake.live() == sorted([*live, paths[1]])


def test_rebuild_skips_files_without_metadata_and_says_so(lake):
    paths = lake.build(2)
    sink = io.BytesIO()
    pq.write_table(rows(5), sink)
    foreign = BASE + "data/_/hourly/foreign.parquet"
    lake.store.put(foreign, sink.getvalue())
    lake.lose(lake.log())
    plan = rebuild(lake)
    assert lake.live() == sorted(paths)
    assert [item.path for item in plan.left_out] == [foreign[len(BASE) :]]
    assert lake.store.get(foreign) == sink.getvalue()


def test_junk_names_are_ignored_and_survive(lake):
    paths = lake.build(3, checkpoint_at=[1])
    junk = [
        FOLDER + "README",
        FOLDER + "0.transaction",
        FOLDER + f"998-{10**12 - 2}-1.0badcafe.transaction.tmp",
        FOLDER + f"998-{10**12 - 2}-1.0BADCAFE.transaction",
        BASE + "transactions-old/" + f"998-{10**12 - 2}-1.0badcafe.transaction",
        BASE + "data/notes.txt",
        f"{W}/notes",
    ]
    for key in junk:
        lake.store.put(key, b"junk")
    assert lake.live() == sorted(paths)
    collect(lake)
    prune(lake, 1)
    rebuild(lake)
    assert lake.live() == sorted(paths)
    for key in junk:
        assert lake.store.get(key) == b"junk"


def test_the_helpers_frame_what_they_change(lake):
    """A rewritten object is refused for what it says, not for its digest."""
    lake.build(1)
    key = lake.rewrite(0, lambda message: setattr(message, "epoch", 0))
    decode_frame(lake.store.get(key), FrameKind.TRANSACTION, key)
    with pytest.raises(CorruptObject, match="epoch 0"):
        lake.catalog.snapshot(D)
