"""Many threads on one writer, and what is never written."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from commit_cases import transactions
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import session as group
from lakelog.catalog.log.build import Intent
from lakelog.catalog.log.outcomes import CommitInfo
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    CommitOutcomeUnknown,
    ConflictError,
    EpochChanged,
    FencedError,
    FileNotLive,
    LakelogError,
    StorageError,
    UsageError,
)
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FaultyStore, PassingStore
from lakelog.testing.logs import live_paths
from table_cases import table, values, write

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


@pytest.mark.parametrize("rows", [1, 0], ids=["a file", "a schema alone"])
def test_one_transaction_from_many_threads_is_committed_once(store, rows):
    """Of a file a second commit would be a duplicate; of a schema alone nothing shows it."""
    writer = Catalog(SlowPuts(store)).writer("w", "db")
    tx = writer.transaction()
    tx.write("t", table(7).slice(0, rows))
    infos = commit_from_threads(writer, 12, lambda *_: tx)
    assert len({(info.revision, info.transaction_id) for info in infos}) == 1
    with writer.transaction() as last:
        last.write("t", table(8))
    ids = Catalog(store).history("db").column("transaction_ids").to_pylist()
    assert ids == [[tx.transaction_id], [last.transaction_id]]
    assert values(store) == [7] * rows + [8]


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
    folders = ("w/db/data/", "w/db/transactions/", "w/db/mirror/transactions/")
    assert all(key.startswith(folders) for key in inner)


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
    assert [transaction_id[0] for ids in served for transaction_id in ids] == [0, 1, 2, 3, 4, 255]
    assert all(waiter.result is not None for waiter in waiting)
