"""A log that has lost its end, was set back, or was put in another one's place: prune and gc delete
nothing by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from collect_cases import BASE, D, W, gc, take_over
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.names import name_prefix
from lakelog.catalog.read.set_back import _MOST, _newest
from lakelog.errors import LogLost, LostTail
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.store import ObjectInfo, probe
from lakelog.testing.doubles import FakeAmbient, PassingStore

DAY_S = 86_400.0
LOG, MIRROR = f"{BASE}transactions/", f"{BASE}mirror/transactions/"


def lose(lake, *revisions, folders=(LOG, MIRROR)):
    """From both copies, as if the bucket had been set back, or from one."""
    starts = [folder + name_prefix(1, revision) for folder in folders for revision in revisions]
    lost = [info.key for info in lake.store.list(BASE) if info.key.startswith(tuple(starts))]
    assert lost
    lake.store.delete(lost)


def mirror(lake):
    """Complete the mirror: the copy of the head may be still to come."""
    for info in lake.store.list(LOG):
        lake.store.put(MIRROR + info.key.removeprefix(LOG), lake.store.get(info.key))


@pytest.fixture
def five(lake):
    """A log of five commits, a second apart."""
    with lake.writer() as writer:
        for value in range(5):
            lake.commit(writer, value)
            lake.pass_time(1)
    return lake


def refused(lake, **options):
    before = lake.data()
    with pytest.raises((LostTail, LogLost)) as caught:
        plan_gc(lake.catalog, W, D, **options)
    assert lake.data() == before
    return caught.value


# --- The mirror goes on ---------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [[4], [2, 3, 4], range(5)])
def test_a_mirror_that_goes_on_stops_gc_and_prune(five, lost):
    lake = five
    with lake.writer() as writer:
        lake.orphan(writer)
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    collection = plan_gc(lake.catalog, W, D)
    pruning = plan_prune(lake.catalog, W, D, keep_revisions=1)
    assert collection.objects
    assert pruning.objects
    mirror(lake)
    lose(lake, *lost, folders=[LOG])
    before = {info.key for info in lake.store.list(BASE)}
    error = refused(lake)
    assert "mirror" in error.message
    assert "lakelog repair" in error.hint
    for step in (
        lambda: plan_prune(lake.catalog, W, D, keep_revisions=1),
        lambda: execute_gc(lake.catalog, collection),
        lambda: execute_prune(lake.catalog, pruning),
    ):
        with pytest.raises((LostTail, LogLost)):
            step()
    assert {info.key for info in lake.store.list(BASE)} == before


def test_prune_puts_no_transaction_over_another_one(lake):
    """A committer that has not seen a lost end commits in its place: of the lost commit the copy is
    all that is left."""
    with lake.writer() as writer:
        path = lake.commit(writer, 0)
        lake.commit(writer, 1)
        writer.checkpoint()
    late = lake.writer(shared=True)
    with lake.writer(shared=True) as guest:
        lake.commit(guest, 2)
    (key,) = (i.key for i in lake.store.list(LOG) if i.key.startswith(LOG + name_prefix(1, 2)))
    copy = MIRROR + key.removeprefix(LOG)
    lost = lake.store.get(copy)
    lake.store.delete([key])
    lake.commit(late, 3, [path])
    with pytest.raises(LostTail):
        late.close()
    assert len(lake.store.get(key)) != len(lost)
    with lake.writer() as writer:
        for value in (4, 5):
            lake.commit(writer, value)
    lake.pass_time(30 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    with pytest.raises(LostTail, match="another transaction"):
        execute_prune(lake.catalog, plan)
    assert lake.store.get(copy) == lost


@pytest.mark.parametrize("folder", [LOG, MIRROR])
def test_what_one_copy_has_lost_of_the_beginning_is_not_taken(lake, folder):
    """Its revisions are read from the other copy."""
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[first])
        writer.checkpoint()
        lake.commit(writer, 2)
    mirror(lake)
    lose(lake, 0, folders=[folder])
    lake.pass_time(30 * DAY_S)
    plan, _ = gc(lake)
    assert not plan.actions
    assert first in lake.data()


# --- Both copies were set back --------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("owners", [1, 4])
def test_a_bucket_that_was_set_back_stops_gc(five, owners, checkpoint):
    """Owners have committed over the lost end since; the log may be as long as ever."""
    lake = five
    lose(lake, 3, 4)
    for value in range(owners):
        lake.pass_time(1)
        with lake.writer() as writer:
            lake.commit(writer, value)
            if checkpoint:
                writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    error = refused(lake)
    assert "was set back" in error.message
    assert f"lakelog rebuild URL {D} --writer {W}" in error.hint


def test_jobs_of_an_epoch_each_lose_the_end(lake):
    """Of the first lost one only files of later epochs tell."""
    for value in range(6):
        take_over(lake, value)
    lose(lake, 3, 4, 5)
    for value in (10, 11):
        take_over(lake, value)
    lake.pass_time(8 * DAY_S)
    assert "was set back" in refused(lake).message


def test_a_log_that_was_set_back_to_a_copy_from_before_a_rebuild(five):
    """Of its last transaction then nothing tells but that the log has been rebuilt since."""
    lake = five
    copy = {
        info.key: lake.store.get(info.key)
        for info in lake.store.list(BASE)
        if info.key.startswith((LOG, MIRROR))
    }
    take_over(lake, 5)
    lake.rebuild()
    for value in (6, 7):
        take_over(lake, value)
    keys = [info.key for info in lake.store.list(BASE)]
    lake.store.delete([key for key in keys if key.startswith((LOG, MIRROR))])
    for key, body in copy.items():
        lake.store.put(key, body)
    for value in range(3):
        take_over(lake, value)
    lake.pass_time(8 * DAY_S)
    assert "in incarnation 2 of the log" in refused(lake).message


def test_the_proof_is_found_below_many_epochs_of_leftovers(five):
    lake = five
    lose(lake, 3, 4)
    for value in range(_MOST + 2):
        with lake.writer() as writer:
            lake.orphan(writer)
            lake.commit(writer, value)
    lake.pass_time(8 * DAY_S)
    assert "was set back" in refused(lake).message


def test_the_bucket_may_be_set_back_after_the_plan(five):
    lake = five
    with lake.writer() as writer:
        lake.orphan(writer)
    lake.pass_time(8 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    assert plan.objects == 1
    with lake.writer() as writer:
        for value in (7, 8):
            lake.commit(writer, value)
    lose(lake, 5, 6)
    take_over(lake)
    take_over(lake)
    before = lake.data()
    with pytest.raises(LostTail):
        execute_gc(lake.catalog, plan)
    assert lake.data() == before


def test_honest_orphans_go(five):
    """Attempts begun on any revision, of the whole log and of what prune has left."""
    lake = five
    with lake.writer() as writer:
        orphans = {lake.orphan(writer)}
        lake.commit(writer, 5)
        orphans.add(lake.orphan(writer))
        writer.checkpoint()
    lake.pass_time(8 * DAY_S)
    assert {action.key for action in gc(lake)[0].actions} == {BASE + path for path in orphans}
    with lake.writer() as writer:
        orphan = lake.orphan(writer)
        removed = lake.commit(writer, 8)
        lake.commit(writer, 9, remove=[removed])
        writer.checkpoint()
    lake.pass_time(8 * DAY_S)
    plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
    assert execute_prune(lake.catalog, plan).deleted_objects
    assert {action.key for action in gc(lake)[0].actions} == {BASE + orphan, BASE + removed}


def another(make, lake):
    """A lake whose log is without live files, as old as the given one's or older."""
    other = make()
    with other.writer() as writer:
        path = other.commit(writer, 0)
    with other.writer() as writer, writer.transaction() as tx:
        tx.remove(path)
    keys = [info.key for info in lake.store.list(BASE)]
    lake.store.delete([key for key in keys if key.startswith((LOG, MIRROR))])
    for info in other.store.list(BASE):
        if info.key.startswith((LOG, MIRROR)):
            lake.store.put(info.key, other.store.get(info.key))


