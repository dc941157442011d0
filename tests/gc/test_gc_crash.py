"""Prune and gc stopped after each request: what is left reads, commits and can be finished.

With each change a sample of the places to stop at is tried, another with each commit; `make soak`
tries every one.
"""

from __future__ import annotations

import pytest
from lakelog.errors import SnapshotPruned, StorageError
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from sample import EVERY, some

# No reader may take a prune for damage.
pytestmark = [
    pytest.mark.filterwarnings("error::lakelog.catalog.read.log_reader.CheckpointWarning"),
    pytest.mark.usefixtures("parts_decoded_once"),
]

DAY_S = 86_400.0
W, D = "EWR", "weather"
NEVER = 10_000


class Stop:
    """Fails the request of this number and every later one, before or after it was done."""

    def __init__(self, number):
        self.number, self.seen = number, 0

    def __call__(self, request, key):
        if self.seen >= self.number:
            raise StorageError("the test pulled the plug", key=key)
        self.seen += 1


def build(lake):
    """Nine revisions with checkpoints 2, 4 and 7, a file removed in each from 2 on, and orphans."""
    paths = []
    with lake.writer() as writer:
        for value in range(9):
            remove = [paths[value - 2]] if value >= 2 else []
            paths.append(lake.commit(writer, value, remove))
            if value in (2, 4, 7):
                writer.checkpoint()
        for _ in range(3):
            lake.orphan(writer)
    with lake.writer() as writer:
        lake.commit(writer, 9)
    lake.pass_time(30 * DAY_S)


def contents(lake, revisions):
    return {revision: lake.paths_at(revision) for revision in revisions}


def copy(lake, make):
    other = make()
    other.clock.now_s = lake.clock.now_s - 30 * DAY_S
    for info in lake.store.list(""):
        other.store.put(info.key, lake.store.get(info.key))
    other.clock.now_s = lake.clock.now_s
    return other


def check_readable(lake, kept, known):
    """What is left is the end of a log: it reads as before, and all that is gone is pruned."""
    listing = lake.log().names()
    oldest = listing.oldest_readable()
    assert oldest <= kept
    assert listing.readable() == f"{oldest}-{listing.head}"
    assert contents(lake, range(oldest, listing.head + 1)) == {
        revision: paths for revision, paths in known.items() if revision >= oldest
    }
    for revision in range(oldest):
        with pytest.raises(SnapshotPruned):
            lake.paths_at(revision)


@pytest.mark.parametrize("count", [8, EVERY])
def test_prune_stopped_after_each_request(make_memory_lake, hooked, spilling, count):
    original = make_memory_lake()
    build(original)
    known = contents(original, range(10))
    ambient = original.clock.ambient()
    total = plan_prune(original.store, W, D, keep_revisions=2, ambient=ambient).objects
    needed = original.needed("c7")
    left = len(original.segments() - needed)
    assert left > 2
    # Transactions 0 to 6 and their copies, two checkpoints, segments that 7 lacks.
    assert total == 7 + 7 + 2 + left

    def stopped_after(number):
        lake, stop = copy(original, make_memory_lake), Stop(number)
        plan = plan_prune(lake.store, W, D, keep_revisions=2, ambient=ambient)
        try:
            execute_prune(hooked(lake.store, stop), plan, ambient=ambient)
        except StorageError:
            pass
        else:
            assert lake.log_names() == "t7 c7 t8 t9"
        check_readable(lake, 7, known)
        assert needed <= lake.segments()
        for short in lake.log_names().split():
            if short.startswith("c"):
                assert lake.needed(short) <= lake.segments(), "a checkpoint without its segments"
        assert lake.read() == [7, 8, 9]
        assert not plan_gc(lake.store, W, D, ambient=ambient).kept[0].reason.startswith("unknown")
        with lake.writer() as writer:
            assert writer.revision == 9
            lake.commit(writer, 10)
        # The same plan finishes the job, and so would a new one.
        left = plan_prune(lake.store, W, D, keep_revisions=3, ambient=ambient)
        assert {a.key for a in left.actions} <= {a.key for a in plan.actions}
        execute_prune(lake.store, plan, ambient=ambient)
        assert lake.log_names() == "t7 c7 t8 t9 t10"
        assert lake.segments() == needed
        assert not plan_prune(lake.store, W, D, keep_revisions=3, ambient=ambient).actions
        return stop.seen

    requests = stopped_after(NEVER)
    assert requests > total
    for number in some("prune", range(requests), count):
        assert stopped_after(number) == number


