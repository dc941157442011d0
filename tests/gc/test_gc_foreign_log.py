"""gc beside a log that is not the one of the data."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import ObjectNotFound
from lakelog.gc import plan_gc
from lakelog.store.memory import MemoryStore


@pytest.fixture
def store():
    """Two writers; `b` has opened its log anew, so files that its log doesn't name are orphans."""
    store = MemoryStore("foreign")
    for name in ("a", "b"):
        for value in range(3):
            with Catalog(store).writer(name, "db") as writer, writer.transaction() as tx:
                tx.write("t", pa.table({"n": [value]}))
    return store


def names(store, writer, ending):
    found = list(store.list(f"{writer}/db/transactions/"))
    return [item.key for item in found if item.key.endswith(ending)]


def copy(store, keys):
    for key in keys:
        store.put("b" + key[1:], store.get(key))


def test_a_log_restored_to_the_wrong_place_deletes_nothing(store):
    store.delete(names(store, "b", ""))
    copy(store, names(store, "a", ""))
    with pytest.raises(ObjectNotFound, match="calls files live that are not there"):
        plan_gc(store, "b", "db")


def test_a_checkpoint_copied_from_another_log_deletes_nothing(store):
    with Catalog(store).writer("a", "db") as writer:
        for value in range(3, 6):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": [value]}))
        writer.checkpoint()
    store.delete(names(store, "b", ""))
    copy(store, names(store, "a", ".checkpoint"))
    copy(store, names(store, "a", "5." + names(store, "a", ".checkpoint")[0].split(".")[1]))
    with pytest.raises(ObjectNotFound, match="calls files live"):
        plan_gc(store, "b", "db")


def test_a_file_that_was_committed_while_the_listing_ran_is_no_foreign_one(store, monkeypatch):
    real = MemoryStore.list

    def racing(self, prefix, *, after=None):
        found = real(self, prefix, after=after)
        if prefix.endswith("data/"):
            monkeypatch.undo()
            with Catalog(store).writer("b", "db") as writer, writer.transaction() as tx:
                tx.write("t", pa.table({"n": [9]}))
        return found

    monkeypatch.setattr(MemoryStore, "list", racing)
    assert plan_gc(store, "b", "db").actions == ()