@pytest.mark.parametrize("is_older", [False, True])
def test_another_log_in_the_place_stops_gc(make_memory_lake, is_older):
    lake = make_memory_lake()
    lake.pass_time(60 * is_older)
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    another(make_memory_lake, lake)
    lake.pass_time(30 * DAY_S)
    assert "and this is another one" in refused(lake).message


def test_of_each_epoch_the_newest_are_read(five):
    """One transaction an epoch at least, however many an other epoch has."""
    when = next(five.store.list(BASE)).modified_at

    def info(epoch, number):
        return ObjectInfo(f"{BASE}data/_/t/{epoch}-{number:032x}-0.parquet", 9, when)

    many = [info(7, number) for number in range(100)]
    few = [info(epoch, 1000 + epoch) for epoch in range(1, 7)]
    chosen = _newest([*many, *few], each_epoch=False)
    assert len(chosen) == _MOST
    assert set(few) < set(chosen)


def test_one_id_of_two_transactions_is_no_lost_end(lake):
    """A process and its double draw the same ids: that of the first commit is that of the second,
    too."""
    ids = [FakeAmbient(seed=3).ambient.new_id for _ in range(2)]
    ids[1]()  # the first one draws the id of the log
    probe(lake.store, f"{W}/")  # without taking an identity of either
    one, other = (
        Catalog(PassingStore(lake.store), ambient=replace(lake.clock.ambient(), new_id=new_id))
        for new_id in ids
    )
    with one.writer(W, D, checkpoint_every=0) as writer:
        lake.commit(writer, 0)
        orphan = lake.orphan(writer)  # begun on revision 0
    with other.writer(W, D, checkpoint_every=0) as writer:
        lake.commit(writer, 1)
    history = lake.catalog.history(D).column("transaction_ids").to_pylist()
    assert history[0] == history[1]
    lake.pass_time(30 * DAY_S)
    plan = plan_gc(lake.catalog, W, D)
    assert [action.key for action in plan.actions] == [f"{BASE}{orphan}"]
