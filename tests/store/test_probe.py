"""The probe believes only what it sees: stores that go wrong in each way it can tell."""

from __future__ import annotations

import contextlib
import json
import re
from unittest import mock

import pytest
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from lakelog.store import kept_key, open_store, probe, race
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import CheckingStore, PlainStore


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
        try:
            super().put(key, body, if_absent=if_absent)
        except ObjectExists:
            super().put(key, body)
            raise


class KeepsFirstButSaysDone(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        with contextlib.suppress(ObjectExists):
            super().put(key, body, if_absent=True)


class LosesWinnersAnswer(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        super().put(key, body, if_absent=if_absent)
        if if_absent:
            raise ObjectExists("exists: a retry of one's own write", key=key)


class LosesEveryOtherAnswer(MemoryStore):
    """As many race as on a remote store, and half of them learn nothing."""

    racers, raced_names = 8, 4

    def __init__(self):
        super().__init__()
        self.asked = 0

    def put(self, key, body, *, if_absent=False):
        self.asked += 1
        lost = self.asked % 2 == 0
        try:
            super().put(key, body, if_absent=if_absent)
        except ObjectExists:
            if not lost:
                raise
        if lost and if_absent:
            raise StorageError("no answer", key=key)


class ForgetsWrites(MemoryStore):
    def get(self, key, *, start=None, end=None):
        raise ObjectNotFound("no such object", key=key)

    def get_many(self, keys):
        return [None] * len(keys)


class FailsToRead(MemoryStore):
    def get_many(self, keys):
        raise StorageError("the store failed: 500", key=keys[0])


class RefusesDeletion(MemoryStore):
    def delete(self, keys, *, ordered=True):
        raise AccessDenied("the store refuses: AccessDenied", key=next(iter(keys)))


class RefusesWriting(MemoryStore):
    def put(self, key, body, *, if_absent=False):
        raise AccessDenied("the store refuses: AccessDenied", key=key)


@pytest.mark.parametrize(
    ("kind", "trusted", "detail"),
    [
        (MemoryStore, True, "of 2 that raced for a name one won, and what it wrote stayed"),
        (IgnoresCondition, False, "ignored: all 2 that raced"),
        (RefusesCondition, False, "put-if-absent is refused"),
        (RefusesButOverwrites, False, "replaced what the winner wrote"),
        (KeepsFirstButSaysDone, False, "ignored: all 2 that raced"),
        (LosesWinnersAnswer, True, "one won"),
        (LosesEveryOtherAnswer, True, "each of 4 names"),
        (lambda: CheckingStore(MemoryStore()), False, "of 8|all 8"),
        (lambda: PlainStore(MemoryStore()), False, "ignored"),
    ],
)
@pytest.mark.parametrize("thorough", [False, True])
def test_the_race_sees_through(kind, trusted, detail, thorough):
    store = kind()
    found = race(store, "w/", thorough=thorough)
    assert found.put_if_absent is trusted
    assert found.backend == "memory"
    if not thorough:
        assert re.search(detail, found.detail)
    left = [info.key for info in store.list("")]
    assert all(key.startswith("w/_probe/") for key in left)
    assert not (thorough and left), "a thorough race removes what it put"


def test_to_put_one_after_the_other_finds_nothing():
    """As a probe without a race does: such a store looks exclusive."""
    store = CheckingStore(MemoryStore(), between_s=0)
    in_turn = mock.patch("lakelog.store.probe._at_once", lambda calls: [call() for call in calls])
    with in_turn:
        assert race(store, "w/").put_if_absent


class DamagesReads(MemoryStore):
    """Gives back one byte too few, so often."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def get_many(self, keys):
        self.times -= 1
        bodies = super().get_many(keys)
        return [body[:-1] for body in bodies] if self.times >= 0 else bodies


def test_a_damaged_answer_is_no_proof_against_the_store():
    assert probe(DamagesReads(2), "w/").put_if_absent


@pytest.mark.parametrize("store", [DamagesReads(9), ForgetsWrites()])
def test_a_store_that_says_what_cannot_be_is_not_written_to(store):
    with pytest.raises(StorageError, match="something else than was written"):
        probe(store, "w/")
    assert store.probed is None


def test_the_probe_writes_only_below_its_prefix_and_deletes_nothing():
    """What was raced for stays, and a writer need not be allowed to delete."""
    store = RefusesDeletion()
    found = probe(store, "writer/db/")
    left = [info.key for info in store.list("")]
    assert len(left) == 1 + 1
    assert kept_key(store, "writer/db/") in left
    assert all(key.startswith("writer/db/_probe/") for key in left)
    assert found.put_if_absent is True
    found = race(store, "writer/db/", thorough=True)
    assert found.put_if_absent is True
    assert "deleting is not allowed" in found.detail


@pytest.mark.parametrize(
    ("kind", "error"), [(FailsToRead, StorageError), (RefusesWriting, AccessDenied)]
)
def test_a_failing_store_is_no_finding(kind, error):
    store = kind()
    with pytest.raises(error):
        probe(store, "w/")
    assert store.probed is None
    assert MemoryStore.get_many(store, [kept_key(store, "w/")]) == [None]


def test_no_answer_proves_nothing():
    class LosesAnswers(MemoryStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body)
            raise StorageError("no answer", key=key)

    with pytest.raises(StorageError, match="no answer"):
        probe(LosesAnswers(), "w/")


# --- What is kept ---------------------------------------------------------------------------------


def test_the_finding_is_kept_for_later_openings(tmp_path):
    store = CountingStore(open_store(tmp_path))
    found = probe(store, "w/")
    asked = {kind: count for kind, count in store.reset().items() if count}
    assert asked == {"put": 2 + 1, "get": 1 + 1}
    assert probe(store, "other/") is found
    assert not any(store.reset().values()), "kept on the store object"
    again = CountingStore(open_store(tmp_path))
    assert probe(again, "w/") == found
    assert {kind: count for kind, count in again.reset().items() if count} == {"get": 1}


def test_a_finding_is_not_believed_on_another_store(tmp_path):
    """A folder that was copied lies on another disk, perhaps: and it is raced there."""
    source, copy = open_store(tmp_path / "a"), open_store(tmp_path / "b")
    probe(source, "w/")
    for info in source.list(""):
        copy.put(info.key, source.get(info.key))
    copied = {info.key for info in copy.list("")}
    assert kept_key(source, "w/") in copied
    assert kept_key(copy, "w/") not in copied
    counting = CountingStore(copy)
    probe(counting, "w/")
    assert counting.counts["put"] == 3
    # nor where another one's finding has come to lie under this one's name
    stray = json.loads(source.get(kept_key(source, "w/"))) | {"put_if_absent": False}
    copy.put(kept_key(copy, "w/"), json.dumps(stray).encode())
    assert probe(open_store(tmp_path / "b"), "w/").put_if_absent


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 4000, b'{"store": 1}', b"\xff\xfe", b"x" * 9000]
)
def test_a_finding_that_cannot_be_read_is_made_again(body):
    store = MemoryStore("spoilt")
    store.put(kept_key(store, "w/"), body)
    assert probe(store, "w/").put_if_absent
    assert json.loads(store.get(kept_key(store, "w/")))["put_if_absent"] is True


def test_of_two_findings_the_one_against_the_store_counts():
    """Two openings race at once, and one of them misses what the other one sees."""
    store = MemoryStore("differs")

    def race_of_another(*args, **rest):
        found = race(*args, **rest)
        said = {"store": store.identity(), "put_if_absent": False, "detail": "two won"}
        store.put(kept_key(store, "w/"), json.dumps(said).encode())
        return found

    with mock.patch("lakelog.store.probe.race", race_of_another):
        found = probe(store, "w/")
    assert (found.put_if_absent, found.detail) == (False, "two won")


def test_what_can_not_be_kept_is_found_again():
    class KeepsNothing(MemoryStore):
        def put(self, key, body, *, if_absent=False):
            if "store-" in key:
                raise StorageError("no answer", key=key)
            super().put(key, body, if_absent=if_absent)

    store = KeepsNothing("keeps nothing")
    assert probe(store, "w/").put_if_absent
    assert store.probed is not None
