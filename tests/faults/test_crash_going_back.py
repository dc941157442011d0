"""A process that dies in the middle of a restore, a drop, a removal, a change of columns or a
delete in the files of all writers, at each writing request: readers see what was before or what
comes after, and the same call again brings it to its end, without a repair by hand."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from lakelog.testing.crashing import Crash, CrashingStore
from operations import D, Notebook, W, catalog, everything, gc, memory

TABLE = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
THEN = {W: 1}


def begin():
    """Rows of two files, of which one was deleted; then the columns and the rows were changed."""
    store = memory()
    with catalog(store, 7).writer(W, D, checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            tx.write("t", TABLE)
            tx.write("t", pa.table({"n": pa.array([4], pa.int64())}))
        with writer.transaction() as tx:
            tx.delete("t", "n = 2", mode="predicate")
        with writer.transaction() as tx:
            tx.evolve("t", rename={"n": "m"}, add={"x": pa.int64()})
        with writer.transaction() as tx:
            tx.delete("t", "m = 4")
            tx.write("t", pa.table({"m": pa.array([5], pa.int64())}))
    return everything(store)


def restore(lake):
    lake.restore(D, to=THEN, execute=True)


def drop(lake):
    if "t" in lake.snapshot(D).tables():
        lake.drop(D, "t", execute=True)


def remove(lake):
    paths = lake.snapshot(D).files("t", where="m = 5")["path"].to_pylist()
    lake.remove(D, "t", writer=W, paths=paths, execute=True)


def evolve(lake):
    if "x" in lake.snapshot(D).schema("t").names:
        lake.evolve(D, "t", drop=["x"])


def delete_of_all(lake):
    lake.delete(D, "t", "m = 5")


BEFORE = [(1, None), (3, None), (5, None)]
EMPTIED = "emptied"
AFTER = {
    restore: [1, 3, 4],
    drop: "dropped",
    remove: [(1, None), (3, None)],
    evolve: [(1,), (3,), (5,)],
    delete_of_all: [(1, None), (3, None)],
}


def seen(store):
    snapshot = catalog(store, 98).snapshot(D)
    if "t" not in snapshot.tables():
        return "dropped"
    found = snapshot.to_arrow("t")
    if "n" in found.column_names:
        return sorted(found["n"].to_pylist())
    rows = sorted(tuple(row.values()) for row in found.to_pylist())
    return rows or EMPTIED


@pytest.mark.slow("each writing request of five operations")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # transactions of who died are dropped
@pytest.mark.parametrize("act", AFTER)
def test_a_crash_leaves_what_was_before_or_comes_after(act):
    content = begin()
    assert seen(memory(content)) == BEFORE
    counted = CrashingStore(memory(content))
    act(catalog(counted, 1))
    assert seen(counted.inner) == AFTER[act]
    assert counted.requests >= 2
    between = {EMPTIED} if act is drop else set()  # it is two commits
    for at, after in itertools.product(range(counted.requests), (False, True)):
        store = memory(content)
        with pytest.raises(Crash):
            act(catalog(CrashingStore(store, at, after=after), 1))
        found = seen(store)
        assert found in (BEFORE, AFTER[act]) or found in between, (at, after)
        gc(store, Notebook())
        assert seen(store) == found
        if found != AFTER[act]:
            act(catalog(store, 2))
            assert seen(store) == AFTER[act]
