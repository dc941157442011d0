"""A rebuild of a log that can be read has its files in the order of that log, with the clocks and
partitions that it gives them, whatever footers say, and whatever is lost below `data/`: deletes of
a cut hold of the same files, and the same row of a key is the newest. Found by a reviewer's
programs."""

from __future__ import annotations

import datetime as dt
import io
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.gc import execute_gc, execute_prune, plan_gc, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.replication import replicate
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import START_US, FakeAmbient, FaultyStore

DAY_S = 86_400.0
FOREIGN = "data/_/t/foreign.parquet"


class Lake:
    """A catalog whose clock the test holds."""

    def __init__(self, fake=None, name="lake"):
        self.fake = fake or FakeAmbient(0)
        self.store = MemoryStore(name, now=self._now)
        self.catalog = Catalog(self.store, ambient=self.fake.ambient)

    def _now(self):
        return dt.datetime.fromtimestamp(self.fake.wall_us / 1e6, dt.UTC)

    def writer(self, **options):
        return self.catalog.writer("w", "db", checkpoint_every=0, **options)

    def change(self, writer, does):
        self.fake.move(1)
        with writer.transaction() as tx:
            return does(tx)

    def write(self, writer, **options):
        return lambda *values: self.change(
            writer, lambda tx: tx.write("t", pa.table({"n": [*values]}), **options)
        )

    def again(self, writer, path, *partition, **options):
        """A file is taken out, and added again, in one commit."""

        def does(tx):
            tx.remove(path)
            tx.add("t", path, *partition, **options)

        self.change(writer, does)

    def end(self, writer):
        """A commit to another table, and a checkpoint."""
        self.change(writer, lambda tx: tx.write("u", pa.table({"z": [1]})))
        writer.checkpoint()

    def lose_by(self, way):
        """What else than the checkpoint tells of transactions is gone, in one way or another."""
        if way == "pruned":
            self.age()
        else:
            self.lose_objects()

    def put_foreign(self):
        body = io.BytesIO()
        pq.write_table(pa.table({"n": [10]}), body)
        self.store.put(f"w/db/{FOREIGN}", body.getvalue())

    def delete_of_cut(self):
        """Another writer deletes rows of the files that all have now."""
        self.fake.move(1)
        cut = self.catalog.snapshot("db")
        with self.catalog.writer("x", "db") as writer, writer.transaction() as tx:
            tx.delete("t", "n > 5", cut=cut)
        self.fake.move(1)

    def age(self, clock=None):
        """Days pass, with prune, gc, and a commit to another table now and then."""
        for number in range(4):
            self.fake.move(3 * DAY_S)
            ambient = self.fake.ambient
            plan = plan_prune(self.store, "w", "db", keep_revisions=1, ambient=ambient)
            execute_prune(self.store, plan, ambient=ambient)
            with self.writer() as writer:
                data = pa.table({"z": [number]})
                if clock is None:  # nothing is left that was begun on earlier ones
                    self.change(writer, lambda tx, d=data: tx.overwrite("u", d))
                else:
                    own = (clock + number,) * 2
                    self.change(writer, lambda tx, d=data, o=own: tx.write("u", d, clock=o))
                writer.checkpoint()
            collected = plan_gc(self.store, "w", "db", ambient=ambient)
            execute_gc(self.store, collected, ambient=ambient)

    def lose_objects(self):
        keys = [info.key for info in self.store.list("w/db/data/")]
        self.store.delete([key for key in keys if key.endswith(".actions")])

    def rows(self):
        return sorted(map(str, self.catalog.snapshot("db").to_arrow("t").to_pylist()))

    def partitions(self):
        files = self.catalog.snapshot("db").files("t").select(["path", "partition"])
        return sorted(map(str, files.to_pylist()))

    def lose(self):
        for folder in ("transactions/", "segments/"):
            self.store.delete([info.key for info in self.store.list(f"w/db/{folder}")])

    def stays_as_it_is(self, *, lost=False):
        """A rebuild changes no row."""
        before = self.rows(), self.partitions()
        if lost:
            self.lose()
        ambient = self.fake.ambient
        plan = plan_rebuild(self.store, "w", "db", ambient=ambient)
        execute_rebuild(self.store, plan, ambient=ambient)
        assert plan.is_whole != lost
        assert (self.rows(), self.partitions()) == before
        return before[0]


@pytest.fixture
def lake():
    return Lake()


def test_a_guest_commits_after_a_cut_what_it_wrote_before(lake):
    with lake.writer() as owner, lake.writer(shared=True) as guest:
        lake.write(owner)(0)
        first, late = guest.transaction(), guest.transaction()
        late.write("t", pa.table({"n": [20]}))
        lake.fake.move(1)
        first.write("t", pa.table({"n": [10]}))
        first.commit()
        lake.delete_of_cut()
        late.commit()
        owner.checkpoint()
    lake.age()
    assert lake.stays_as_it_is() == ["{'n': 0}", "{'n': 20}"]


@pytest.mark.parametrize("clock", [None, START_US - 10**12, START_US + 10**13])
def test_clocks_are_times_of_events_and_the_transaction_of_a_cut_is_gone(lake, clock):
    own = {} if clock is None else {"clock": (clock, clock)}
    with lake.writer() as writer:
        lake.write(writer)(0)
        (path,) = lake.write(writer)(10)
        lake.delete_of_cut()

        def in_its_place(tx):
            tx.remove(path)
            tx.write("t", pa.table({"n": [11]}), **own)

        lake.change(writer, in_its_place)
        writer.checkpoint()
    lake.age(clock)
    assert lake.stays_as_it_is() == ["{'n': 0}", "{'n': 11}"]


