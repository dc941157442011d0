"""Threads that something interrupts in a commit: Ctrl-C, a timer, a debugger, at any line of it.

Whoever was interrupted commits again, and whoever waited behind it notices nothing: nobody hangs,
and each transaction stands once.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import lakelog
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.session import CommitQueue
from lakelog.catalog.read.log_reader import LogReader
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, FaultyStore, PlainStore
from seeds import base_seed

W, D = "w", "db"
PATIENCE_S = 60.0  # a commit here takes milliseconds
PACKAGE = str(Path(lakelog.__file__).parent)
NOT_OURS = (str(Path(PACKAGE, "catalog", "format")), str(Path(PACKAGE, ".venv")))
OTHERS = 2


class Interrupt(BaseException):
    """As KeyboardInterrupt, which would end the test run."""


class EachLine:
    """Raises at the nth line that is run within lakelog, in the thread that it traces. Lines of
    `catalog/format` are left out: it holds nothing that an interrupt could leave half done. So is
    what others have installed in the folder: a checkout may be the package.

    The interpreter interrupts nowhere between `with lock` and the lock, but tracing shows a line
    there when a block ends: the second time that a frame comes by its `with`. It is left out.
    """

    def __init__(self, at, when_leading):
        self.left = at
        self._when_leading = when_leading
        self._open = Counter()

    def __call__(self, frame, event, arg):
        if event == "call":
            file = frame.f_code.co_filename
            if not file.startswith(PACKAGE) or file.startswith(NOT_OURS):
                return None
            if frame.f_code is CommitQueue._take.__code__:
                self._when_leading()
        elif event == "line" and self.left >= 0 and not self._ends_block(frame):
            self.left -= 1
            if self.left < 0:
                raise Interrupt
        return self

    def _ends_block(self, frame):
        if frame.f_lineno not in with_lines(frame.f_code.co_filename):
            return False
        place = id(frame), frame.f_lineno
        self._open[place] += 1
        return self._open[place] % 2 == 0

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


_WITHS: dict[str, set[int]] = {}


def with_lines(filename):
    """Numbers of the lines on which a `with` begins."""
    if filename not in _WITHS:
        lines = Path(filename).read_text().splitlines()
        _WITHS[filename] = {
            n for n, line in enumerate(lines, 1) if line.strip().startswith("with ")
        }
    return _WITHS[filename]


class Crowd:
    """Threads that commit one transaction each, and wait behind whoever leads."""

    def __init__(self, writer):
        self.writer = writer
        self.transactions = [begin(writer) for _ in range(OTHERS)]
        self.results = {}
        self.threads = []

    def queue_up(self):
        """Once, and until all stand in the queue."""
        if self.threads:
            return
        self.threads = [
            threading.Thread(target=self._commit, args=(tx,), daemon=True)
            for tx in self.transactions
        ]
        queue = self.writer._session._queue
        before = len(queue._queue)
        for thread in self.threads:
            thread.start()
        deadline_s = time.monotonic() + PATIENCE_S
        while len(queue._queue) < before + OTHERS:
            assert time.monotonic() < deadline_s
            time.sleep(0)

    def _commit(self, tx):
        try:
            self.results[tx.transaction_id] = tx.commit()
        except BaseException as error:
            self.results[tx.transaction_id] = error

    def wait(self):
        for thread in self.threads:
            wait_for(thread)
        for tx in self.transactions:
            if self.threads:
                assert self.results[tx.transaction_id] is tx.commit_info is not None, self.results


def wait_for(thread):
    """A thread's end. One that hangs is shown with all others."""
    thread.join(PATIENCE_S)
    if thread.is_alive():
        faulthandler.dump_traceback()
        pytest.fail("a commit hangs")


_numbers = itertools.count()


def begin(writer):
    """A transaction that needs no data file."""
    return writer.transaction(app_id=f"job-{next(_numbers)}", app_version=1)


def stands(store):
    """How often each transaction stands."""
    rows = LogReader(store, W, D).load().history.table().to_pylist()
    return Counter(
        transaction_id.hex() for row in rows for transaction_id in row["transaction_ids"]
    )


