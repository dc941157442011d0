"""The findings behind `lakelog doctor`: typed values, without a command around them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.read.catalog_health import examine_store, find_lost_logs
from lakelog.catalog.read.findings import Finding
from lakelog.catalog.read.health import examine_log
from lakelog.errors import AccessDenied, InvalidName
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PassingStore


@pytest.fixture
def store():
    store = MemoryStore("health")
    with lakelog.Catalog(store).writer("W", "db") as writer:
        for number in range(3):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"a": [number]}))
    return store


def test_a_sound_log_has_no_findings(store):
    read = []
    log = examine_log(store, "W", "db", step=read.append)
    assert (log.head, log.epoch, log.readable, log.sound) == (2, 1, "0-2", True)
    assert log.findings == ()
    assert sum(read) == 3 + 3  # transactions, and data files


def test_a_finding_names_its_object_and_what_to_do(store):
    keys = [info.key for info in store.list("W/db/transactions/")]
    store.put(keys[1], b"junk")
    store.put("W/db/transactions/notes.txt", b"x")
    log = examine_log(store, "W", "db")
    assert not log.sound
    problem = next(item for item in log.findings if item.severity == "problem")
    assert (problem.key, problem.writer, problem.database) == (keys[1], "W", "db")
    assert problem.what
    assert problem.to_do
    note = next(item for item in log.findings if item.severity == "note")
    assert "notes.txt" in note.what
    with pytest.raises(dataclasses.FrozenInstanceError):
        note.what = ""


def test_a_lost_log_is_a_problem_and_a_first_commit_under_way_a_note(store):
    assert find_lost_logs(store, known=[("W", "db")]) == []
    store.delete([info.key for info in store.list("W/db/transactions/")])
    (lost,) = find_lost_logs(store)
    assert (lost.severity, lost.writer, lost.database) == ("problem", "W", "db")
    assert "lakelog rebuild" in lost.to_do
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


def test_a_deep_look_recomputes_each_checkpoint_and_looks_for_each_file(cli, own_weather):
    first = cli("doctor", own_weather, "--deep", "-o", "json")
    assert (first.code, first.json["problems"]) == (0, [])
    lost = next(Path(own_weather).glob("EWR/weather/data/**/*.parquet"))
    lost.unlink()
    result = cli("doctor", own_weather, "--deep", "-o", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert lost.name in problem["key"]
    assert "is not there" in problem["text"]
