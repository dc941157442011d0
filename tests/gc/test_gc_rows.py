"""Prune and gc owe rows: at every retained point in time the same ones as before, by the log and
its mirror together and by each copy alone, wherever prune and gc are stopped.

With each change a sample of the places to stop at is tried, another with each commit; `make soak`
tries every one.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from collect_cases import BASE, D, W
from lakelog.errors import StorageError
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from sample import EVERY, some
from seeds import base_seed

# No reader may take a prune for damage.
pytestmark = pytest.mark.filterwarnings("error::lakelog.catalog.read.log_reader.CheckpointWarning")

DAY_S = 86_400.0
COPIES = ("transactions/", "segments/")


def change(tx, chance, live):
    """One operation of any kind that the history can hold."""
    value = chance.randrange(100)
    kind = chance.choice(("write", "write", "delete", "rows", "overwrite", "remove", "rewrite"))
    if not live:
        tx.write("t", pa.table({"n": [value, value + 1]}))
    elif kind == "delete":
        tx.delete("t", f"n < {value // 4}", mode="predicate")
    elif kind == "rows":
        tx.delete("t", f"n = {value}", mode="rows")
        tx.write("t", pa.table({"n": [value]}))
    elif kind == "overwrite":
        tx.overwrite("t", pa.table({"n": [value]}), f"n > {value}", validate=False)
    elif kind == "remove":
        tx.remove(chance.choice(live))
    elif kind == "rewrite" and len(live) > 1:
        tx.rewrite("t", live[:2])
    else:
        tx.write("t", pa.table({"n": [value, value + 1, chance.randrange(100)]}))


def go_on(lake, chance, commits, rows):
    """Some commits by one or two owners, with checkpoints and attempts that were given up between.

    Args:
        rows: Takes what each revision reads.
    """
    for _ in range(2):
        with lake.writer() as writer:
            for _ in range(chance.randint(0, commits)):
                live = live_paths(lake) if writer.revision >= 0 else []
                with writer.transaction() as tx:
                    change(tx, chance, live)
                lake.pass_time(chance.choice((1, DAY_S)))
                rows[writer.revision] = read(lake, writer.revision)
                if chance.random() < 0.3:
                    writer.checkpoint()
                if chance.random() < 0.3:
                    tx = writer.transaction()
                    tx.write("t", pa.table({"n": [-1]}))
                    tx.delete("t", "n > 50", mode="rows")
                    lake.die(tx)


def live_paths(lake):
    snapshot = lake.catalog.snapshot(D)
    return snapshot.files("t")["path"].to_pylist() if "t" in snapshot.tables() else []


def read(lake, revision):
    snapshot = lake.catalog.snapshot(D, {W: revision})
    return sorted(snapshot.to_arrow("t")["n"].to_pylist()) if "t" in snapshot.tables() else []


def complete(lake):
    """The mirror has the copy of the head as well, as after a writer was closed."""
    for info in list(lake.store.list(f"{BASE}transactions/")):
        if info.key.endswith(".transaction"):
            lake.store.put(BASE + "mirror/" + info.key.removeprefix(BASE), lake.store.get(info.key))


def copy(lake, make, keep=lambda path: path):
    """The same lake elsewhere, with the objects that `keep` gives a path."""
    other = make()
    now_s, other.clock.now_s = lake.clock.now_s, 0.0
    for info in lake.store.list(""):
        path = keep(info.key.removeprefix(BASE)) if info.key.startswith(BASE) else None
        if path is not None:
            other.clock.now_s = info.modified_at.timestamp()
            other.store.put(BASE + path, lake.store.get(info.key))
    other.clock.now_s = now_s
    return other


def log_alone(path):
    return None if path.startswith("mirror/") else path


def mirror_alone(path):
    """`cp -r mirror/* .`, all else but data being lost."""
    if path.startswith("mirror/"):
        return path.removeprefix("mirror/")
    return path if path.startswith("data/") else None


def check(lake, make, rows, oldest):
    """Every retained revision reads the same rows, in three ways."""
    for revision in range(oldest, max(rows) + 1):
        assert read(lake, revision) == rows[revision], revision
    for keep in (log_alone, mirror_alone):
        alone = copy(lake, make, keep)
        for revision in range(oldest, max(rows) + 1):
            assert read(alone, revision) == rows[revision], (keep.__name__, revision)


def prune(lake, store, keep):
    ambient = lake.clock.ambient()
    plan = plan_prune(store, W, D, keep_revisions=keep, ambient=ambient)
    execute_prune(store, plan, ambient=ambient)
    return plan


def collect(lake, store):
    ambient = lake.clock.ambient()
    execute_gc(store, plan_gc(store, W, D, ambient=ambient), ambient=ambient)


def oldest_of(lake):
    return lake.log().names().oldest_readable()


@pytest.mark.parametrize("number", range(4))
def test_random_histories_with_prune_and_gc_between(make_memory_lake, spilling, number):
    chance = random.Random(f"{base_seed()} {number}")
    lake, rows = make_memory_lake(), {}
    for _ in range(3):
        go_on(lake, chance, 5, rows)
        complete(lake)
        if not rows:
            continue
        lake.pass_time(chance.choice((2, 30)) * DAY_S)
        for step in chance.choices((prune, collect), k=2):
            keep = {"keep": chance.randint(1, 6)} if step is prune else {}
            step(lake, lake.store, **keep)
            check(lake, make_memory_lake, rows, oldest_of(lake))


class Stop:
    """Fails the request of this number and every later one."""

    def __init__(self, number):
        self.number, self.seen = number, 0

    def __call__(self, request, key):
        if self.seen >= self.number:
            raise StorageError("the test pulled the plug", key=key)
        self.seen += 1


@pytest.fixture
def aged(make_memory_lake, spilling):
    """A history of all kinds of operations, a month old, of which much can go."""
    lake, rows, chance = make_memory_lake(), {}, random.Random(7)
    while len(rows) < 12:
        go_on(lake, chance, 6, rows)
    with lake.writer() as writer:
        writer.checkpoint()
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [1000]}))
        rows[writer.revision] = read(lake, writer.revision)
    complete(lake)
    lake.pass_time(30 * DAY_S)
    return lake, rows


@pytest.mark.parametrize("count", [6, EVERY])
def test_prune_and_gc_stopped_after_each_request(make_memory_lake, hooked, aged, count):
    original, rows = aged
    ambient = original.clock.ambient()
    start = len(rows) - 2

    def stopped_after(number):
        lake, stop = copy(original, make_memory_lake), Stop(number)
        lake.store.probed = original.store.probed
        store = hooked(lake.store, stop)
        try:
            plan = prune(lake, store, 2)
            collect(lake, store)
        except StorageError:
            check(lake, make_memory_lake, rows, start)
            plan = prune(lake, lake.store, 2)
            collect(lake, lake.store)
        assert plan.facts.checkpoint.endswith(".checkpoint")
        assert oldest_of(lake) == start
        check(lake, make_memory_lake, rows, start)
        assert not plan_prune(lake.store, W, D, keep_revisions=2, ambient=ambient).actions
        assert not plan_gc(lake.store, W, D, ambient=ambient).actions
        for folder in COPIES:  # both copies are the same, but for later checkpoints
            copies = {
                info.key.rpartition("/")[2] for info in lake.store.list(f"{BASE}mirror/{folder}")
            }
            assert copies == {
                info.key.rpartition("/")[2] for info in lake.store.list(BASE + folder)
            }
        return stop.seen

    requests = stopped_after(10_000)
    assert requests > 50
    for number in some("prune and gc", range(requests), count):
        assert stopped_after(number) == number


def test_gc_after_a_prune_that_was_broken_off_between_the_copies(make_memory_lake, hooked, aged):
    """The log has lost its beginning, the mirror not: files stay that only the mirror names."""
    original, rows = aged
    lake = copy(original, make_memory_lake)

    def stop(request, key):
        if request == "delete" and "/mirror/" in key:
            raise StorageError("the test pulled the plug", key=key)

    with pytest.raises(StorageError):
        prune(lake, hooked(lake.store, stop), 2)
    assert oldest_of(lake) == len(rows) - 2
    collect(lake, lake.store)
    for revision in range(max(rows) + 1):
        assert read(copy(lake, make_memory_lake, mirror_alone), revision) == rows[revision]
    check(lake, make_memory_lake, rows, len(rows) - 2)
