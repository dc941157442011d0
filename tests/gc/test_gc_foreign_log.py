"""gc beside a log that is not the one of the data."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import ForeignLog
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.store.memory import MemoryStore

NO_MARGINS = Margins(prune_floor_s=0, gc_grace_s=0)


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


def checkpoint(store, writer):
    with Catalog(store).writer(writer, "db", checkpoint_every=0) as opened:
        return opened.checkpoint().key


def test_a_log_restored_to_the_wrong_place_deletes_nothing(store):
    good = plan_gc(store, "b", "db", margins=NO_MARGINS)
    store.delete(names(store, "b", ""))
    copy(store, names(store, "a", ""))
    before = keys(store)
    with pytest.raises(ForeignLog, match="a/db"):
        plan_gc(store, "b", "db", margins=NO_MARGINS)
    with pytest.raises(ForeignLog):
        plan_prune(store, "b", "db", keep_revisions=1)
    if good.actions:
        with pytest.raises(ForeignLog):
            execute_gc(store, good, margins=NO_MARGINS)
    assert keys(store) == before


def test_a_renamed_log_is_left_alone_until_it_is_given_its_name(store):
    """A whole folder was copied: log, segments and data. There is much that could be deleted."""
    checkpoint(store, "a")
    store.put(f"a/db/data/_/t/1-{7:032x}-0.parquet", b"x")
    mine = plan_prune(store, "a", "db", keep_revisions=1, margins=NO_MARGINS)
    collection = plan_gc(store, "a", "db", margins=NO_MARGINS)
    assert mine.objects == 4
    assert collection.objects == 1
    for key in keys(store):
        if key.startswith("a/"):
            store.put("c" + key[1:], store.get(key))
    before = keys(store)
    for plan in (plan_gc, lambda *a, **k: plan_prune(*a, keep_revisions=1, **k)):
        with pytest.raises(ForeignLog):
            plan(store, "c", "db", margins=NO_MARGINS)
    assert keys(store) == before
    with Catalog(store).writer("c", "db", checkpoint_every=0) as writer:
        writer.adopt_name()
    plan = plan_gc(store, "c", "db", margins=NO_MARGINS)
    assert execute_gc(store, plan, margins=NO_MARGINS).deleted_objects == 1
    plan = plan_prune(store, "c", "db", keep_revisions=2, margins=NO_MARGINS)
    assert execute_prune(store, plan, margins=NO_MARGINS).deleted_objects == 4


def keys(store):
    return {info.key for info in store.list("")}


def test_a_file_that_was_committed_while_the_listing_ran_is_no_foreign_one(store, monkeypatch):
    real = MemoryStore.list

    def racing(self, prefix, **options):
        found = iter(list(real(self, prefix, **options)))
        if prefix.endswith("data/"):
            monkeypatch.undo()
            with Catalog(store).writer("b", "db") as writer, writer.transaction() as tx:
                tx.write("t", pa.table({"n": [9]}))
        return found

    monkeypatch.setattr(MemoryStore, "list", racing)
    assert plan_gc(store, "b", "db").actions == ()
