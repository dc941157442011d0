"""A data file is never put over another one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.commit import data_files
from lakelog.catalog.commit.writer import Writer
from lakelog.errors import ObjectExists
from lakelog.store import probe
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient, PassingStore, PlainStore

DATA = pa.table({"a": [1]})
OTHER = pa.table({"a": [2]})


class Repeating(PassingStore):
    """Each put is sent twice, as by a client that missed the first answer."""

    def put(self, key, body, *, if_absent=False):
        self.inner.put(key, body, if_absent=if_absent)
        self.inner.put(key, body, if_absent=if_absent)


def twins(store):
    """Two openings that draw the same ids: a machine was cloned while it ran."""
    probe(store, "w/")
    return [Writer(store, "w", "db", ambient=FakeAmbient(7).ambient) for _ in range(2)]


def stored_files(store):
    return {info.key: store.get(info.key) for info in store.list("w/db/data/")}


def test_a_file_of_the_same_name_is_left_alone():
    store = MemoryStore("m")
    one, two = twins(store)
    transaction = one.transaction()
    transaction.write("t", DATA)
    before = stored_files(store)
    with pytest.raises(ObjectExists, match="drawn at random") as caught:
        two.transaction().write("t", OTHER)
    assert caught.value.key in before
    assert stored_files(store) == before
    transaction.commit()


def test_its_own_file_that_is_there_already_is_a_success():
    store = Repeating(MemoryStore("m"))
    store.probed = probe(store.inner, "w/")
    writer = Writer(store, "w", "db")
    with writer.transaction() as tx:
        tx.write("t", DATA)
    assert tx.commit_info.revision == 0
    assert len(stored_files(store)) == 1


def test_a_store_without_put_if_absent_is_not_asked_for_it():
    store = PlainStore(MemoryStore("m"))
    asked = []
    real = store.put

    def put(key, body, *, if_absent=False):
        asked.append((key, if_absent))
        real(key, body)

    writer = Writer(store, "w", "db")
    store.put = put
    writer.transaction().write("t", DATA)
    assert [if_absent for _, if_absent in asked] == [False]


@pytest.mark.parametrize("face", [PassingStore, PlainStore])
def test_a_file_too_large_for_one_put_is_looked_for_first(monkeypatch, face):
    """Parts can't be joined on the condition that the name is free."""
    monkeypatch.setattr(data_files, "_ONE_PUT_BYTES", 100)
    store = face(MemoryStore("m"))
    one, two = twins(store)
    one.transaction().write("t", DATA)
    before = stored_files(store)
    with pytest.raises(ObjectExists, match="drawn at random"):
        two.transaction().write("t", OTHER)
    assert stored_files(store) == before
