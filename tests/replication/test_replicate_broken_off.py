"""Runs that are broken off, at once, or pruned under: the next one goes on, gc takes nothing."""

from __future__ import annotations

import threading

import pytest
from followed import BreakingStore
from lakelog.errors import ReplicaDiverged, SnapshotPruned
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.replication import promote, replicate
from lakelog.store import WideStore, probe
from lakelog.testing.doubles import PassingStore
from replica_cases import D, Pair, written

DAY_S = 86_400


@pytest.fixture
def pair():
    return Pair()


class StoppingStore(PassingStore):
    """Sets an event after so many puts of data files."""

    def __init__(self, store, puts, event):
        super().__init__(store)
        self.puts, self.event = puts, event

    def put(self, key, body, *, if_absent=False):
        super().put(key, body, if_absent=if_absent)
        if key.endswith(".parquet"):
            self.puts -= 1
            if self.puts <= 0:
                self.event.set()

    def server_time(self):
        return self.inner.server_time()


def half_copied(pair):
    """A replication that ends before its first commit, with some files there."""
    stop = threading.Event()
    catalog = pair.copy.catalog
    catalog.store = StoppingStore(pair.copy.store, 2, stop)
    report = replicate(pair.source.catalog, catalog, stop=stop)
    assert report.stopped
    assert not report.tokens
    assert len(pair.objects(".parquet")) >= 2
    return report


def test_files_of_a_run_that_was_broken_off_are_not_fetched_again(pair):
    tokens = written(pair, 20)
    half_copied(pair)
    there = len(pair.objects(".parquet"))
    (log,) = pair.replicate().logs
    assert log.copied.files_there == there
    assert log.copied.files == 20 - there
    pair.same(*tokens)


def test_gc_takes_nothing_of_a_copy_under_way(pair):
    """The files are there, and the commits that name them are to come."""
    tokens = written(pair, 2)
    pair.replicate()
    tokens += written(pair, 20)
    half_copied(pair)
    assert not plan_gc(pair.copy.catalog, "oslo", D).actions
    pair.replicate()
    pair.same(*tokens)


def test_old_files_of_a_run_that_was_broken_off_are_made_young_again(pair):
    """gc would take them, and may have decided so."""
    tokens = written(pair, 20)
    half_copied(pair)
    pair.clock.now_s += 6 * DAY_S
    pair.replicate()
    pair.same(*tokens)
    begun = pair.clock.time()
    for info in pair.copy.store.list(f"oslo/{D}/data/"):
        assert info.modified_at == begun
    pair.clock.now_s += 9 * DAY_S
    execute_gc(pair.copy.catalog, plan_gc(pair.copy.catalog, "oslo", D))
    pair.same(*tokens)


@pytest.mark.parametrize("begins", ["with revision 0", "with a checkpoint", "rebuilt"])
def test_broken_off_after_any_put_it_is_a_replica_and_goes_on(pair, begins):
    tokens = written(pair, 2)
    with pair.source.writer() as writer, writer.transaction() as tx:
        tx.delete("hourly", "n = 1", mode="rows")
    tokens.append(pair.source.token)
    if begins == "with a checkpoint":
        pair.source.prune()
    elif begins == "rebuilt":
        pair.clock.now_s += 60
        execute_rebuild(pair.source.catalog, plan_rebuild(pair.source.catalog, "oslo", D))
    tokens = [pair.source.token] if begins != "with revision 0" else tokens
    tokens += written(pair, 2)
    for puts in range(100):
        pair.copy = pair.world()
        catalog = pair.copy.catalog
        probe(catalog.store, "oslo/")
        catalog.store = BreakingStore(pair.copy.store, puts)
        catalog.store.probed = pair.copy.store.probed
        report = replicate(pair.source.catalog, catalog)
        if not report.errors:
            break
        revision = report.logs[0].revision
        if revision >= 0 and begins == "with revision 0":
            pair.same(*tokens[: revision + 1])
            assert pair.copy.catalog.snapshot(D).cut.revisions == {"oslo": revision}
        elif revision >= 0 and pair.objects(".checkpoint"):
            assert pair.copy.rows()
        pair.replicate()
        pair.same(*tokens)
    assert 5 < puts < 99


class TakingStore(PassingStore):
    """Before the first transaction is put, gc takes a file that was there for long."""

    def put(self, key, body, *, if_absent=False):
        if key.endswith(".transaction") and self.taken:
            self.inner.delete([self.taken.pop()])
        super().put(key, body, if_absent=if_absent)

    def server_time(self):
        return self.inner.server_time()


