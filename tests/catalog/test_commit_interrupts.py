"""Commits that something interrupts, refuses or outlives: nothing stands twice, nothing that stands
is told as failed, and nothing happens behind the back of who gave up."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from unittest import mock

import pytest
from lakelog import open_catalog
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import committer as commit_module
from lakelog.catalog.commit import session as group
from lakelog.catalog.margins import Margins
from lakelog.errors import (
    AccessDenied,
    CommitOutcomeUnknown,
    StorageError,
    TransactionExpired,
    UsageError,
)
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import ClockedStore, FaultyStore, PlainStore
from own_files import add_own
from seeds import base_seed
from table_cases import table, values


class Interrupt(BaseException):
    """As KeyboardInterrupt, which would end the test run."""


@pytest.mark.parametrize("step", ["apply", "put"])
def test_a_commit_interrupted_anywhere_can_be_called_again(store, step):
    writer = Catalog(store).writer("w", "db")
    tx = writer.transaction()
    tx.write("t", table(1))
    real = commit_module.apply

    def torn(state, decoded):
        real(state, decoded)
        state.history.rows.clear()
        raise Interrupt

    def put(key, body, *, if_absent=False):
        MemoryStore.put(store, key, body, if_absent=if_absent)
        raise Interrupt

    broken = (
        mock.patch.object(commit_module, "apply", torn)
        if step == "apply"
        else mock.patch.object(store, "put", put)
    )
    with broken, pytest.raises(Interrupt):
        tx.commit()
    assert tx.commit().revision == 0
    with writer.transaction() as more:
        more.write("t", table(2))
    writer.checkpoint()
    assert values(store) == [1, 2]


@pytest.mark.parametrize("begun", [False, True])
def test_a_commit_goes_on_after_the_start_of_its_copy_was_interrupted(tmp_path, begun):
    """A thread whose start was interrupted may run or not; nobody can wait for it."""
    catalog = open_catalog(tmp_path)
    real, torn = threading.Thread.start, []

    def start(thread):
        if thread.name != "lakelog-mirror" or torn:
            return real(thread)
        torn.append(thread)
        if begun:
            threading.Timer(0.1, real, [thread]).start()
        raise Interrupt

    with catalog.writer("w", "db") as writer:
        for number in range(4):
            tx = writer.transaction()
            tx.write("t", table(number))
            with mock.patch.object(threading.Thread, "start", start):
                try:
                    tx.commit()
                except Interrupt:
                    tx.commit()
    assert torn
    assert catalog.check("db").is_sound
    folder = tmp_path / "w/db"
    names = [
        sorted(p.name for p in (folder / at).iterdir())
        for at in ("transactions", "mirror/transactions")
    ]
    assert names[0] == names[1]


class EachLine:
    """Raises at the nth line that is run in the modules of the commit."""

    MODULES = ("/commit/committer.py", "/commit/publish.py", "/log/attempts.py")

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, arg):
        if event == "line" and self.left >= 0:
            self.left -= 1
            if self.left < 0:
                raise Interrupt
        return self if frame.f_code.co_filename.endswith(self.MODULES) else None

    def run(self, work):
        """Whether `work` came to its end."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        except Interrupt:
            return False
        finally:
            sys.settrace(before)
        return True


