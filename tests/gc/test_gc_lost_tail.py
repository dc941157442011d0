"""A log that has lost its end, or was put in another one's place: gc takes nothing by it, and
doctor says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from collect_cases import BASE, D, W, gc, take_over
from lakelog.catalog.format.names import parse_own_file
from lakelog.catalog.read.health import examine_log
from lakelog.catalog.read.lost_tail import MOST_FOOTERS, newest
from lakelog.errors import LostTail
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.store import ObjectInfo

DAY_S = 86_400.0


def lose(lake, *revisions):
    lake.store.delete([lake.log_key(f"t{revision}") for revision in revisions])


@pytest.fixture
def five(lake):
    """A log of five commits, a second apart."""
    with lake.writer() as writer:
        for value in range(5):
            lake.commit(writer, value)
            lake.pass_time(1)
    return lake


def doctor(lake):
    health = examine_log(lake.store, W, D, ambient=lake.clock.ambient())
    return health.sound, [finding.what for finding in health.findings]


def refused(lake, **options):
    before = lake.data()
    with pytest.raises(LostTail) as caught:
        plan_gc(lake.catalog, W, D, **options)
    assert lake.data() == before
    return caught.value


@pytest.mark.parametrize("owner", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_lost_end_stops_gc(five, owner, checkpoint):
    lake = five
    lose(lake, 3, 4)
    assert not doctor(lake)[0]
    if owner:  # the files are of a superseded epoch now: orphans at once, by their names
        with lake.writer() as writer:
            lake.commit(writer, 100)
            if checkpoint:
                writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    error = refused(lake)
    assert "has lost its end" in error.message
    assert f"lakelog rebuild URL {D} --writer {W}" in error.hint
    sound, found = doctor(lake)
    assert not sound
    assert found == [error.message]


def test_a_revision_that_stands_anew_is_another_one(five):
    """Two owners have committed over the lost end since: the log is as long as ever."""
    lake = five
    lose(lake, 3, 4)
    for value in range(4):
        take_over(lake, value)
    assert "another revision 3 stood" in refused(lake).message
    assert not doctor(lake)[0]


def test_jobs_of_an_epoch_each_lose_the_end(lake):
    """Of the first lost one only files of later epochs tell, which are young or above the head's:
    it is the only one that would go."""
    for value in range(6):
        take_over(lake, value)
    lose(lake, 3, 4, 5)
    for value in (10, 11):
        take_over(lake, value)
    assert "has lost its end" in refused(lake).message


def test_a_file_with_the_id_of_another_commit_proves_it_too(five):
    """A process and its double draw one id: one commits it, the other dies after it wrote a file,
    as the owner of a later epoch."""
    lake = five
    with lake.writer() as writer:
        double = writer._session
        (first,) = lake.paths_at(0)
        committed = parse_own_file(first).transaction_id
        double._ambient = replace(double._ambient, new_id=lambda: committed)
        orphan = parse_own_file(lake.orphan(writer))
    assert (orphan.epoch, orphan.transaction_id) == (2, committed)
    lose(lake, 4)  # its own file was begun on one that stands: the double's is the only proof
    for value in range(4):
        take_over(lake, value)
    error = refused(lake)
    assert f"2-{committed.hex()}-0.parquet was written when another revision 4" in error.message
    assert not doctor(lake)[0]


def test_a_log_that_was_set_back_to_a_copy_from_before_a_rebuild(five):
    """Of its last transaction then nothing tells but that the log has been rebuilt since."""
    lake = five
    folder = f"{BASE}transactions/"
    copy = {info.key: lake.store.get(info.key) for info in lake.store.list(folder)}
    take_over(lake, 5)
    lake.rebuild()
    for value in (6, 7):
        take_over(lake, value)
    lake.store.delete([info.key for info in lake.store.list(folder)])
    for key, body in copy.items():
        lake.store.put(key, body)
    for value in range(3):
        take_over(lake, value)
    error = refused(lake)
    assert "written in its incarnation 2, and it is in incarnation 1" in error.message
    assert not doctor(lake)[0]


def test_the_proof_is_found_below_many_epochs_of_leftovers(five):
    lake = five
    lose(lake, 3, 4)
    for value in range(MOST_FOOTERS + 2):
        with lake.writer() as writer:
            lake.orphan(writer)
            lake.commit(writer, value)
    assert "another revision 3 stood" in refused(lake).message


def test_prune_does_not_take_the_proof(five):
    """Once the history is gone that says what stands there instead, nothing tells that it was
    lost, and the files would be orphans."""
    lake = five
    lose(lake, 3, 4)
    for value in range(3):
        take_over(lake, value)
    with lake.writer() as writer:
        writer.checkpoint()
    lake.pass_time(2 * DAY_S)
    with pytest.raises(LostTail):
        plan_prune(lake.catalog, W, D, keep_revisions=1)


def test_the_end_may_be_lost_after_a_prune_was_planned(five):
    lake = five
    with lake.writer() as writer:
        writer.checkpoint()
        lake.pass_time(2 * DAY_S)
        plan = plan_prune(lake.catalog, W, D, keep_revisions=1)
        assert plan.objects
        for value in (7, 8):
            lake.commit(writer, value)
    lose(lake, 5, 6)
    for value in (10, 11):
        take_over(lake, value)
    oldest = lake.log_key("t0")
    with pytest.raises(LostTail):
        execute_prune(lake.catalog, plan)
    assert lake.store.head(oldest).key == oldest


def test_the_end_may_be_lost_after_the_plan(five):
    lake = five
    with lake.writer() as writer:
        lake.orphan(writer)
    take_over(lake)
    take_over(lake)
    plan = plan_gc(lake.catalog, W, D)
    assert plan.objects == 1
    with lake.writer() as writer:
        for value in (7, 8):
            lake.commit(writer, value)
    lose(lake, 7, 8)
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
    take_over(lake)
    assert doctor(lake) == (True, [])
    assert {action.key for action in gc(lake)[0].actions} == {BASE + path for path in orphans}
    with lake.writer() as writer:
        orphan = lake.orphan(writer)
        removed = lake.commit(writer, 8)
        lake.commit(writer, 9, remove=[removed])
        writer.checkpoint()
    take_over(lake)
    with lake.writer() as writer:
        lake.commit(writer, 10)
        writer.checkpoint()
    lake.pass_time(2 * DAY_S)
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
    lake.store.delete([info.key for info in lake.store.list(f"{BASE}transactions/")])
    for info in other.store.list(f"{BASE}transactions/"):
        lake.store.put(info.key, other.store.get(info.key))


def test_another_log_in_the_place_stops_gc(make_memory_lake):
    lake = make_memory_lake()
    lake.pass_time(60)
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    another(make_memory_lake, lake)
    lake.pass_time(30 * DAY_S)
    error = refused(lake)
    assert "was written for the log" in error.message
    assert doctor(lake) == (False, [error.message])


def test_another_log_younger_than_the_files_takes_none(make_memory_lake):
    lake = make_memory_lake()
    with lake.writer() as writer:
        for value in range(3):
            lake.commit(writer, value)
    another(make_memory_lake, lake)
    lake.pass_time(30 * DAY_S)
    plan, report = gc(lake)
    assert not report.deleted_objects
    assert any("undecided since the log began" in kept.reason for kept in plan.kept)
    assert plan_gc(lake.catalog, W, D, undecided=True).objects == 3


def test_of_each_epoch_the_newest_are_read(five):
    """One transaction an epoch at least, however many an other epoch has."""
    when = next(five.store.list(BASE)).modified_at

    def info(epoch, number):
        return ObjectInfo(f"{BASE}data/_/t/{epoch}-{number:032x}-0.parquet", 9, when)

    many = [info(7, number) for number in range(100)]
    few = [info(epoch, 1000 + epoch) for epoch in range(1, 7)]
    found = newest([*many, *few])
    assert len(found) == MOST_FOOTERS
    assert set(few) < set(found)