def interrupted_round(at, *, plain, faults):
    """A leader interrupted at its nth line, with others behind it. Whether it came to its end."""
    inner = MemoryStore()
    faulty = FaultyStore(PlainStore(inner) if plain else inner)
    writer = Catalog(faulty, ambient=FakeAmbient(at).ambient).writer(W, D, checkpoint_every=2)
    begin(writer).commit()
    tx, crowd = begin(writer), Crowd(writer)
    faulty.script.faults = list(faults)
    gc.collect()  # what an earlier round left must not be collected, and interrupted, at that line
    ended = EachLine(at, crowd.queue_up).run(tx.commit)
    crowd.wait()
    again = threading.Thread(target=tx.commit, daemon=True)
    again.start()
    wait_for(again)
    last = begin(writer)
    assert last.commit().revision > tx.commit_info.revision
    found = stands(inner)
    assert set(found.values()) == {1}
    for one in [tx, last, *(crowd.transactions if crowd.threads else ())]:
        assert found[one.transaction_id] == 1
    assert len(found) == sum(found.values()) == 3 + (OTHERS if crowd.threads else 0)
    return ended


def interrupt_at(places, **how):
    """Rounds until one comes to its end; how many."""
    done = 0
    for at in places:
        done += 1
        if interrupted_round(at, **how):
            break
    return done


@pytest.fixture
def little_to_collect():
    """Each round collects garbage: only its own, not what a worker's other tests keep alive, which
    would take twenty times as long as the round."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


CASES = [(plain, faults) for plain in (False, True) for faults in ([], ["lost response"])]


@pytest.mark.usefixtures("little_to_collect")
@pytest.mark.parametrize(("plain", "faults"), CASES, ids=str)
def test_a_leader_interrupted_at_some_lines(plain, faults):
    """One line in so many, other ones with each seed; the long test takes each."""
    stride = 47
    first = random.Random(base_seed()).randrange(stride)
    assert interrupt_at(itertools.count(first, stride), plain=plain, faults=faults) > 10


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("little_to_collect")
@pytest.mark.parametrize(("plain", "faults"), CASES, ids=str)
def test_a_leader_interrupted_at_each_line(plain, faults):
    assert interrupt_at(itertools.count(), plain=plain, faults=faults) > 500


# --- Real signals ---------------------------------------------------------------------------------


class Alarm:
    """A real signal to this thread, some time after each beginning of a piece of work."""

    def __init__(self, longest_s, seed):
        self._longest_s, self._chance = longest_s, random.Random(seed)
        self._armed = False
        self.hits = 0

    def __enter__(self):
        self._before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _ring(self, number, frame):
        if self._armed:
            self._armed = False
            self.hits += 1
            raise Interrupt

    def during(self, work):
        """Run it, perhaps not to its end."""
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, self._chance.uniform(1e-6, self._longest_s))
            work()
            self._armed = False
        except Interrupt:
            pass
        except RuntimeError as error:  # a Condition of Python's own, interrupted while it wakes up
            if not isinstance(error.__context__, Interrupt):
                raise


def interrupt_commits(number, seed):
    """This thread is interrupted so often in commits, beside others that go on without a pause."""
    store, transactions, errors = MemoryStore(), [], []
    writer = Catalog(store).writer(W, D, checkpoint_every=3)
    over = threading.Event()

    def commit_on():
        try:
            while not over.is_set():
                tx = begin(writer)
                tx.commit()
                transactions.append(tx)
        except BaseException as error:
            errors.append(error)

    def commit(how):
        tx = begin(writer)
        how(tx.commit)
        tx.commit()
        transactions.append(tx)

    threads = [threading.Thread(target=commit_on, daemon=True) for _ in range(OTHERS)]
    for thread in threads:
        thread.start()
    begun_s = time.monotonic()
    for _ in range(10):
        commit(lambda work: work())
    usual_s = (time.monotonic() - begun_s) / 10
    with Alarm(1.5 * usual_s, seed) as alarm:
        while alarm.hits < number:
            commit(alarm.during)
    over.set()
    for thread in threads:
        wait_for(thread)
    assert not errors
    writer.close()
    found = stands(store)
    assert set(found.values()) == {1}
    assert found.keys() == {tx.transaction_id for tx in transactions}


# A signal can come while the interpreter runs a finalizer, which ignores it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(120, method="thread")  # the other method has the one alarm of the process
def test_real_signals_while_others_commit():
    interrupt_commits(40, base_seed())


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ten_thousand_real_signals_while_others_commit():
    for turn in range(200):
        interrupt_commits(50, base_seed() + turn)