@pytest.mark.parametrize(
    "stride",
    [pytest.param(5, id="every fifth"), pytest.param(1, id="each", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("plain", [False, True], ids=["exclusive", "plain"])
@pytest.mark.parametrize("lost", [[], ["lost response"], ["lost request"]], ids=str)
def test_an_interrupt_at_each_line_of_a_commit(fake, plain, lost, stride):
    """What was interrupted is committed again: it stands once, and the next one after it. Of five
    lines one is tried, another with each commit; the long test tries each."""
    first = random.Random(f"{base_seed()} {plain} {lost}").randrange(stride)
    for at in itertools.count(first, stride):
        faulty = FaultyStore(PlainStore(MemoryStore()) if plain else MemoryStore())
        writer = Catalog(faulty, ambient=fake.ambient).writer("w", "db", checkpoint_every=0)
        if at % 2:
            with writer.transaction() as tx:
                tx.write("t", table(0))
        tx = writer.transaction()
        tx.write("t", table(1))
        faulty.script.faults = list(lost)
        ended = EachLine(at).run(tx.commit)
        first = tx.commit()
        with writer.transaction() as more:
            more.write("t", table(2))
        assert more.commit_info.revision == first.revision + 1
        assert values(faulty.inner) == [0, 1, 2][not at % 2 :]
        if ended:
            break
    assert at > 50


def test_a_sent_transaction_takes_no_more_changes(store, fake):
    faulty = FaultyStore(store)
    writer = Catalog(faulty, ambient=fake.ambient).writer("w", "db")
    with writer.transaction() as tx:
        (path,) = tx.write("t", table(1))
        faulty.script.faults = ["lost response"] * 10
        faulty.fail_reads = True
        with pytest.raises(CommitOutcomeUnknown):
            tx.commit()
        faulty.script.faults.clear()
        faulty.fail_reads = False
        for change in (lambda: tx.write("t", table(2)), lambda: tx.remove(path)):
            with pytest.raises(UsageError, match="can't be changed any more"):
                change()
    assert tx.commit_info.revision == 0
    assert values(store) == [1]


def test_commit_can_be_called_again_after_it_left_the_block_unknown(store, fake):
    faulty = FaultyStore(store)
    writer = Catalog(faulty, ambient=fake.ambient).writer("w", "db")

    def work(tx):
        with tx:
            tx.write("t", table(1))
            faulty.script.faults = ["lost request"] * 4
            tx.commit()

    tx = writer.transaction()
    with pytest.raises(CommitOutcomeUnknown):
        work(tx)
    assert tx.commit().revision == 0
    assert values(store) == [1]


@pytest.mark.parametrize("error", [AccessDenied, UsageError])
def test_a_refusal_after_a_lost_answer_is_no_definite_failure(store, fake, error):
    """The first put took effect; then the credentials ran out."""
    puts = []

    class Expiring(FaultyStore):
        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                puts.append(key)
                if len(puts) > 1:
                    raise error("expired", key=key)
            super().put(key, body, if_absent=if_absent)

    expiring = Expiring(store, ["lost response"])
    tx = Catalog(expiring, ambient=fake.ambient).writer("w", "db").transaction()
    tx.write("t", table(1))
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    with pytest.raises(CommitOutcomeUnknown):  # a refusal now says nothing of the put before
        tx.commit()
    puts.clear()
    assert tx.commit().revision == 0
    assert values(store) == [1]


def test_a_plain_stores_retry_repeats_name_and_bytes(store, fake):
    """Whatever lands late of the first put then lands on itself."""
    late = []

    class Slow(PlainStore):
        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction") and len(late) < 4:
                late.append((key, body))
                raise StorageError("no answer", key=key)
            super().put(key, body)

    tx = Catalog(Slow(store), ambient=fake.ambient).writer("w", "db").transaction()
    tx.write("t", table(1))
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    assert tx.commit().revision == 0
    for key, body in late:
        store.put(key, body)
    assert values(store) == [1]
    names = [i.key for i in store.list("w/db/transactions/")]
    assert len(names) == 1


def waiting_in(queue, count):
    for _ in range(2_000):
        if len(queue._queue) == count:
            return True
        threading.Event().wait(0.005)
    return False


def test_who_gives_up_waiting_is_not_committed_later():
    committed, hold, begun = [], threading.Event(), threading.Event()

    def commit_all(intents):
        begun.set()
        hold.wait(10)
        committed.extend(intents)
        return [mock.Mock(spec=group.CommitInfo)] * len(intents)

    queue = group.CommitQueue(commit_all)
    one, two = mock.Mock(actions=[]), mock.Mock(actions=[])
    for intent in (one, two):
        intent.member.return_value.ByteSize.return_value = 1
    leader = threading.Thread(target=queue.commit, args=(one,))
    leader.start()
    assert begun.wait(10)

    class Turn:
        """The leader's turn, which the second thread is interrupted in waiting for."""

        def __enter__(self):
            raise Interrupt

        def __exit__(self, *_):
            raise AssertionError

    real, queue._turn = queue._turn, Turn()
    with pytest.raises(Interrupt):
        queue.commit(two)
    queue._turn = real
    assert not queue._queue
    hold.set()
    leader.join()
    assert committed == [one]


def test_a_leaders_interrupt_is_its_own(store):
    """Those whom it commits for look themselves, and notice nothing."""
    writer = Catalog(store).writer("w", "db")
    real, entered, go = writer._session._queue._commit_all, threading.Event(), threading.Event()

    def commit_all(intents):
        entered.set()
        go.wait(10)
        writer._session._queue._commit_all = real
        real(intents)
        raise Interrupt

    first = writer.transaction()
    first.write("t", table(0))
    others = [writer.transaction() for _ in range(3)]
    for number, tx in enumerate(others):
        tx.write("t", table(1 + number))
    results = {}

    def run(name, tx):
        try:
            results[name] = tx.commit()
        except BaseException as error:
            results[name] = error

    writer._session._queue._turn.acquire()
    threads = [threading.Thread(target=run, args=(n, tx)) for n, tx in enumerate([first, *others])]
    for thread in threads:
        thread.start()
    assert waiting_in(writer._session._queue, 4)
    writer._session._queue._commit_all = commit_all
    writer._session._queue._turn.release()
    go.set()
    for thread in threads:
        thread.join(10)
    kinds = sorted(type(result).__name__ for result in results.values())
    assert kinds == ["CommitInfo"] * 3 + ["Interrupt"]
    for tx in [first, *others]:
        assert tx.commit().revision == 0
    assert values(store) == [0, 1, 2, 3]


def test_an_adopted_file_counts_with_its_own_age(store, fake):
    """Half the grace period is the whole file's, from its writing to its commit."""
    limit_s = Margins().file_age_limit_s
    writer = Catalog(store, ambient=fake.ambient).writer("w", "db")
    with writer.transaction() as tx:
        (path,) = tx.write("t", table(1))
    body = store.get(f"w/db/{path}")
    store.put("w/db/data/_/t/foreign.parquet", body)
    written_us = store.head("w/db/data/_/t/foreign.parquet").modified_at.timestamp() * 1e6
    fake.wall_us = int(written_us + (limit_s - 60) * 1e6)
    tx = writer.transaction()
    add_own(tx, "t", "data/_/t/foreign.parquet")
    fake.move(120)
    with pytest.raises(TransactionExpired):
        tx.commit()


def test_the_age_of_an_adopted_file_goes_by_the_stores_clock(fake):
    """A client whose clock is behind takes no old file for a young one."""
    store = ClockedStore()
    writer = Catalog(store, ambient=fake.ambient).writer("w", "db")
    with writer.transaction() as tx:
        (path,) = tx.write("t", table(1))
    store.put("w/db/data/_/t/foreign.parquet", store.get(f"w/db/{path}"))
    add_own(writer.transaction(), "t", "data/_/t/foreign.parquet")
    store.move(Margins().file_age_limit_s * 1.5)
    with pytest.raises(TransactionExpired):
        add_own(writer.transaction(), "t", "data/_/t/foreign.parquet")
