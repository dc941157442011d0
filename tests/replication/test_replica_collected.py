"""gc at a replica whose source adds files again that it had taken out: at the replica nothing names
them until the transaction is there that adds them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from lakelog.errors import ConflictError, LostTail
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.replication import replicate
from lakelog.testing.doubles import PassingStore
from replica_cases import D, Pair, written

DAY_S = 86_400


class CollectedStore(PassingStore):
    """gc runs whole before each transaction is put but the first ones, if it doesn't refuse."""

    def __init__(self, pair: Pair, first: int) -> None:
        super().__init__(pair.copy.store)
        self.pair, self.left, self.collected, self.deleted = pair, first, 0, 0

    def put(self, key, body, *, if_absent=False):
        if key.endswith(".transaction") and self.left:
            self.left -= 1
        elif key.endswith(".transaction"):
            self.pair.clock.now_s += 1
            catalog = self.pair.copy.catalog
            with suppress(LostTail):  # files of commits to come are there already
                plan = plan_gc(catalog, "oslo", D)
                self.deleted += execute_gc(catalog, plan).deleted_objects
                self.collected += 1
        super().put(key, body, if_absent=if_absent)

    def server_time(self):
        return self.inner.server_time()


def replicate_collected(pair: Pair, first: int = 0) -> CollectedStore:
    catalog = pair.copy.catalog
    catalog.store = store = CollectedStore(pair, first)
    assert not replicate(pair.source.catalog, catalog).errors
    return store


def file_of(pair: Pair) -> str:
    (path,) = pair.source.catalog.snapshot(D, pair.before).files("hourly")["path"].to_pylist()
    return path


@pytest.fixture
def pair() -> Pair:
    """A source that took a file out, and a replica that never had it."""
    found = Pair()
    (found.before,) = written(found, 1)
    with found.source.writer() as writer, writer.transaction() as tx:
        tx.remove(file_of(found))
    found.clock.now_s += 1
    written(found, 1)
    replicate(found.source.catalog, found.copy.catalog, history=False)
    return found


def test_a_file_that_comes_back_survives_gc_while_it_is_copied(pair):
    pair.source.catalog.restore(D, to=pair.before, execute=True)
    store = replicate_collected(pair)
    assert store.collected == 2, "before the transaction, and before its copy"
    pair.same(pair.source.token)


def test_new_epochs_in_between_change_nothing(pair):
    written(pair, 3)
    pair.source.catalog.restore(D, to=pair.before, execute=True)
    store = replicate_collected(pair)
    assert store.collected
    pair.same(pair.source.token)


def test_a_file_that_lies_there_for_long_is_made_young(pair):
    """gc at the replica would take it, and may have decided so."""
    key = f"oslo/{D}/{file_of(pair)}"
    pair.copy.store.put(key, pair.source.store.get(key))
    pair.clock.now_s += 30 * DAY_S
    assert [item.key for item in plan_gc(pair.copy.catalog, "oslo", D).actions] == [key]
    written(pair, 2)
    pair.source.catalog.restore(D, to=pair.before, execute=True)
    store = replicate_collected(pair, first=2)
    assert store.collected
    assert not store.deleted
    pair.same(pair.source.token)


class LateStore(PassingStore):
    """A whole replication runs between gc's last look and its deletion."""

    pair: Pair | None = None

    def delete(self, keys, *, ordered=True):
        keys = list(keys)
        if self.pair and any(key.endswith(".parquet") for key in keys):
            pair, self.pair = self.pair, None
            pair.replicate()
        return super().delete(keys, ordered=ordered)

    def server_time(self):
        return self.inner.server_time()


def test_a_deletion_that_a_replication_overtakes_is_told(pair):
    """Nothing can hinder it: what was decided is on its way."""
    key = f"oslo/{D}/{file_of(pair)}"
    pair.copy.store.put(key, pair.source.store.get(key))
    pair.clock.now_s += 8 * DAY_S
    catalog = pair.copy.catalog
    plan = plan_gc(catalog, "oslo", D)
    assert [item.key for item in plan.actions] == [key]
    pair.source.catalog.restore(D, to=pair.before, execute=True)
    catalog.store = LateStore(pair.copy.store)
    catalog.store.pair = pair
    with pytest.raises(ConflictError, match="while a replication named it again") as caught:
        execute_gc(catalog, plan)
    assert caught.value.key == key
    pair.copy.store.put(key, pair.source.store.get(key))  # as the hint says
    pair.same(pair.source.token)