@pytest.mark.parametrize("way", ["pruned", "objects lost"])
def test_the_newest_row_of_a_key_by_a_clock_that_was_told_again(lake, way):
    with lake.writer() as writer:
        both = pa.table({"n": [1], "v": [10]}), pa.table({"n": [1], "v": [20]})
        (path,) = lake.change(writer, lambda tx: tx.write("t", both[0], clock=(1, 1)))
        lake.change(writer, lambda tx: tx.evolve("t", key=["n"]))
        lake.change(writer, lambda tx: tx.write("t", both[1], clock=(2, 2)))
        lake.again(writer, path, "moved", clock=(3, 3))
        lake.end(writer)
    lake.lose_by(way)
    assert lake.stays_as_it_is() == ["{'n': 1, 'v': 10}"]


@pytest.mark.parametrize("lost", [False, True])
def test_of_equal_clocks_the_later_commit_stays_the_newest(lake, lost):
    """The transactions are pruned, and other clocks of theirs tell another order."""
    with lake.writer() as writer:

        def commit(*files):
            def does(tx):
                paths = [tx.write(t, pa.table(d), clock=(c, c)) for t, d, c in files]
                return paths[0]

            return lake.change(writer, does)

        commit(("t", {"n": [0], "v": [0]}, 1))
        lake.change(writer, lambda tx: tx.evolve("t", key=["n"]))
    with lake.writer() as writer:
        commit(("t", {"n": [5], "v": [5]}, 2))
        commit(("t", {"n": [1], "v": [10]}, 5), ("u", {"z": [1]}, 100))
        (gone,) = commit(("tmp", {"z": [1]}, 6))
        commit(("t", {"n": [1], "v": [20]}, 5))
        for number, clock in ((7, 50), (8, 60), (9, 61)):
            commit(("t", {"n": [number], "v": [number]}, clock))
        lake.change(writer, lambda tx: tx.remove(gone))
        writer.checkpoint()
    lake.age(clock=200)
    assert "{'n': 1, 'v': 20}" in lake.stays_as_it_is(lost=lost)


@pytest.mark.parametrize("way", ["pruned", "objects lost"])
@pytest.mark.parametrize("found", ["before", "after"])
def test_a_file_that_was_found_before_a_delete_or_after(lake, way, found):
    lake.put_foreign()
    with lake.writer() as writer:
        lake.write(writer)(0)
        if found == "before":
            lake.change(writer, lambda tx: tx.add("t", FOREIGN))
        lake.delete_of_cut()
        if found == "after":
            lake.change(writer, lambda tx: tx.add("t", FOREIGN))
        lake.end(writer)
    lake.lose_by(way)
    there = ["{'n': 10}"] if found == "after" else []
    assert lake.stays_as_it_is() == ["{'n': 0}", *there]


@pytest.mark.parametrize("way", ["pruned", "objects lost", "at a copy"])
def test_rows_come_back_with_their_file(lake, way):
    with lake.writer() as writer:
        (path,) = lake.write(writer)(0, 10)
        lake.delete_of_cut()
        lake.again(writer, path)
        lake.end(writer)
    if way == "at a copy":
        source, lake = lake, Lake(lake.fake, "copy")
        replicate(source.catalog, lake.catalog)
        lake.fake.move(60)
    else:
        lake.lose_by(way)
    assert lake.stays_as_it_is() == ["{'n': 0}", "{'n': 10}"]


def test_a_file_that_a_rebuild_took_in_stays_before_what_was_deleted_of_it(lake):
    with lake.writer() as writer:
        lake.write(writer)(0)
    lake.put_foreign()
    ambient = lake.fake.ambient
    plan = plan_rebuild(lake.store, "w", "db", include_foreign=True, ambient=ambient)
    execute_rebuild(lake.store, plan, ambient=ambient)
    lake.delete_of_cut()
    with lake.writer() as writer:
        lake.write(writer)(1)
    for _ in range(2):
        assert lake.stays_as_it_is() == ["{'n': 0}", "{'n': 1}"]


def wait_for(is_so):
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_commits_of_several_threads_keep_their_order(lake):
    """A cut names the last of those that stand in one object."""
    slow, gate = FaultyStore(lake.store), threading.Event()
    gate.set()
    slow.before_put = lambda key: gate.wait()
    catalog = Catalog(slow, ambient=lake.fake.ambient)
    with catalog.writer("w", "db") as writer:
        lake.write(writer)(0)
        begun = []
        for value in (10, 20, 30):
            lake.fake.move(1)
            begun.append(writer.transaction())
            begun[-1].write("t", pa.table({"n": [value]}))
        gate.clear()
        threads = [threading.Thread(target=begun[number].commit) for number in (0, 2, 1)]
        puts, waiting = len(slow.script.puts), writer._session._queue._queue
        for number, thread in enumerate(threads):  # the first is held at its put, the others queue
            thread.start()
            wait_for(lambda n=number: len(slow.script.puts) > puts and len(waiting) == n)
        gate.set()
        for thread in threads:
            thread.join()
        members = catalog.history("db", "w")["transaction_ids"].to_pylist()
        assert [len(some) for some in members] == [1, 1, 2]
        lake.delete_of_cut()
        lake.write(writer)(1)
    assert lake.stays_as_it_is() == ["{'n': 0}", "{'n': 1}"]