def test_a_file_that_was_there_and_is_taken_before_its_commit_is_put_again(pair):
    tokens = written(pair, 20)
    half_copied(pair)
    (taken, *_) = pair.objects(".parquet")
    catalog = pair.copy.catalog
    catalog.store = TakingStore(pair.copy.store)
    catalog.store.taken = [taken]
    assert not replicate(pair.source.catalog, catalog).errors
    assert not catalog.store.taken
    pair.same(*tokens)


def test_another_file_under_the_name_of_one_is_refused(pair):
    path = pair.source.write(1)
    pair.copy.store.put(f"oslo/{D}/{path}", b"something else")
    with pytest.raises(ReplicaDiverged):
        pair.replicate()
    assert not pair.objects(".transaction")


def test_two_replications_at_once_make_one_replica(pair):
    tokens = written(pair, 30)
    errors = []

    def work():
        report = replicate(pair.source.catalog, pair.copy.catalog)
        errors.extend(report.errors)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    pair.same(*tokens)
    assert pair.replicate().logs[0].plan.is_done


class PruningStore(PassingStore):
    """The source is pruned and collected as soon as the first data file is asked for."""

    def __init__(self, store, act):
        super().__init__(store)
        self.act, self.lock = act, threading.Lock()

    def get(self, key, *, start=None, end=None):
        self.before(key)
        return super().get(key, start=start, end=end)

    def open_input(self, key, *, size_bytes=None):
        self.before(key)
        return super().open_input(key, size_bytes=size_bytes)

    def before(self, key):
        with self.lock:
            act = self.act
            if key.endswith(".parquet") and act is not None:
                self.act = None
                act()


def test_a_source_pruned_under_a_first_copy_is_copied_from_its_newer_checkpoint(pair):
    for number in range(6):
        path = pair.source.write(number)
        pair.source.take_out(path)

    def act():
        pair.source.write(7)
        pair.source.prune()
        pair.clock.now_s += 9 * DAY_S
        assert pair.source.gc().deleted_objects

    source = pair.source.catalog
    source.store = PruningStore(pair.source.store, act)
    report = replicate(source, pair.copy.catalog)
    assert not report.errors
    assert pair.copy.rows() == [7]
    pair.same(pair.source.token)


def test_a_source_pruned_under_a_later_copy_says_so(pair):
    tokens = written(pair, 2)
    pair.replicate()
    path = pair.source.write(5)
    pair.source.take_out(path)

    def act():
        pair.source.write(7)
        pair.source.prune()
        pair.clock.now_s += 9 * DAY_S
        assert pair.source.gc().deleted_objects

    source = pair.source.catalog
    source.store = PruningStore(pair.source.store, act)
    with pytest.raises(SnapshotPruned, match="has pruned"):
        raise replicate(source, pair.copy.catalog).errors[0]
    assert pair.copy.token == tokens[-1]


@pytest.mark.parametrize("where", [None, "n >= 0"])
def test_a_source_collected_under_a_copy_of_a_part_is_copied_at_its_newer_cut(pair, where):
    paths = [pair.source.write(number) for number in range(3)]

    def act():
        pair.source.take_out(*paths)
        pair.source.write(7)
        pair.source.prune()
        pair.clock.now_s += 9 * DAY_S
        assert pair.source.gc().deleted_objects

    source = pair.source.catalog
    source.wide = WideStore(PruningStore(pair.source.store, act))
    report = replicate(source, pair.copy.catalog, tables=["hourly"], where=where)
    assert not report.errors
    assert pair.copy.rows() == [7]
    assert report.source_tokens == {D: pair.source.token}


def test_a_replica_is_pruned_collected_and_checkpointed_on_its_own(pair):
    tokens = written(pair, 20)
    pair.replicate()
    assert pair.objects(".checkpoint"), "a replica has checkpoints of its own"
    pair.copy.prune()
    pair.copy.gc()
    tokens += written(pair, 3)
    pair.replicate()
    pair.same(*tokens[19:])


def test_a_replica_can_be_made_the_one_to_write_to(pair):
    written(pair, 3)
    pair.replicate()
    promote(pair.copy.catalog)
    pair.copy.write(77)
    assert sorted([*pair.source.rows(), 77]) == pair.copy.rows()
    back = Pair()
    back.source = pair.copy
    back.replicate()
    back.same(pair.copy.token)
