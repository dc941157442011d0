"""A listing that doesn't show a live file which is there: the rebuilt log would lose it."""

from __future__ import annotations

import pytest
from lakelog.errors import StorageError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.testing.doubles import PassingStore
from rebuild_cases import BASE, commit


class Forgetful(PassingStore):
    """Its listings lack one object."""

    def __init__(self, store, key):
        super().__init__(store)
        self.key = key

    def list(self, prefix, **options):
        return (info for info in self.inner.list(prefix, **options) if info.key != self.key)


def test_a_live_file_that_the_listing_lacks_stops_the_plan(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = commit(writer, 1)
        commit(writer, 2)
    with pytest.raises(StorageError, match="doesn't show") as caught:
        plan_rebuild(Forgetful(store, BASE + path), "EWR", "weather")
    assert caught.value.key == BASE + path
    plan = plan_rebuild(store, "EWR", "weather")
    execute_rebuild(store, plan)
    assert path in plan.live


def test_one_that_is_gone_does_not(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = commit(writer, 1)
        commit(writer, 2)
    store.delete([BASE + path])
    plan = plan_rebuild(store, "EWR", "weather")
    assert any(path in note and "damaged or gone" in note for note in plan.notes)
