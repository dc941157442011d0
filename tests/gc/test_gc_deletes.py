"""Objects of row deletes: gc takes none that a retained revision needs, and all others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from collect_cases import BASE, D, W, gc, planned
from lakelog.catalog.margins import Margins
from lakelog.errors import LostTail
from lakelog.gc.collect import plan_gc
from lakelog.gc.prune import execute_prune, plan_prune

DAY_S = 86_400.0
NO_GRACE = Margins(gc_grace_s=0.0)


def objects(lake) -> set[str]:
    keys = (info.key.removeprefix(BASE) for info in lake.store.list(f"{BASE}data/"))
    return {key for key in keys if key.endswith(".deletes")}


def delete(lake, writer, where: str) -> str:
    """Delete rows by number; the new object."""
    before = objects(lake)
    with writer.transaction() as tx:
        tx.delete("t", where, mode="rows")
    (new,) = objects(lake) - before
    return new


def numbers(lake, as_of=None) -> list[int]:
    return sorted(lake.catalog.snapshot(D, as_of).to_arrow("t")["n"].to_pylist())


def prune(lake) -> None:
    lake.pass_time(30 * DAY_S)
    options = {"keep_revisions": 1, "margins": lake.margins}
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, **options), margins=lake.margins)


@pytest.fixture
def deleted(lake):
    """Two files; rows of the first are deleted twice, by number. The newer object has all."""
    with lake.writer() as writer:
        with writer.transaction() as tx:
            path = tx.write("t", pa.table({"n": [1, 2, 3, 4]}))[0]
            tx.write("t", pa.table({"n": [11, 12]}))
        lake.path, lake.first, lake.second = path, *(
            delete(lake, writer, f"n = {n}") for n in (1, 2)
        )  # fmt: skip
    return lake


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_a_retained_revision_needs_stays(deleted, checkpointed) -> None:
    lake = deleted
    with lake.writer() as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [21]}))
        if checkpointed:
            writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    assert objects(lake) == {lake.first, lake.second}
    assert numbers(lake) == [3, 4, 11, 12, 21]
    assert numbers(lake, {W: 1}) == [2, 3, 4, 11, 12]


def test_an_object_that_a_newer_one_covers_goes_with_the_revisions_that_need_it(deleted) -> None:
    lake = deleted
    with lake.writer() as writer:
        writer.checkpoint()
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [21]}))
        writer.checkpoint()
    prune(lake)
    plan, _ = gc(lake)
    assert planned(plan) == {lake.first}
    assert objects(lake) == {lake.second}  # the log has it from its checkpoint alone
    assert numbers(lake) == [3, 4, 11, 12, 21]
    assert not gc(lake)[0].actions


def test_the_object_of_a_file_that_is_removed_goes_with_it(deleted) -> None:
    lake = deleted
    with lake.writer() as writer:
        with writer.transaction() as tx:
            tx.remove(lake.path)
        writer.checkpoint()
    assert not gc(lake)[0].actions
    prune(lake)
    assert planned(gc(lake)[0]) == {lake.first, lake.second, lake.path}
    assert numbers(lake) == [11, 12]


def test_an_object_of_no_commit_is_an_orphan(lake) -> None:
    with lake.writer() as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [1, 2]}))
        tx = writer.transaction()
        tx.delete("t", "n = 1", mode="rows")
        lake.die(tx)
        (left,) = objects(lake)
        assert not gc(lake)[0].actions  # it could still be committed
        with writer.transaction() as again:
            again.delete("t", "n = 2", mode="rows")
    kept = objects(lake) - {left}
    lake.pass_time(30 * DAY_S)
    assert planned(gc(lake)[0]) == {left}
    assert objects(lake) == kept
    assert numbers(lake) == [1]


def test_an_object_that_a_commit_names_after_the_plan_stays(lake) -> None:
    from lakelog.gc.collect import execute_gc

    with lake.writer() as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [1, 2]}))
        tx = writer.transaction()
        tx.delete("t", "n = 1", mode="rows")
        plan = plan_gc(lake.catalog, W, D, margins=NO_GRACE)
        assert len(plan.actions) == 1
        tx.commit()
        execute_gc(lake.catalog, plan, margins=NO_GRACE)
    assert numbers(lake) == [2]


def test_an_object_proves_that_the_log_was_longer(deleted) -> None:
    """It was begun on a revision that is lost; so it, and what it is about, must not go."""
    lake = deleted
    for key in (lake.log_key("t1"), lake.log_key("t2")):  # from both copies
        lake.store.delete([key, key.replace("transactions/", "mirror/transactions/")])
    with lake.writer() as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"n": [31]}))
    lake.pass_time(30 * DAY_S)
    with pytest.raises(LostTail):
        plan_gc(lake.catalog, W, D, margins=lake.margins)
    assert objects(lake) == {lake.first, lake.second}


def test_a_name_like_one_of_ours_that_is_none_is_left_alone(deleted) -> None:
    lake = deleted
    notes = {lake.put_foreign(name) for name in ("x.deletes", "1-ab-0.deletes")}
    lake.pass_time(30 * DAY_S)
    gc(lake)
    assert notes <= objects(lake)
