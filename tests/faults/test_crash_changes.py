"""A process that dies in the middle of an overwrite, a rewrite, a delete or an upsert, at each
writing request: readers see the rows from before or those from after, never a part; and gc takes
only what nobody needs."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from lakelog.testing.crashing import Crash, CrashingStore
from operations import NO_MARGINS, D, Notebook, W, catalog, everything, gc, memory

OLD = [1, 2, 3, 4, 5, 6, None]


def rows(*values):
    return pa.table({"n": pa.array(values, pa.int64())})


def begin():
    """Three files: one of them an overwrite takes out unread, one it reads, one it leaves."""
    store = memory()
    with catalog(store, 7).writer(W, D, checkpoint_every=0) as writer:
        for values in ((1, 2), (3, 4, None), (5, 6)):
            with writer.transaction() as tx:
                tx.append("t", rows(*values))
    return everything(store)


def overwrite(tx):
    tx.overwrite("t", rows(40, 60), "n >= 4")


def rewrite(tx, store):
    files = catalog(store, 99).snapshot(D).files("t")
    tx.rewrite("t", files.column("path").to_pylist(), sort_by="n", file_bytes=1)


def delete_by_number(tx):
    tx.delete("t", "n = 2 OR n = 3", mode="rows")


def delete_by_predicate(tx):
    tx.delete("t", "n = 2 OR n = 3", mode="predicate")


def upsert(tx):
    tx.upsert("t", rows(2, 70), key=["n"])


def change(store, name, notes):
    """One operation; the writer's id is that of all before it."""
    with catalog(store, 1, margins=NO_MARGINS).writer(W, D, checkpoint_every=1) as writer:
        tx = notes.begin(writer)
        rewrite(tx, store) if name == "rewrite" else CHANGES[name](tx)
        notes.commit(tx)


def seen(store):
    found = catalog(store, 98).snapshot(D).to_arrow("t").column("n").to_pylist()
    return sorted(found, key=lambda n: (n is None, n))


CHANGES = {
    "overwrite": overwrite,
    "delete by number": delete_by_number,
    "delete by predicate": delete_by_predicate,
    "upsert": upsert,
}
DELETED = [1, 4, 5, 6, None]
NEW = {
    "overwrite": [1, 2, 3, 40, 60, None],
    "rewrite": OLD,
    "delete by number": DELETED,
    "delete by predicate": DELETED,
    "upsert": [1, 2, 3, 4, 5, 6, 70, None],
}
LEAST = {"overwrite": 6, "rewrite": 6, "delete by number": 3, "delete by predicate": 2, "upsert": 4}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # transactions of who died are dropped
@pytest.mark.parametrize("name", NEW)
def test_a_crash_leaves_the_rows_from_before_or_from_after(name):
    content = begin()
    counted = CrashingStore(memory(content))
    change(counted, name, Notebook())
    assert counted.requests >= LEAST[name]
    assert seen(counted.inner) == NEW[name]
    for at, after in itertools.product(range(counted.requests), (False, True)):
        store, notes = memory(content), Notebook()
        with pytest.raises(Crash):
            change(CrashingStore(store, at, after=after), name, notes)
        found = seen(store)
        assert found in (OLD, NEW[name])
        if notes.acknowledged:
            assert found == NEW[name]
        gc(store, notes)
        assert seen(store) == found
        if found == OLD:
            change(store, name, Notebook())
            assert seen(store) == NEW[name]
