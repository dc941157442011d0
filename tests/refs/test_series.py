"""Numbered series: one of many callers moves it, and what counts is never deleted."""

from __future__ import annotations

import threading

import pytest
from lakelog.catalog.ambient import Ambient
from lakelog.catalog.refs.series import Series
from lakelog.errors import CapabilityMissing, RefMoved, StorageError
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore


@pytest.fixture
def store():
    """An empty store in memory."""
    return MemoryStore("series")


def test_a_series_begins_empty_and_counts_up(store):
    series = Series(store, "_refs/a/", ".ref")
    assert series.read_newest()[1] == b""
    assert series.newest().number == 0
    one = series.append(b"one", series.newest())
    two = series.append(b"two", one)
    assert (one.number, two.number) == (1, 2)
    entry, body = series.read_newest()
    assert (entry.number, body) == (2, b"two")
    assert [each.number for each in series.entries()] == [2, 1]


def test_of_many_that_read_one_state_one_wins(store):
    series = Series(store, "_refs/a/", ".ref")
    start, won, lost = series.newest(), [], []

    def work(number):
        try:
            won.append(series.append(f"body {number}".encode(), start))
        except RefMoved as error:
            lost.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7


def test_a_put_whose_answer_was_lost_counts_if_it_is_there(store):
    class Deaf(MemoryStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=if_absent)
            if key.endswith(".ref"):
                raise StorageError("no answer", key=key)

    series = Series(Deaf("deaf"), "_refs/a/", ".ref")
    assert series.append(b"one", series.newest()).number == 1


def test_a_caller_that_stood_still_for_long_is_told_that_it_lost(store):
    now = [0.0]
    ambient = Ambient(monotonic_s=lambda: now[0])
    series = Series(store, "_refs/a/", ".ref", ambient)
    start = series.newest()
    now[0] = 50_000.0
    with pytest.raises(RefMoved):
        series.append(b"late", start)


def test_a_store_without_put_if_absent_is_refused():
    class Plain(MemoryStore):
        def put(self, key, body, *, if_absent=False):
            super().put(key, body, if_absent=False)

    series = Series(Plain("plain"), "_refs/a/", ".ref")
    with pytest.raises(CapabilityMissing):
        series.append(b"one", series.newest())
    assert series.newest().number == 0


def test_names_of_others_are_passed_over_and_requests_are_few(store):
    store.put("_refs/a/notes.txt", b"")
    store.put("_refs/a/999999999998-7.ref", b"numbers that don't fit")
    counted = CountingStore(store)
    series = Series(counted, "_refs/a/", ".ref")
    first = series.append(b"one", series.newest())
    counted.reset()
    series.append(b"two", first)
    assert counted.reset() == {"put": 1, "get": 0, "list": 0, "head": 0, "delete": 0}
    assert series.read_newest()[1] == b"two"
    assert counted.reset() == {"put": 0, "get": 1, "list": 1, "head": 0, "delete": 0}
    series.delete([first])
    assert [each.number for each in series.entries()] == [2]
