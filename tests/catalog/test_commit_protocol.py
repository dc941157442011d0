"""The commit protocol: races, fencing, guests, lost answers, long sleeps and many threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from commit_cases import transactions
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    CommitOutcomeUnknown,
    EpochChanged,
    FencedError,
    FileNotLive,
)
from lakelog.testing.doubles import FaultyStore
from table_cases import table, values, write

# --- Fencing --------------------------------------------------------------------------------------


def test_a_new_owner_fences_its_predecessor_for_good(catalog, store):
    old = catalog.writer("w", "db")
    write(old, 1)
    new = catalog.writer("w", "db")
    assert (old.epoch, new.epoch) == (1, 2)
    write(new, 2)
    for _ in range(3):
        with pytest.raises(FencedError) as caught:
            write(old, 3)
        assert caught.value.exit_code == 4
        assert "epoch 2" in str(caught.value)
    write(new, 4)
    assert values(store) == [1, 2, 4]


def test_opening_alone_fences_nobody(catalog, store):
    old = catalog.writer("w", "db")
    write(old, 1)
    catalog.writer("w", "db")
    write(old, 2)
    assert values(store) == [1, 2]


def test_a_loser_to_a_lower_epoch_replays_and_goes_on(catalog, store):
    """A predecessor's last commit slips in before the new owner's first one."""
    old = catalog.writer("w", "db")
    write(old, 1)
    new = catalog.writer("w", "db")
    write(old, 2)
    assert write(new, 3).revision == 2
    with pytest.raises(FencedError):
        write(old, 4)
    assert values(store) == [1, 2, 3]
    assert catalog.history("db").column("epoch").to_pylist() == [1, 1, 2]


def test_two_owners_of_one_epoch_are_told_apart(catalog, store):
    """Both opened on the same head, so both have the same number: the first commit decides."""
    one, two = catalog.writer("w", "db"), catalog.writer("w", "db")
    assert one.epoch == two.epoch
    write(two, 2)
    with pytest.raises(FencedError):
        write(one, 1)
    write(two, 3)
    assert values(store) == [2, 3]


def test_create_twice_is_refused(catalog, store):
    """Two processes that both begin an empty log race for one name, and one of them wins."""
    one, two = catalog.writer("w", "db"), catalog.writer("w", "db")
    write(one, 1)
    with pytest.raises(FencedError):
        write(two, 2)
    assert len(transactions(store)) == 1


def test_a_fenced_writer_may_be_opened_again(catalog, store):
    old = catalog.writer("w", "db")
    write(catalog.writer("w", "db"), 1)
    with pytest.raises(FencedError):
        write(old, 2)
    again = catalog.writer("w", "db")
    assert again.epoch == 2
    write(again, 3)
    assert values(store) == [1, 3]


def test_a_fenced_writers_own_unknown_commit_is_still_told(store, fake):
    """The answer was lost, then a new owner came: what stands in the log is a success."""
    lossy = FaultyStore(store, ["ok", "lost response"])
    old = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(old, 1)
    tx = old.transaction()
    tx.write("t", table(2))
    lossy.fail_reads = True
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    lossy.fail_reads = False
    write(Catalog(store).writer("w", "db"), 3)
    assert tx.commit().revision == 1
    with pytest.raises(FencedError):
        write(old, 4)
    assert values(store) == [1, 2, 3]


@pytest.mark.parametrize("count", [2, 5])
def test_owners_in_threads_never_both_win_a_revision(store, count):
    """Real threads on one store: every success stands in the log, at its own revision."""
    barrier = threading.Barrier(count)

    def run(number):
        writer = Catalog(store).writer("w", "db")
        done = []
        barrier.wait()
        for value in range(10):
            try:
                info = write(writer, number * 100 + value)
            except FencedError:
                break
            done.append((info.revision, number * 100 + value))
        return done

    with ThreadPoolExecutor(count) as pool:
        done = [item for found in pool.map(run, range(count)) for item in found]
    assert len({revision for revision, _ in done}) == len(done)
    assert values(store) == sorted(value for _, value in done)
    assert len(transactions(store)) == len(done)


# --- Guests ---------------------------------------------------------------------------------------


def test_guests_commit_beside_an_owner(catalog, store):
    owner = catalog.writer("w", "db")
    write(owner, 1)
    guest = catalog.writer("w", "db", shared=True)
    assert guest.epoch == owner.epoch == 1
    write(guest, 2)
    write(owner, 3)
    write(guest, 4)
    write(owner, 5)
    assert values(store) == [1, 2, 3, 4, 5]
    history = catalog.history("db")
    assert history.column("guest").to_pylist() == [False, True, False, True, False]
    assert set(history.column("epoch").to_pylist()) == {1}


def test_two_guests_share_a_log(catalog, store):
    one = catalog.writer("w", "db", shared=True)
    two = catalog.writer("w", "db", shared=True)
    for number in range(3):
        write(one, number)
        write(two, 10 + number)
    assert values(store) == [0, 1, 2, 10, 11, 12]


def test_a_guest_that_came_before_any_owner_fences_nobody(catalog, store):
    owner = catalog.writer("w", "db")
    write(catalog.writer("w", "db", shared=True), 1)
    write(owner, 2)
    assert values(store) == [1, 2]


def test_a_guest_starts_over_when_a_new_owner_has_come(catalog, store):
    write(catalog.writer("w", "db"), 1)
    guest = catalog.writer("w", "db", shared=True)
    tx = guest.transaction()
    tx.write("t", table(2))
    write(catalog.writer("w", "db"), 3)
    with pytest.raises(EpochChanged) as caught:
        tx.commit()
    assert "again" in caught.value.hint
    write(guest, 4)
    assert values(store) == [1, 3, 4]


def test_a_guest_checks_its_inputs_again_after_a_lost_race(catalog, store):
    owner = catalog.writer("w", "db")
    with owner.transaction() as tx:
        (path,) = tx.write("t", table(1))
    guest = catalog.writer("w", "db", shared=True)
    tx = guest.transaction(operation="rewrite")
    tx.remove(path)
    tx.write("t", table(10))
    with owner.transaction() as mine:
        mine.remove(path)
    with pytest.raises(FileNotLive, match=path):
        tx.commit()
    assert values(store) == []


def test_an_owner_checks_its_inputs_again_after_a_lost_race(catalog, store):
    owner = catalog.writer("w", "db")
    with owner.transaction() as tx:
        (path,) = tx.write("t", table(1))
    with catalog.writer("w", "db", shared=True).transaction() as theirs:
        theirs.remove(path)
    with pytest.raises(FileNotLive), owner.transaction() as tx:
        tx.remove(path)
    write(owner, 2)
    assert values(store) == [2]


def test_guests_in_threads_lose_nothing(store):
    barrier = threading.Barrier(4)

    def run(number):
        writer = Catalog(store).writer("w", "db", shared=True)
        barrier.wait()
        for value in range(8):
            write(writer, number * 100 + value)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert values(store) == sorted(n * 100 + v for n in range(4) for v in range(8))
    assert len(transactions(store)) == 1 + 32, "the birth, and one for each commit"
