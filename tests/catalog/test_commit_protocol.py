"""The commit protocol: races, fencing, guests, lost answers, long sleeps and many threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import queue as group
from lakelog.catalog.log.build import Intent
from lakelog.catalog.log.outcome import CommitInfo
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    CommitOutcomeUnknown,
    ConflictError,
    EpochChanged,
    FencedError,
    FileNotLive,
    LakelogError,
    StorageError,
    UsageError,
)
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FaultyStore, PassingStore
from lakelog.testing.keys import log_keys, revision_in
from lakelog.testing.logs import live_paths

LIMIT_S = DEFAULT_MARGINS.idle_limit_s


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def write(writer, *values, **options):
    with writer.transaction(**options) as tx:
        tx.write("t", table(*values))
    return tx.commit_info


def values(store, as_of=None):
    found = Catalog(store).snapshot("db", as_of).to_arrow("t").column("a").to_pylist()
    return sorted(found)


def transactions(store):
    return log_keys(store, "transaction")


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


# --- Lost answers ---------------------------------------------------------------------------------


FAULTS = {
    "lost response": (["lost response"], 2),
    "lost request": (["lost request"], 2),
    "request, then response": (["lost request", "lost response"], 3),
    "response, then request": (["lost response", "lost request"], 3),
    "three requests": (["lost request"] * 3, 4),
    "three requests, the last one landed": (["lost request"] * 2 + ["lost response"], 4),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_commit_whose_answer_was_lost_succeeds_once(store, fake, name):
    faults, puts = FAULTS[name]
    lossy = FaultyStore(store, ["ok", *faults])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    assert write(writer, 2).revision == 1
    assert write(writer, 3).revision == 2
    assert values(store) == [1, 2, 3]
    assert len(transactions(store)) == 3
    keys = [key for key, _ in lossy.script.puts]
    assert len(keys) == 1 + puts + 1
    assert len(set(keys)) == 3, "a retry took another name"


@pytest.mark.parametrize("fault", ["lost request", "lost response"])
def test_nothing_learnt_at_all_is_unknown_and_can_be_called_again(store, fake, fault):
    lossy = FaultyStore(store, ["ok", *[fault] * 4])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    if fault == "lost response":
        lossy.fail_reads = True
    tx = writer.transaction()
    tx.write("t", table(2))
    with pytest.raises(CommitOutcomeUnknown) as caught:
        tx.commit()
    error = caught.value
    assert error.exit_code == 7
    assert error.transaction_id == tx.transaction_id
    assert error.key.endswith(".transaction")
    assert "again" in error.hint
    assert tx.commit_info is None
    lossy.fail_reads = False
    info = tx.commit()
    assert info.revision == 1
    assert tx.commit() is info
    write(writer, 3)
    assert values(store) == [1, 2, 3]
    assert len(transactions(store)) == 3


def test_an_unknown_commit_that_another_writers_commit_overtook(store, fake):
    """Its request was lost for good, and somebody else took the name: it goes to the next."""
    lossy = FaultyStore(store, ["ok", *["lost request"] * 4])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db", shared=True)
    tx = writer.transaction()
    tx.write("t", table(1))
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    write(Catalog(store).writer("w", "db", shared=True), 2)
    assert tx.commit().revision == 2
    assert values(store) == [1, 2]


def test_an_unknown_commit_that_was_pruned_since_stays_unknown(store, fake):
    """The log went on and its early part was pruned: neither yes nor no can be said."""
    lossy = FaultyStore(store, ["ok", *["lost response"] * 4])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db", shared=True)
    tx = writer.transaction()
    tx.write("t", table(1))
    lossy.fail_reads = True
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    lossy.fail_reads = False
    other = Catalog(store).writer("w", "db", shared=True)
    for value in range(2, 6):  # a piece of history goes once all of it was pruned
        write(other, value)
        prune_to_checkpoint(store, other.checkpoint().revision)
    fake.move(LIMIT_S + 1)
    with pytest.raises(CommitOutcomeUnknown, match="pruned"):
        tx.commit()


def test_a_commit_time_is_the_same_however_it_was_learnt(store, fake):
    """Read back from a checkpoint or from the log: to the microsecond."""
    for step in range(20):
        fake.wall_us = 1_700_000_000_123_457 + step * 1_000_003
        root = MemoryStore()
        lossy = FaultyStore(root, ["lost response"] * 4)
        writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
        tx = writer.transaction()
        tx.write("t", table(step))
        lossy.fail_reads = True
        with pytest.raises(CommitOutcomeUnknown):
            tx.commit()
        lossy.fail_reads = False
        Catalog(root).writer("w", "db", shared=True).checkpoint()
        root.delete(transactions(root))
        expected = LogReader(root, "w", "db").load().committed_at_us
        fake.move(LIMIT_S + 1)
        assert tx.commit().committed_at_us == expected


def test_a_lost_answer_while_reading_back_is_tried_again(store, fake):
    class Flaky(FaultyStore):
        failures = 2

        def get(self, key, *, start=None, end=None):
            if self.failures and key.endswith(".transaction"):
                self.failures -= 1
                raise StorageError("try later", key=key)
            return super().get(key, start=start, end=end)

    lossy = Flaky(store, ["lost response"])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    assert write(writer, 1).revision == 0
    assert lossy.failures == 0
    assert values(store) == [1]


@pytest.mark.parametrize("error", [AccessDenied, CapabilityMissing])
def test_a_refusal_is_no_doubt(store, fake, error):
    """The store said no, so nothing was written: no retries, and no "unknown"."""

    class Refusing(PassingStore):
        puts = 0

        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                self.puts += 1
                raise error("no", key=key)
            super().put(key, body, if_absent=if_absent)

    refusing = Refusing(store)
    writer = Catalog(refusing, ambient=fake.ambient).writer("w", "db")
    with pytest.raises(error):
        write(writer, 1)
    assert refusing.puts == 1
    assert transactions(store) == []


# --- Long sleeps ----------------------------------------------------------------------------------


def prune_to_checkpoint(store, revision):
    """What prune leaves: the checkpoint of a revision, and what came after it."""
    store.delete([key for key in log_keys(store) if revision_in(key) < revision])


def test_a_committer_that_slept_lists_again_and_never_makes_a_pruned_name_anew(
    catalog, store, fake
):
    sleeper = catalog.writer("w", "db", shared=True)
    write(sleeper, 0)
    other = catalog.writer("w", "db", shared=True)
    for value in range(1, 6):
        write(other, value)
    prune_to_checkpoint(store, other.checkpoint().revision)
    fake.move(LIMIT_S + 1)
    assert write(sleeper, 6).revision == 7  # revision 0 is the birth
    assert [revision_in(key) for key in transactions(store)] == [6, 7]
    assert values(store) == list(range(7))


def test_without_the_long_sleep_one_put_is_all(store, fake):
    counting = CountingStore(store)
    writer = Catalog(counting, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    fake.move(LIMIT_S - 1)
    tx = writer.transaction()
    tx.write("t", table(2))
    counting.reset()
    tx.commit()
    assert counting.reset() == {"put": 1, "get": 0, "list": 0, "head": 0, "delete": 0}


def test_a_put_that_took_long_is_looked_after(store, fake):
    """It stands, and nothing was pruned: success."""
    slow = FaultyStore(store)
    writer = Catalog(slow, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    slow.before_put = lambda key: fake.move(LIMIT_S + 1)
    assert write(writer, 2).revision == 1
    slow.before_put = None
    assert write(writer, 3).revision == 2
    assert values(store) == [1, 2, 3]


def test_a_put_so_slow_that_its_name_was_pruned_before_it_landed(catalog, store, fake):
    """Others committed, checkpointed and pruned meanwhile: the put made a dead name anew."""
    slow = FaultyStore(store)
    sleeper = Catalog(slow, ambient=fake.ambient).writer("w", "db", shared=True)
    write(sleeper, 0)

    def meanwhile(key):
        slow.before_put = None
        other = catalog.writer("w", "db", shared=True)
        for value in range(1, 6):
            write(other, value)
        prune_to_checkpoint(store, other.checkpoint().revision)
        fake.move(LIMIT_S + 1)

    slow.before_put = meanwhile
    assert write(sleeper, 99).revision == 7  # it lost that name, and has taken the next one
    assert values(store) == [0, 1, 2, 3, 4, 5, 99]
    assert write(sleeper, 100).revision == 8


class AfterPut(FaultyStore):
    """Something happens after the next transaction was put, before its committer hears of it."""

    after = None

    def put(self, key, body, *, if_absent=False):
        super().put(key, body, if_absent=if_absent)
        if self.after is not None and key.endswith(".transaction"):
            self.after, call = None, self.after
            call()


def test_a_slow_put_whose_place_in_the_history_is_gone_is_unknown(store, fake):
    """It stood, others went on, and what is left of the log no longer tells."""
    slow = AfterPut(store)
    sleeper = Catalog(slow, ambient=fake.ambient).writer("w", "db", shared=True)

    def meanwhile():
        for value in range(1, 5):  # a piece of history goes once all of it was pruned
            other = Catalog(store, ambient=fake.ambient).writer("w", "db", shared=True)
            write(other, value)
            prune_to_checkpoint(store, other.checkpoint().revision)
        fake.move(LIMIT_S + 1)

    slow.after = meanwhile
    with pytest.raises(CommitOutcomeUnknown, match="was pruned"):
        write(sleeper, 0)
    assert values(store) == list(range(5))


def test_a_slow_put_that_stands_is_never_reported_as_failed(store, fake):
    """The put landed, and then the store went away: that is unknown, and no plain error."""

    class Away(FaultyStore):
        def list(self, prefix, **options):
            if self.fail_reads:
                raise StorageError("the store is away", key=prefix)
            return list(super().list(prefix, **options))

    away = Away(store)
    writer = Catalog(away, ambient=fake.ambient).writer("w", "db")

    def meanwhile(key):
        away.before_put = None
        away.fail_reads = True
        fake.move(LIMIT_S + 1)

    tx = writer.transaction()
    tx.write("t", table(1))
    away.before_put = meanwhile
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    away.fail_reads = False
    assert tx.commit().revision == 0
    assert values(store) == [1]


def test_a_slow_put_before_a_new_owner_is_the_last_one(catalog, store, fake):
    """It stands; but by then a new owner had committed after it."""
    slow = AfterPut(store)
    old = Catalog(slow, ambient=fake.ambient).writer("w", "db")
    write(old, 1)

    def meanwhile():
        write(catalog.writer("w", "db"), 3)
        fake.move(LIMIT_S + 1)

    slow.after = meanwhile
    assert write(old, 2).revision == 1
    with pytest.raises(FencedError):
        write(old, 4)
    assert values(store) == [1, 2, 3]


# --- Many threads on one writer -------------------------------------------------------------------


class SlowPuts(CountingStore):
    """A store that takes a moment for each transaction object: others queue meanwhile."""

    def put(self, key, body, *, if_absent=False):
        if key.endswith(".transaction"):
            time.sleep(0.02)
        super().put(key, body, if_absent=if_absent)


def commit_from_threads(writer, count, prepare):
    barrier = threading.Barrier(count)

    def run(number):
        tx = prepare(writer, number)
        barrier.wait()
        try:
            return tx.commit()
        except LakelogError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def prepare_write(writer, number):
    tx = writer.transaction()
    tx.write("t", table(number))
    return tx


def test_thirty_threads_commit_once_each_in_fewer_puts(store):
    counting = SlowPuts(store)
    writer = Catalog(counting).writer("w", "db")
    infos = commit_from_threads(writer, 30, prepare_write)
    assert values(store) == list(range(30))
    names = transactions(store)
    assert len(names) < 15
    assert {info.revision for info in infos} == set(range(len(names)))
    assert len({info.transaction_id for info in infos}) == 30
    history = Catalog(store).history("db")
    assert sorted(i for ids in history.column("transaction_ids").to_pylist() for i in ids) == (
        sorted(info.transaction_id for info in infos)
    )


def test_one_bad_commit_of_a_group_harms_no_other(store):
    writer = Catalog(SlowPuts(store)).writer("w", "db")
    with writer.transaction() as tx:
        (path,) = tx.write("t", table(1000))

    def prepare(writer, number):
        tx = prepare_write(writer, number)
        if number % 2:
            tx.remove(path)  # only one of them can
        return tx

    results = commit_from_threads(writer, 12, prepare)
    removed = [result for result in results[1::2] if not isinstance(result, LakelogError)]
    assert len(removed) == 1
    assert all(isinstance(r, FileNotLive) for r in results[1::2] if r is not removed[0])
    assert not any(isinstance(result, LakelogError) for result in results[::2])
    kept = [n for n, result in enumerate(results) if not isinstance(result, LakelogError)]
    assert values(store) == kept


def test_one_application_version_from_many_threads_is_committed_once(store):
    writer = Catalog(SlowPuts(store)).writer("w", "db")

    def prepare(writer, number):
        tx = writer.transaction(app_id="stream", app_version=7)
        tx.write("t", table(7))
        return tx

    infos = commit_from_threads(writer, 10, prepare)
    assert [info.skipped for info in infos].count(False) == 1
    assert values(store) == [7]
    (stands,) = (info for info in infos if not info.skipped)
    assert all(info.revision >= stands.revision for info in infos)


def test_no_thread_is_told_skipped_for_a_commit_that_did_not_stand(store, fake):
    """Two transactions of one application version share a put that is lost for good."""
    lossy = FaultyStore(store, ["lost request"] * 4)
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    intents = []
    for _ in range(2):
        tx = writer.transaction(app_id="stream", app_version=7)
        tx.write("t", table(7))
        intents.append(tx._intent)
    results = writer._session._committer.commit(intents)
    assert all(isinstance(result, CommitOutcomeUnknown | StorageError) for result in results)
    results = writer._session._committer.commit(intents)
    assert [result.skipped for result in results] == [False, True]
    assert values(store) == [7]


@pytest.mark.parametrize("limit", ["MAX_MEMBERS", "MAX_ACTIONS", "MAX_BYTES"])
def test_a_queue_too_long_for_one_object_takes_several(store, limit):
    writer = Catalog(SlowPuts(store)).writer("w", "db")
    with mock.patch.object(group, limit, 3 if limit != "MAX_BYTES" else 300):
        infos = commit_from_threads(writer, 20, prepare_write)
    assert not [info for info in infos if isinstance(info, Exception)]
    assert values(store) == list(range(20))
    assert len(transactions(store)) >= 7


def test_commits_that_are_too_large_together_are_not_put_together(store):
    """Each alone fits into a transaction object."""
    writer = Catalog(SlowPuts(store)).writer("w", "db")

    def prepare(writer, number):
        tx = writer.transaction()
        tx._intent.summary["note"] = "x" * 3_000_000
        tx.write("t", table(number))
        return tx

    results = commit_from_threads(writer, 6, prepare)
    assert not [result for result in results if isinstance(result, Exception)], results[0]
    assert values(store) == list(range(6))


def test_a_commit_too_large_by_itself_is_refused_and_harms_no_other(store):
    writer = Catalog(SlowPuts(store)).writer("w", "db")

    def prepare(writer, number):
        tx = writer.transaction()
        tx.write("t", table(number))
        if number == 0:
            tx._intent.summary["note"] = "x" * 9_000_000
        return tx

    results = commit_from_threads(writer, 4, prepare)
    assert isinstance(results[0], UsageError)
    assert values(store) == [1, 2, 3]


def test_a_store_that_is_away_fails_every_waiting_thread_by_type(store, fake):
    class Away(PassingStore):
        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                raise StorageError("away", key=key)
            super().put(key, body, if_absent=if_absent)

    writer = Catalog(Away(store), ambient=fake.ambient).writer("w", "db")
    results = commit_from_threads(writer, 8, prepare_write)
    assert all(isinstance(result, CommitOutcomeUnknown) for result in results)
    assert transactions(store) == []


def test_an_error_that_is_not_ours_reaches_every_waiting_thread(store):
    class Broken(PassingStore):
        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                time.sleep(0.02)
                raise ZeroDivisionError
            super().put(key, body, if_absent=if_absent)

    writer = Catalog(Broken(store)).writer("w", "db")
    barrier = threading.Barrier(4)

    def run(number):
        tx = prepare_write(writer, number)
        barrier.wait()
        with pytest.raises(ZeroDivisionError):
            tx.commit()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


# --- What is never written ------------------------------------------------------------------------


def test_the_state_after_each_commit_is_what_a_reader_finds(catalog, store):
    writer = catalog.writer("w", "db")
    for value in range(5):
        write(writer, value)
        mine, theirs = writer._session._committer.state, LogReader(store, "w", "db").load()
        assert (mine.revision, mine.digest) == (theirs.revision, theirs.digest)
        assert live_paths(mine) == live_paths(theirs)


def test_every_request_that_writes_stays_inside_the_writers_prefix(store):
    class Watching(PassingStore):
        written = ()

        def put(self, key, body, *, if_absent=False):
            self.written += (key,)
            super().put(key, body, if_absent=if_absent)

        def delete(self, keys, *, ordered=True):
            every = list(keys)
            self.written += tuple(every)
            super().delete(every, ordered=ordered)

    watching = Watching(store)
    with Catalog(watching).writer("w", "db", checkpoint_every=2) as writer:
        for value in range(5):
            write(writer, value)
    assert watching.written
    assert all(key.startswith("w/") for key in watching.written)
    inner = [key for key in watching.written if "/_probe/" not in key]
    assert all(key.startswith(("w/db/data/", "w/db/transactions/")) for key in inner)


def test_a_conflict_is_one_class_to_catch(catalog):
    assert issubclass(FencedError, ConflictError)
    assert issubclass(EpochChanged, ConflictError)
    assert issubclass(FileNotLive, ConflictError)


def test_a_leader_far_back_in_the_queue_serves_those_before_it_first():
    """Threads get their turn in any order; the queue keeps its own."""
    served = []

    def commit_all(intents):
        served.append([intent.transaction_id for intent in intents])
        return [CommitInfo(len(served), "", intent.transaction_id.hex(), 1) for intent in intents]

    queue = group.CommitQueue(commit_all)
    waiting = [group._Waiter(Intent(bytes([number]) * 16, 1)) for number in range(5)]
    queue._queue.extend(waiting)
    with mock.patch.object(group, "MAX_MEMBERS", 2):
        info = queue.commit(Intent(b"\xff" * 16, 1))
    assert info.revision == 3
    assert [mark[0] for marks in served for mark in marks] == [0, 1, 2, 3, 4, 255]
    assert all(waiter.result is not None for waiter in waiting)
