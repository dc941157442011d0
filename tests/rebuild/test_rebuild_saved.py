"""A rebuild plan is a value: saved, loaded, executed by another process, refused where changed."""

from __future__ import annotations

import base64
import json
import pickle

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import PlanOutdated, UsageError
from lakelog.plans import check_source
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.store import open_store

BASE = "EWR/weather/"


@pytest.fixture
def saved(catalog, store, fake) -> str:
    """A plan over a log that is there, in JSON: two transactions, a file left out."""
    with catalog.writer("EWR", "weather") as writer:
        with writer.transaction() as tx:
            (first,) = tx.write("hourly", pa.table({"n": [1]}))
        with writer.transaction() as tx:
            tx.remove(first)
            tx.write("hourly", pa.table({"n": [2, 3]}))
    store.put(f"{BASE}data/x.parquet", b"junk")
    plan = plan_rebuild(store, "EWR", "weather", ambient=fake.ambient)
    return plan.to_json()


def test_a_saved_plan_is_executed_like_the_one_that_was_saved(store, saved):
    plan = RebuildPlan.from_json(saved)
    assert plan.to_json() == saved
    assert RebuildPlan.from_json(saved.encode()) == plan
    info = execute_rebuild(store, plan)
    assert (info.transactions, info.files) == (2, 1)
    snapshot = Catalog(store).snapshot("weather")
    assert set(snapshot.files("hourly")["path"].to_pylist()) == set(plan.live)
    assert snapshot.to_arrow("hourly")["n"].to_pylist() == [2, 3]
    with pytest.raises(PlanOutdated):
        execute_rebuild(store, RebuildPlan.from_json(saved))


def test_a_plan_holds_no_store(saved):
    plan = RebuildPlan.from_json(saved)
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_the_format_of_a_saved_plan(saved):
    """What another version saved must be read, or refused by its number."""
    data = json.loads(saved)
    assert list(data) == [
        "lakelog_plan", "kind", "url", "writer", "database", "made_at", "rebuild_id", "log",
        "epoch", "left_out", "notes", "is_whole", "seal", "old_objects",
        "data_digest", "schemas", "begun_at_us", "locations", "transactions",
    ]  # fmt: skip
    assert (data["lakelog_plan"], data["kind"]) == (1, "rebuild")
    assert list(data["transactions"][0]) == [
        "revision", "transaction_id", "proof", "original_revision", "base_revision", "epoch",
        "operation", "committed_at_us", "app_id", "app_version", "files", "why",
        "removed", "schemas", "applications", "forgotten", "definitions", "deletes",
        "tables",
    ]  # fmt: skip
    assert list(data["transactions"][0]["files"][0]) == [
        "path", "table", "size_bytes", "row_count", "fingerprint", "add", "removes",
    ]  # fmt: skip
    assert list(data["left_out"][0]) == ["path", "size_bytes", "kind", "reason", "transaction_id"]
    assert list(data["log"]) == ["log_id", "incarnation"]
    assert list(data["seal"]) == [
        "log", "at", "previous_uuid", "previous_digest", "epoch", "after_us", "others", "stands",
    ]  # fmt: skip
    assert list(data["seal"]["at"]) == ["revision", "uuid"]
    assert list(data["schemas"][0]) == [
        "table", "fingerprint", "message", "key", "sort_order",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("rebuild_id",), "../../JFK"),
        (("writer",), "../JFK"),
        (("epoch",), 0),
        (("epoch",), 1 << 62),
        (("log", "incarnation"), 1),
        (("log", "incarnation"), 1000),
        (("log", "log_id"), "AAAA"),
        (("seal", "log", "incarnation"), 0),
        (("seal", "log", "log_id"), base64.b64encode(bytes(16)).decode()),
        (("seal", "at", "revision"), -1),
        (("seal", "at", "uuid"), ""),
        (("seal", "previous_digest"), "AAAA"),
        (("seal", "epoch"), 0),
        (("seal", "epoch"), 1 << 60),
        (("seal", "after_us"), 1 << 60),
        (("seal", "others"), [{"revision": 1 << 50, "uuid": "AAAAAAAAAAAAAAAAAAAAAA=="}]),
        (("seal", "stands"), 1),
        (("old_objects",), -1),
        (("kind",), "gc"),
        (("url",), None),
        (("transactions", 0, "revision"), 1),
        (("transactions", 0, "transaction_id"), "xyz"),
        (("transactions", 0, "committed_at_us"), 1 << 60),
        (("transactions", 0, "app_version"), 1 << 64),
        (("transactions", 0, "operation"), "burn"),
        (("transactions", 0, "proof"), "sure"),
        (("transactions", 0, "files", 0, "path"), "../x.parquet"),
        (("transactions", 0, "files", 0, "path"), "data/other.parquet"),
        (("transactions", 0, "files", 0, "row_count"), 7),
        (("transactions", 0, "files", 0, "add"), "AAAA"),
        (("transactions", 0, "files", 0, "add"), "?"),
        (("transactions", 1, "files", 0, "removes", 0), "../x"),
        (("transactions", 1, "files", 0, "removes", 0), ["hourly", "../x"]),
        (("transactions", 1, "files", 0, "removes", 0), ["hourly"]),
        (("transactions", 1, "removed"), [["hourly", "../x"]]),
        (("transactions", 1, "schemas"), [["hourly", base64.b64encode(bytes(16)).decode()]]),
        (("transactions", 1, "forgotten"), [["hourly", base64.b64encode(bytes(16)).decode()]]),
        (("transactions", 1, "applications"), [["x" * 1025, 1]]),
        (("transactions", 1, "applications"), [["", 1]]),
        (("transactions", 1, "applications"), [["x", -1]]),
        (("schemas",), []),
        (("made_at",), "2026-11-21T06:30:00"),
    ],
)
def test_a_changed_plan_is_refused(store, saved, place, value):
    data = json.loads(saved)
    target = data
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    before = {info.key: store.get(info.key) for info in store.list("")}
    with pytest.raises(UsageError):
        RebuildPlan.from_json(json.dumps(data))
    assert {info.key: store.get(info.key) for info in store.list("")} == before


def test_a_plan_of_another_place_or_step_is_refused(store, saved, tmp_path):
    plan = RebuildPlan.from_json(saved)
    with pytest.raises(UsageError, match="The plan is for memory://"):
        execute_rebuild(open_store(tmp_path), plan)
    with pytest.raises(UsageError, match="This is a rebuild plan, not one of gc"):
        check_source(plan, "gc", store)
