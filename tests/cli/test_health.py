"""The findings behind `lakelog doctor`: typed values, without a command around them."""

from __future__ import annotations

import dataclasses

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.read.health import Finding, examine_log, examine_store, find_lost_logs
from lakelog.errors import AccessDenied, InvalidName
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore
from lakelog.testing.keys import log_keys


@pytest.fixture
def store():
    store = MemoryStore("health")
    with lakelog.Catalog(store).writer("W", "db") as writer:
        for number in range(3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number]}))
    return store


def test_a_sound_log_has_no_findings(store):
    log = examine_log(store, "W", "db")
    assert (log.head, log.epoch, log.incarnation, log.named) == (2, 1, 1, ("W", "db"))
    assert log.findings == ()


def test_only_the_newest_state_is_read(store):
    """Whatever lies below a checkpoint is a matter of `lakelog check`."""
    with lakelog.Catalog(store).writer("W", "db") as writer:
        writer.checkpoint()
    for key in log_keys(store, "transaction", writer="W")[:2]:
        store.put(key, b"junk")
    counting = CountingStore(store)
    log = examine_log(counting, "W", "db")
    assert (log.head, log.findings) == (2, ())
    spent = counting.reset()
    assert spent["get"] <= 2
    assert spent["put"] == spent["head"] == 0


def test_a_finding_names_its_object_and_what_to_do(store):
    key = log_keys(store, "transaction", writer="W")[-1]
    store.delete([key])
    log = examine_log(store, "W", "db")
    (problem,) = log.findings
    assert problem.severity == "problem"
    assert (problem.writer, problem.database) == ("W", "db")
    assert key.rsplit("/", 1)[1] in problem.key
    assert "lakelog repair" in problem.to_do
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.what = ""


def test_a_lost_log_is_a_problem_and_a_first_commit_under_way_a_note(store):
    assert find_lost_logs(store, known=[("W", "db")]) == []
    store.delete([info.key for info in store.list("W/db/transactions/")])
    (lost,) = find_lost_logs(store)
    assert (lost.severity, lost.writer, lost.database) == ("problem", "W", "db")
    assert "lakelog repair" in lost.to_do
    fresh = MemoryStore("fresh")
    lakelog.Catalog(fresh).writer("N", "db").transaction().write("t", pa.table({"a": [1]}))
    assert [item.severity for item in find_lost_logs(fresh)] == ["note"]


def test_what_the_store_can_do(store):
    class ReadOnly(PassingStore):
        def put(self, key, body, *, if_absent=False):
            raise AccessDenied("no", key=key)

    capabilities, words, findings = examine_store(store, "W")
    assert capabilities.put_if_absent
    assert (words, findings) == (capabilities.detail, [])
    found = examine_store(ReadOnly(store), "W")
    note = Finding("note", "The probe was refused: no. Reading works")
    assert found == (None, "writing is not allowed here", [note])
    with pytest.raises(InvalidName):
        examine_store(store, "../x")
