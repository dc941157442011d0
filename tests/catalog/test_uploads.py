"""Files of one transaction go to the store several at a time, all before its commit, and a failure
is never lost."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import threading
import time

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import data_files as module
from lakelog.catalog.commit.data_files import AT_ONCE, Uploads
from lakelog.errors import LakelogError, ObjectExists, StorageError, UsageError
from lakelog.store import probe
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, PassingStore

LIMIT_S = 120.0  # only a test that fails waits so long


def rows(number):
    return pa.table({"n": [number]})


class DataStore(PassingStore):
    """Asks `put_data` about each put of a data file, and notes the order of what was done."""

    def __init__(self, put_data=lambda number: None):
        super().__init__(MemoryStore("uploads"))
        self.put_data = put_data
        self.begun = 0
        self.done = []
        self.guard = threading.Lock()

    def put(self, key, body, *, if_absent=False):
        if "/data/" in key:
            with self.guard:
                number, self.begun = self.begun, self.begun + 1
            self.put_data(number)
        super().put(key, body, if_absent=if_absent)
        with self.guard:
            self.done.append(key)


def open_writer(store):
    return Catalog(store).writer("w", "db", checkpoint_every=0)


def write_all(tx, count):
    return [path for number in range(count) for path in tx.write("t", rows(number))]


def write_and_commit(tx, count):
    write_all(tx, count)
    tx.commit()


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("lakelog-upload")]


def live(store):
    return Catalog(store).snapshot("db").files("t")["path"].to_pylist()


def test_many_are_under_way_at_once():
    """Each waits until as many are there as there may be: fewer would wait for ever."""
    together = threading.Barrier(AT_ONCE)
    store = DataStore(lambda number: number and together.wait(LIMIT_S))
    with open_writer(store).transaction() as tx:
        for number in range(1 + 2 * AT_ONCE):
            tx.write("t", rows(number))
    assert len(live(store)) == 1 + 2 * AT_ONCE


def test_all_are_there_before_the_commit_in_the_order_of_the_writes():
    late = threading.Event()
    store = DataStore(lambda number: late.wait(LIMIT_S) if number == 1 else None)
    with open_writer(store).transaction() as tx:
        paths = [path for number in range(40) for path in tx.write("t", rows(number))]
        late.set()  # the second file is the last one to be there
    done = [key for key in store.done if "/mirror/" not in key]
    assert ["transactions" in key for key in done[-42:]].index(True) == 41
    assert [path.rsplit("-", 1)[1] for path in paths] == [f"{n}.parquet" for n in range(40)]
    assert sorted(live(store)) == sorted(paths)
    found = Catalog(store).snapshot("db").to_arrow("t")["n"].to_pylist()
    assert sorted(found) == list(range(40))
    assert not threads()


def test_one_file_starts_no_thread_and_fails_at_once():
    def refuse(number):
        assert threading.current_thread() is threading.main_thread()
        if number == 0:
            raise StorageError("full")

    store = DataStore(refuse)
    tx = open_writer(store).transaction()
    with pytest.raises(StorageError, match="full"):
        tx.write("t", rows(0))
    with pytest.raises(UsageError, match=r"write of table 't' broke off.*: full"):
        tx.commit()  # the file may be there all the same, as one of this transaction
    assert not threads()
    tx.discard()


def test_a_failure_is_told_by_every_call_and_nothing_is_committed():
    def refuse(number):
        if number == 5:
            raise StorageError("full")

    store = DataStore(refuse)
    writer = open_writer(store)
    tx = writer.transaction()
    with pytest.raises(StorageError, match="full"):  # here or at one of the writes
        write_and_commit(tx, 10)
    for call in (tx.commit, lambda: tx.write("t", rows(11)), tx.commit):
        with pytest.raises(LakelogError, match="full"):
            call()
    assert tx.commit_info is None
    tx.discard()
    assert not threads()
    assert writer.revision == -1
    with writer.transaction() as other:
        other.write("t", rows(0))
    assert len(live(store)) == 1


def test_what_follows_a_failure_is_not_put():
    def refuse(number):
        if number == 1:
            raise StorageError("full")
        while number and tx._uploads._failure is None:
            time.sleep(0.001)

    store = DataStore(refuse)
    tx = open_writer(store).transaction()
    with pytest.raises(StorageError):
        write_and_commit(tx, 200)
    tx.discard()
    assert store.begun <= 1 + AT_ONCE


def test_an_abandoned_transaction_puts_nothing_more_and_leaves_no_thread():
    go, store = threading.Event(), DataStore()
    store.put_data = lambda number: number and go.wait(LIMIT_S)

    def give_up():
        with open_writer(store).transaction() as tx:
            write_all(tx, 1 + AT_ONCE + 20)
            tx._uploads._pool.submit = None  # nothing is begun from here on
            cancel = tx._uploads._under_way[-1].cancel
            tx._uploads._under_way[-1].cancel = lambda: (cancel(), go.set())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        give_up()
    assert not threads()
    assert store.begun <= 1 + AT_ONCE, "those that waited were not put"
    assert Catalog(store).writer("w", "db").revision == -1


@pytest.mark.parametrize(
    ("most_files", "most_bytes", "size", "expected"), [(7, 1 << 20, 1, 7), (99, 1000, 300, 3)]
)
def test_no_more_than_so_much_waits_for_the_store(
    monkeypatch, most_files, most_bytes, size, expected
):
    """Each put waits until no more is taken in, and looks how much that is."""
    monkeypatch.setattr(module, "MOST_FILES", most_files)
    monkeypatch.setattr(module, "MOST_BYTES", most_bytes)
    seen, full = [], threading.Event()

    def put(key, body):
        if key == "first":
            return True
        assert full.wait(LIMIT_S)
        seen.append(uploads._files)
        return True

    uploads = Uploads(put, in_background=True)
    uploads.add("first", b"")
    wait = uploads._room.wait
    monkeypatch.setattr(uploads._room, "wait", lambda *a: (full.set(), wait(*a))[1])
    for number in range(50):
        uploads.add(str(number), bytes(size))
    full.set()
    uploads.wait()
    assert len(seen) == 50
    assert max(seen) == expected


def test_a_file_larger_than_the_bound_goes_alone(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    seen = []
    uploads = Uploads(lambda key, body: seen.append(uploads._files) is None, in_background=True)
    for number in range(5):
        uploads.add(str(number), bytes(100))
    uploads.wait()
    assert seen == [0, 1, 1, 1, 1]


def test_waiting_goes_on_after_an_interrupt(monkeypatch):
    go = threading.Event()
    done = []
    uploads = Uploads(
        lambda key, body: (key == "first" or go.wait(LIMIT_S), done.append(key)),
        in_background=True,
    )
    for key in ("first", "second", "third"):
        uploads.add(key, b"")
    (first, *_), real = uploads._under_way, type(uploads._under_way[0]).result

    def interrupted(self, timeout=None):
        if self is first and not go.is_set():
            raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(type(first), "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        uploads.wait()
    go.set()
    uploads.wait()
    assert sorted(done) == ["first", "second", "third"]


def test_a_fork_refuses_and_the_parent_goes_on(tmp_path):
    """In a process of its own, as forking this one would be of many threads."""
    script = """
        import os, sys
        import pyarrow as pa
        import lakelog
        from lakelog.errors import UsageError
        rows = pa.table({"n": [1]})
        tx = lakelog.open_catalog(sys.argv[1]).writer("w", "db").transaction()
        for _ in range(3):
            tx.write("t", rows)
        if os.fork() == 0:
            for call in (tx.commit, lambda: tx.write("t", rows)):
                try:
                    call()
                except UsageError:
                    continue
                os._exit(1)
            tx.discard()
            os._exit(0)
        assert os.wait()[1] == 0
        tx.write("t", rows)
        tx.commit()
        print(lakelog.open_catalog(sys.argv[1]).snapshot("db").files("t").num_rows)
    """
    argv = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done.stderr


@pytest.mark.parametrize("same", [True, False])
def test_what_another_process_has_put_is_not_deleted(same):
    """Of two processes that draw the same ids one commits the file of that name; the other gives
    its own transaction up, whatever it wrote."""
    inner = MemoryStore("uploads")
    probe(inner, "w/")  # without taking an identity of either
    catalogs = [Catalog(PassingStore(inner), ambient=FakeAmbient(seed=3).ambient) for _ in range(2)]
    one, other = (each.writer("w", "db").transaction() for each in catalogs)
    assert one.transaction_id == other.transaction_id
    one.write("t", rows(1))
    with contextlib.nullcontext() if same else pytest.raises(ObjectExists):
        other.write("t", rows(1) if same else rows(2))
    other.discard()
    one.commit()
    assert catalogs[0].snapshot("db").to_arrow("t") == rows(1)
