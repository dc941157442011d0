"""What a plan takes in, leaves out, and says; one test per rule."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    InvalidName,
    NotFoundError,
    PlanOutdated,
    StorageError,
    UnsupportedFeature,
)
from lakelog.plans import Effect
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore
from rebuild_cases import BASE, commit, described, lose_the_log, rows

# --- The call -------------------------------------------------------------------------------------


def test_nothing_to_rebuild(store):
    with pytest.raises(NotFoundError, match="nothing to rebuild"):
        plan_rebuild(store, "EWR", "weather")
    assert list(store.list("")) == []


def test_nothing_usable_gives_a_report_and_no_log(catalog, store):
    store.put(f"{BASE}data/_/hourly/1-{'ab' * 16}-0.parquet", b"junk")
    plan = plan_rebuild(catalog, "EWR", "weather")
    assert len(plan.quarantined) == 1
    assert plan.effect == Effect("write", "transaction", 0, 0)
    with pytest.raises(NotFoundError, match="nothing to rebuild"):
        execute_rebuild(store, plan)
    assert [info.key for info in store.list("")] == [f"{BASE}data/_/hourly/1-{'ab' * 16}-0.parquet"]


def test_nothing_usable_never_ends_an_old_log(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        path, _ = commit(writer, 1)
    store.put(BASE + path, b"junk")
    before = [info.key for info in store.list("")]
    plan = plan_rebuild(catalog, "EWR", "weather")
    assert any(path in note and "damaged or gone" in note for note in plan.notes)
    with pytest.raises(NotFoundError):
        execute_rebuild(store, plan)
    assert [info.key for info in store.list("")] == before


def test_a_log_that_was_begun_meanwhile_voids_the_plan(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
    lose_the_log(store)
    plan = plan_rebuild(store, "EWR", "weather")
    commit(catalog.writer("EWR", "weather"), 2)
    before = {info.key: store.get(info.key) for info in store.list("")}
    with pytest.raises(PlanOutdated):
        execute_rebuild(store, plan)
    assert {info.key: store.get(info.key) for info in store.list("")} == before


def test_a_plan_is_void_when_files_or_log_have_changed(catalog, store):
    with catalog.writer("EWR", "weather") as writer:
        commit(writer, 1)
        plan = plan_rebuild(store, "EWR", "weather")
        writer.transaction().write("hourly", rows(2))
        with pytest.raises(PlanOutdated, match="data/"):
            execute_rebuild(store, plan)
        commit(writer, 2)
        plan = plan_rebuild(store, "EWR", "weather")
        with writer.transaction() as tx:
            tx.remove(next(iter(plan.live)))
        with pytest.raises(PlanOutdated, match="log"):
            execute_rebuild(store, plan)
    assert catalog.snapshot("weather").cut.revisions == {"EWR": 2}


@pytest.mark.parametrize("key", ["_refs", "_refs/main/0"])
def test_where_there_are_refs_nothing_is_planned_or_executed(catalog, any_store, fake, key):
    store = any_store()
    with Catalog(store, ambient=fake.ambient).writer("EWR", "weather") as writer:
        commit(writer, 1)
    store.put("_refs-of-somebody", b"")
    plan = plan_rebuild(store, "EWR", "weather")
    store.put(key, b"x")
    before = {info.key: store.get(info.key) for info in store.list("")}
    with pytest.raises(UnsupportedFeature, match="refs") as caught:
        plan_rebuild(store, "EWR", "weather")
    assert caught.value.key == key
    with pytest.raises(UnsupportedFeature, match="refs"):
        execute_rebuild(store, plan)
    assert {info.key: store.get(info.key) for info in store.list("")} == before


# --- The store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transaction", "checkpoint"])
def test_a_file_that_is_deleted_while_the_log_is_rebuilt_is_noticed(catalog, store, kind):
    class Deleting(PassingStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=if_absent)
            if key.endswith(kind):
                self.inner.delete([BASE + gone])

    with catalog.writer("EWR", "weather") as writer:
        gone, _ = commit(writer, 1)
    plan = plan_rebuild(store, "EWR", "weather")
    with pytest.raises(PlanOutdated, match="were deleted") as caught:
        execute_rebuild(Deleting(store), plan)
    assert caught.value.key == gone
    switched = LogReader(store, "EWR", "weather").names().incarnation == 2
    assert switched == (kind == "checkpoint")


def test_ids_are_checked(store):
    for writer, database in (("../x", "weather"), ("EWR", "a/b")):
        with pytest.raises(InvalidName):
            plan_rebuild(store, writer, database)


def test_requests_and_progress(any_store):
    counting = CountingStore(any_store())
    with Catalog(counting).writer("EWR", "weather") as writer:
        for number in range(6):
            commit(writer, number)
    lose_the_log(counting)
    counting.reset()
    seen = []
    plan = plan_rebuild(
        counting,
        "EWR",
        "weather",
        progress=lambda *told: seen.append(told),
    )
    assert seen == [(number, 6, "footers read") for number in range(1, 7)]
    assert counting.reset() == {"put": 0, "get": 6, "list": 3, "head": 1, "delete": 0}
    execute_rebuild(counting, plan)
    counts = counting.reset()
    seals = 1 + len(plan.seal.others)
    assert counts["put"] == seals + 6 + 1  # the probe's result is known from the writer
    assert counts["delete"] == 0
    assert counts["list"] <= 7


def test_a_store_that_fails_stops_the_plan_instead_of_shrinking_it(catalog, store):
    class Flaky(PassingStore):
        def get(self, key, **options):
            if "/data/" in key:
                raise StorageError("no answer", key=key)
            return super().get(key, **options)

    with catalog.writer("EWR", "weather") as writer:
        for number in range(3):
            commit(writer, number)
    lose_the_log(store)
    with pytest.raises(StorageError):
        plan_rebuild(Flaky(store), "EWR", "weather")


def test_a_plan_describes_itself(catalog, store, plan_of):
    with catalog.writer("EWR", "weather") as writer:
        for number in range(30):
            tx = writer.transaction()
            tx.write("hourly", rows(number))
        commit(writer, 31)
    store.put(f"{BASE}data/x.parquet", b"junk")
    plan = plan_of()
    rows_of = described(plan)
    assert list(rows_of) == ["transactions", "unproven", "undecided", "left_out", "incarnations"]
    assert len(rows_of["unproven"]) == 31
    assert [row["proof"] for row in rows_of["transactions"]] == ["unproven"] * 31
    assert [row["files_added"] for row in rows_of["transactions"]] == [1] * 31
    assert [row["kind"] for row in rows_of["left_out"]] == ["quarantined"]
    assert plan.effect.number == 31
    assert len(repr(plan)) < 500
    for group in plan.describe():
        for row in group.rows:
            assert list(row) == [field.name for field in group.fields]