@pytest.mark.parametrize("count", [8, EVERY])
def test_gc_stopped_after_each_request(make_memory_lake, hooked, monkeypatch, count):
    monkeypatch.setattr("lakelog.gc.collect._AT_ONCE", 2)
    original = make_memory_lake()
    build(original)
    ambient = original.clock.ambient()
    execute_prune(
        original.store,
        plan_prune(original.store, W, D, keep_revisions=2, ambient=ambient),
        ambient=ambient,
    )
    retained = original.retained_paths()
    orphans = original.data() - retained
    assert len(orphans) == 3 + 6  # given up; removed up to revision 7

    def stopped_after(number):
        lake, stop = copy(original, make_memory_lake), Stop(number)
        plan = plan_gc(lake.store, W, D, ambient=ambient)
        assert plan.objects == len(orphans)
        try:
            execute_gc(hooked(lake.store, stop), plan, ambient=ambient)
        except StorageError:
            pass
        else:
            assert lake.data() == retained
        assert retained <= lake.data()
        assert lake.read() == [7, 8, 9]
        with lake.writer() as writer:
            lake.commit(writer, 10)
        report = execute_gc(lake.store, plan, ambient=ambient)
        assert report.deleted_objects + report.gone_objects == len(orphans)
        assert lake.data() == lake.retained_paths()
        assert not plan_gc(lake.store, W, D, ambient=ambient).actions
        return stop.seen

    requests = stopped_after(NEVER)
    assert requests > len(orphans)
    for number in some("gc", range(requests), count):
        assert stopped_after(number) == number


@pytest.mark.parametrize("backend", ["memory", "local"])
@pytest.mark.parametrize("revision", [None, 0, 3, 5])
def test_a_reader_under_a_prune_lists_again(
    request, backend, revision, make_memory_lake, make_local_lake, tmp_path, hooked, spilling
):
    """The whole prune happens before the reader's n-th request, for every n."""
    for number in range(200):
        if backend == "memory":
            lake = make_memory_lake()
        else:
            lake = make_local_lake(tmp_path / f"{number}")
        build(lake)
        wanted = lake.paths_at(revision)
        seen = 0

        def prune_now(request, key, lake=lake, number=number):
            nonlocal seen
            if seen == number:
                plan = plan_prune(lake.catalog, W, D, keep_revisions=2)
                assert execute_prune(lake.catalog, plan).deleted_objects >= 15
            seen += 1

        reader = type(lake)(hooked(lake.store, prune_now), lake.clock)
        try:
            found = reader.paths_at(revision)
        except SnapshotPruned:
            assert revision is not None
            assert seen > number
            continue
        assert found == wanted
        if seen <= number:
            return
    raise AssertionError("the reader never finished before the prune")


@pytest.mark.parametrize("count", [8, EVERY])
def test_a_reader_under_a_slow_prune(make_memory_lake, hooked, spilling, count):
    """One deletion before each of the reader's requests, beginning at the n-th."""
    for begin in some("slow prune", range(40), count):
        lake = make_memory_lake()
        build(lake)
        keys = [a.key for a in plan_prune(lake.catalog, W, D, keep_revisions=2).actions]
        wanted = contents(lake, range(10))
        seen = 0

        def delete_one(request, key, lake=lake, keys=keys, begin=begin):
            nonlocal seen
            if seen >= begin and keys:
                lake.store.delete([keys.pop(0)])
            seen += 1

        reader = type(lake)(hooked(lake.store, delete_one), lake.clock)
        for revision in (3, 6, None):
            try:
                found = reader.paths_at(revision)
            except SnapshotPruned:
                assert revision is not None
            else:
                assert found == wanted[9 if revision is None else revision]


def test_a_commit_under_a_prune(make_memory_lake, hooked):
    """An owner that saw the old beginning goes on, whatever is pruned before its requests."""
    for number in range(12):
        lake = make_memory_lake()
        build(lake)
        seen = 0

        inner, ambient = lake.store, lake.clock.ambient()

        def prune_now(request, key, inner=inner, ambient=ambient, number=number):
            nonlocal seen
            if seen == number:
                plan = plan_prune(inner, W, D, keep_revisions=1, ambient=ambient)
                assert execute_prune(inner, plan, ambient=ambient).deleted_objects == 9 + 7
            seen += 1

        lake.store = hooked(inner, lambda *a: None)
        with lake.writer() as writer:
            lake.store.before = prune_now
            lake.commit(writer, 10)
            lake.commit(writer, 11)
        lake.store = inner
        assert lake.read() == [7, 8, 9, 10, 11]
