"""The probe believes only what it sees: stores that go wrong in each way it can tell."""

from __future__ import annotations

import re

import pytest
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from lakelog.store import open_store, probe
from lakelog.store.memory import MemoryStore


class IgnoresCondition(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        super().put(key, body)


class RefusesCondition(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        if if_absent:
            raise CapabilityMissing("the store can't do this: NotImplemented", key=key)
        super().put(key, body)


class RefusesButOverwrites(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        taken = bool(list(self.list("")))
        super().put(key, body)
        if taken:
            raise ObjectExists("exists", key=key)


class KeepsFirstButSaysDone(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        if not list(self.list("")):
            super().put(key, body)


class LosesFirstAnswer(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        taken = bool(list(self.list("")))
        super().put(key, body, if_absent=if_absent)
        if not taken:
            raise ObjectExists("exists: a retry of one's own write", key=key)


class ForgetsWrites(MemoryStore):
    def get(self, key, *, start=None, end=None):
        raise ObjectNotFound("no such object", key=key)


class FailsToRead(MemoryStore):
    def get(self, key, *, start=None, end=None):
        raise StorageError("the store failed: 500", key=key)


class RefusesDeletion(MemoryStore):
    def delete(self, keys, *, ordered=True):
        raise AccessDenied("the store refuses: AccessDenied", key=next(iter(keys)))


class RefusesWriting(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        raise AccessDenied("the store refuses: AccessDenied", key=key)


@pytest.mark.parametrize(
    ("kind", "trusted", "detail"),
    [
        (MemoryStore, True, "refused and left the first body alone"),
        (IgnoresCondition, False, "ignored.*replaced the first body"),
        (RefusesCondition, False, "put-if-absent is refused"),
        (RefusesButOverwrites, False, "refused replaced the first"),
        (KeepsFirstButSaysDone, False, "reports success"),
        (LosesFirstAnswer, True, "refused"),
    ],
)
def test_the_probe_sees_through(kind, trusted, detail):
    store = kind()
    found = probe(store, "w/")
    assert found.put_if_absent is trusted
    assert found.backend == "memory"
    assert re.search(detail, found.detail)
    assert list(store.list("")) == []


class DamagesReads(MemoryStore):
    """Gives back one byte too few, so often."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def get(self, key, *, start=None, end=None):
        self.times -= 1
        body = super().get(key, start=start, end=end)
        return body[:-1] if self.times >= 0 else body


def test_a_damaged_answer_is_no_proof_against_the_store():
    assert probe(DamagesReads(2), "w/").put_if_absent


@pytest.mark.parametrize("store", [DamagesReads(9), ForgetsWrites()])
def test_a_store_that_says_what_cannot_be_is_not_written_to(store):
    with pytest.raises(StorageError, match="something else than was written"):
        probe(store, "w/")
    assert store.probed is None


def test_the_probe_writes_only_below_its_prefix():
    store = RefusesDeletion()
    found = probe(store, "writer/db/")
    [left] = store.list("")
    assert left.key.startswith("writer/db/_probe/")
    assert found.put_if_absent is True
    assert left.key in found.detail


@pytest.mark.parametrize(
    ("kind", "error"), [(FailsToRead, StorageError), (RefusesWriting, AccessDenied)]
)
def test_a_failing_store_is_no_finding(kind, error):
    store = kind()
    with pytest.raises(error):
        probe(store, "w/")
    assert store.probed is None
    assert list(MemoryStore.list(store, "")) == []


def test_the_finding_is_kept_per_store_object(tmp_path):
    store = open_store(tmp_path)
    found = probe(store, "w/")
    store.put = None  # a second probe would now fail
    assert probe(store, "other/") is found
    assert open_store(tmp_path).probed is None


class RemovedByItsDouble(MemoryStore):
    """A doubled process probes with the same names, and has just removed the object."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def put(self, key, body, *, if_absent=False):
        if body != b"lakelog probe: first" and self.times:
            self.times -= 1
            self.delete([key])
        super().put(key, body, if_absent=if_absent)


@pytest.mark.parametrize("times", [1, 3])
def test_a_double_that_removes_the_object_is_no_proof_against_the_store(times):
    """Two writes in a row are: the double removes it once."""
    assert probe(RemovedByItsDouble(times), "").put_if_absent is (times == 1)
