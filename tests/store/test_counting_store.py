"""The counting store: it counts what it says and changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.errors import ObjectExists, ObjectNotFound
from lakelog.store import open_store, probe
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore


def counts(**made: int) -> dict[str, int]:
    return {"put": 0, "get": 0, "list": 0, "head": 0, "delete": 0} | made


@pytest.fixture
def store(tmp_path):
    return CountingStore(open_store(tmp_path))


def test_every_kind_of_request_is_counted(store):
    assert store.counts == counts()
    store.put("w/a", b"1")
    store.put("w/b", b"2", if_absent=True)
    with pytest.raises(ObjectExists):
        store.put("w/b", b"3", if_absent=True)
    assert store.counts == counts(put=3)
    assert store.get("w/a") == b"1"
    assert store.get("w/a", start=1) == b""
    with pytest.raises(ObjectNotFound):
        store.get("w/missing")
    assert store.get_many(["w/a", "w/missing", "w/b"]) == [b"1", None, b"2"]
    assert store.counts == counts(put=3, get=6)
    assert store.reset() == counts(put=3, get=6)
    assert [info.key for info in store.list("w/", after="w/a")] == ["w/b"]
    assert store.list_folders("") == ["w"]
    assert store.head("w/a").size_bytes == 1
    store.delete(iter(["w/a", "w/b"]))
    store.delete(["w/a"], ordered=False)
    assert store.counts == counts(list=2, head=1, delete=3)
    assert list(store.list("")) == []
    assert list(store.inner.list("")) == []


def test_the_probe_takes_five_requests_once(store):
    found = probe(store, "w/")
    assert found.put_if_absent
    assert store.reset() == counts(put=2 + 1, get=1 + 1)
    assert probe(store, "w/") is found
    assert store.reset() == counts()


def test_a_small_parquet_file_is_one_get(store):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(1000)}), sink)
    body = sink.getvalue().to_pybytes()
    store.put("w/t.parquet", body)
    store.reset()
    file = pq.ParquetFile(store.open_input("w/t.parquet", size_bytes=len(body)))
    assert file.read().num_rows == 1000
    assert store.reset() == counts(get=1)
    store.open_input("w/t.parquet")
    assert store.reset() == counts(head=1)


def test_counting_loses_nothing_among_threads(store):
    store.put("w/a", b"1")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.get("w/a"), range(2_000)))
    assert store.counts == counts(put=1, get=2_000)


def test_every_page_that_is_reached_is_counted():
    memory = MemoryStore()
    for number in range(2_150):
        memory.put(f"w/{number:04d}", b"")
    store = CountingStore(memory)
    expected = {0: 0, 1: 1, 100: 1, 101: 2, 1_100: 2, 1_101: 3, 2_100: 3, 2_101: 4, 3_000: 4}
    for objects, pages in expected.items():
        list(islice(store.list("w/", first_page=100), objects))
        assert store.reset() == counts(list=pages), objects
    list(store.list("w/"))
    assert store.reset() == counts(list=3)
