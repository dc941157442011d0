"""A log has lost its end, on which no file was begun: only what a lost transaction saw when it was
told, or took out, proves it. gc and prune take nothing then, and doctor says so."""

from __future__ import annotations

import pyarrow as pa
import pytest
from collect_cases import BASE, D, W, gc, take_over
from lakelog.catalog.format.names import parse_own_file
from lakelog.catalog.read.health import examine_log
from lakelog.catalog.read.lost_tail import MOST_FOOTERS
from lakelog.errors import LostTail
from lakelog.gc import execute_prune, plan_gc, plan_prune

DAY_S = 86_400.0


def doctor(lake):
    health = examine_log(lake.store, W, D, ambient=lake.clock.ambient())
    return [finding.what for finding in health.findings if finding.severity == "problem"]


def prune(lake):
    lake.pass_time(2 * DAY_S)
    return execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, keep_revisions=1))


def trim(lake, **options):
    """Take the beginning of the log, and out of the history."""
    for value in range(70, 73):
        with lake.writer(**options) as writer:
            lake.commit(writer, value)
            writer.checkpoint()
        assert prune(lake).deleted_objects
    assert lake.log().load().history.first() > 0


def lose_from(lake, revision):
    head = lake.log().names().head
    lake.store.delete([lake.log_key(f"t{one}") for one in range(revision, head + 1)])


# --- What was seen, or taken out ------------------------------------------------------------------


def by_predicate(tx, old, new):
    tx.delete("hourly", "value = 0", mode="predicate")


def removes(tx, old, new):
    tx.remove(old)


def deletes_rows(tx, old, new):
    tx.delete("hourly", "value = 2", mode="rows")


def replaces(tx, old, new):
    tx.remove(new)
    tx.write("hourly", pa.table({"value": [3]}))


def overwrites(tx, old, new):
    tx.overwrite("hourly", pa.table({"value": [3]}), "value = 2", validate=False)


SEEN = (by_predicate, removes)
TAKEN = (deletes_rows, replaces, overwrites)


def lost(lake, does, **options):
    """Two transactions are lost that were begun on one that stands: the first one's file is that
    which the second one saw, or takes out. The log ends with a checkpoint, as if it were whole."""
    with lake.writer(**options) as writer:
        old = lake.commit(writer, 0)
        lake.pass_time(1)
        lake.commit(writer, 1)
        writer.checkpoint()
        head = lake.log().names().head
        lake.pass_time(1)
        tx = writer.transaction()
        new = lake.commit(writer, 2)
        lake.pass_time(1)
        does(tx, old, new)
        tx.commit()
    lose_from(lake, head + 1)
    return new


@pytest.mark.parametrize("does", [*SEEN, *TAKEN])
def test_nothing_is_taken(lake, does):
    lost(lake, does)
    before = lake.data()
    lake.pass_time(30 * DAY_S)
    with pytest.raises(LostTail) as caught:
        plan_gc(lake.catalog, W, D)
    assert "has lost its end" in caught.value.message
    assert f"lakelog rebuild URL {D} --writer {W}" in caught.value.hint
    assert lake.data() == before


@pytest.mark.parametrize("does", [*SEEN, *TAKEN])
def test_doctor_tells(lake, does):
    lost(lake, does)
    (found,) = doctor(lake)
    assert "has lost its end" in found


@pytest.mark.parametrize("does", [*SEEN, *TAKEN])
def test_prune_takes_nothing_of_the_history(lake, does):
    lost(lake, does)
    names = lake.log_names()
    with pytest.raises(LostTail):
        prune(lake)
    assert lake.log_names() == names


@pytest.mark.parametrize("does", [*SEEN, *TAKEN])
def test_nothing_is_taken_where_others_stand_in_its_place(lake, does):
    """A new owner has committed as many since: the files would be orphans by their epoch."""
    lost(lake, does)
    for value in range(10, 14):
        take_over(lake, value)
    with pytest.raises(LostTail):
        plan_gc(lake.catalog, W, D)
    assert doctor(lake)


@pytest.mark.parametrize("trimmed", [False, True])
@pytest.mark.parametrize("does", TAKEN)
def test_a_file_that_is_gone_was_committed_all_the_same(lake, does, trimmed):
    """Its name tells its epoch, so that it came later than what was trimmed."""
    with lake.writer() as writer:
        lake.commit(writer, 50)
    if trimmed:
        trim(lake)
    new = lost(lake, does)
    lake.store.delete([BASE + new])
    lake.pass_time(30 * DAY_S)
    with pytest.raises(LostTail) as caught:
        plan_gc(lake.catalog, W, D)
    assert new in caught.value.message


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("does", [*SEEN, *TAKEN])
def test_a_trimmed_history_goes_back_far_enough(lake, does, shared):
    """Of a file of the epoch that it begins in its own footer tells that it came later."""
    with lake.writer() as writer:
        for value in (50, 51, 52):
            lake.commit(writer, value)
    trim(lake, shared=shared)
    new = lost(lake, does, shared=shared)
    state = lake.log().load()
    assert (parse_own_file(new).epoch == state.history.first_epoch()) is shared
    lake.pass_time(30 * DAY_S)
    with pytest.raises(LostTail):
        plan_gc(lake.catalog, W, D)


def test_an_object_that_stays_tells_of_a_file_that_would_go(lake):
    """The object is young, and one of many of which nothing would go: only the file of its
    transaction does, which was begun on what stands."""
    with lake.writer() as writer:
        old = lake.commit(writer, 0)
        lake.commit(writer, 1)
        tx, *others = (writer.transaction() for _ in range(MOST_FOOTERS + 2))
        lake.commit(writer, 2)
        tx.write("hourly", lake.rows(3))
        tx.remove(old)
        lake.pass_time(8 * DAY_S)
        tx._intent.begun = None  # commits for all that, late
        tx.commit()
        for other in others:
            lake.pass_time(1)
            other.write("hourly", lake.rows(4))
            other.discard()
    lose_from(lake, 2)
    with pytest.raises(LostTail) as caught:
        plan_gc(lake.catalog, W, D)
    assert caught.value.key.endswith(".actions")


# --- Honest leftovers -----------------------------------------------------------------------------


def leftover(lake, writer, taken):
    """A file of a process that died after it wrote it, in the place of others."""
    tx = writer.transaction()
    tx.remove(taken)
    path = tx.write("hourly", lake.rows(7))[0]
    tx.discard()
    return path


def all_go(lake, *left):
    assert doctor(lake) == []
    take_over(lake, 98)
    lake.pass_time(30 * DAY_S)
    for _ in range(2):  # an object that says what is not live goes after that
        gc(lake)
    assert lake.data().isdisjoint(left)


def test_what_took_out_a_file_that_was_committed_goes(lake):
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        left = leftover(lake, writer, first)
        lake.commit(writer, 1, remove=[first])
    all_go(lake, left)


def test_what_took_out_a_file_of_its_own_goes(lake):
    with lake.writer() as writer:
        lake.commit(writer, 0)
        tx = writer.transaction()
        own = tx.write("hourly", lake.rows(1))[0]
        tx.remove(own)
        left = tx.write("hourly", lake.rows(2))[0]
        tx.discard()
    lake.store.delete([BASE + own])  # so that the other one is read
    all_go(lake, left)


def test_what_took_out_a_file_of_before_a_rebuild_goes(lake):
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
    lake.rebuild()
    with lake.writer() as writer:
        left = leftover(lake, writer, first)
        lake.commit(writer, 1, remove=[first])
    all_go(lake, left)


def test_what_took_out_a_file_of_a_trimmed_revision_goes(lake):
    """Nobody knows any more who committed that: it was begun before the history begins, or nothing
    tells what it was begun on."""
    with lake.writer() as writer:
        first, second = (lake.commit(writer, value) for value in range(2))
        left = [leftover(lake, writer, one) for one in (first, second)]
        lake.commit(writer, 2, remove=[first, second])
        lake.commit(writer, 3)
    lake.store.delete([BASE + second])
    trim(lake, shared=True)
    assert lake.log().load().history.first_epoch() == 1
    all_go(lake, first, *left)


@pytest.mark.parametrize("does", [*SEEN, *TAKEN])
def test_an_attempt_that_saw_what_stands_goes(lake, hooked, does):
    """It died at its commit: all that it says was so."""

    def dies(request, key):
        if request == "put" and key.endswith(".transaction"):
            raise KeyboardInterrupt

    with lake.writer() as writer:
        old = lake.commit(writer, 0)
        new = lake.commit(writer, 2)
    before, store = lake.data(), lake.store
    lake.store = hooked(store, dies)
    tx = lake.writer().transaction()
    does(tx, old, new)
    with pytest.raises(KeyboardInterrupt):
        tx.commit()
    lake.store = store
    left = lake.data() - before
    assert left
    take_over(lake)
    with lake.writer() as writer:  # what it took out goes as well: nothing needs what says so
        lake.commit(writer, 5, remove=[old, new])
        writer.checkpoint()
    prune(lake)
    all_go(lake, *left)
