"""What every backend must do alike: the contract of `lakelog.store.base`, line by line.

A new backend is a row in `conftest.py` of this folder; every test here then runs against it.
"""

from __future__ import annotations

import datetime as dt
import pickle
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conformance_cases import keys_of, put_all
from lakelog.errors import InvalidPath, ObjectExists, ObjectNotFound, UsageError
from lakelog.store import kept_key, open_store, probe, race

BODIES = {
    "empty": b"",
    "one byte": b"\0",
    "every byte": bytes(range(256)),
    "multipart boundary": b"--==0==\nContent-Type: x\n\n\n--==0==--",
    "crlf": b"\r\n\r\n0\r\n\r\n",
    "not utf-8": b"\xff\xfe\x00PAR1",
    "5 MB": secrets.token_bytes(5_000_000),
}


# --- put and get ----------------------------------------------------------------------------------


def test_an_object_reads_as_it_was_written_last(store):
    store.put("w/db/object", b"first")
    assert store.get("w/db/object") == b"first"
    store.put("w/db/object", b"second, longer")
    assert store.get("w/db/object") == b"second, longer"
    store.put("w/db/object", b"3")
    assert store.get("w/db/object") == b"3"


@pytest.mark.parametrize("if_absent", [False, True])
def test_a_body_is_kept_byte_for_byte(store, if_absent):
    for name, body in BODIES.items():
        store.put(f"w/{name}", body, if_absent=if_absent)
    for name, body in BODIES.items():
        assert store.get(f"w/{name}") == body, name
        assert store.head(f"w/{name}").size_bytes == len(body), name
    assert store.get_many([f"w/{name}" for name in BODIES]) == list(BODIES.values())
    sizes = {info.key: info.size_bytes for info in store.list("w/")}
    assert sizes == {f"w/{name}": len(body) for name, body in BODIES.items()}


def test_a_view_of_a_buffer_is_a_body_too(store):
    buffer = bytearray(b"0123456789")
    store.put("w/view", memoryview(buffer)[2:5])
    buffer[2:5] = b"xxx"
    assert store.get("w/view") == b"234"


@pytest.mark.parametrize("first", [b"first", b""], ids=["body", "empty"])
def test_if_absent_refuses_a_taken_name_and_leaves_it_alone(store, first):
    store.put("w/taken", first, if_absent=True)
    for second in (b"second", b"", first):
        with pytest.raises(ObjectExists) as caught:
            store.put("w/taken", second, if_absent=True)
        assert caught.value.key == "w/taken"
    assert store.get("w/taken") == first


def test_if_absent_works_again_after_a_deletion(store):
    store.put("w/name", b"1", if_absent=True)
    store.delete(["w/name"])
    store.put("w/name", b"2", if_absent=True)
    assert store.get("w/name") == b"2"


def test_of_many_threads_exactly_one_creates_a_name(opener):
    stores = [opener(), opener()]
    rounds, threads = 50, 16
    barrier = threading.Barrier(threads)

    def race(thread: int) -> list[int]:
        won = []
        for number in range(rounds):
            barrier.wait(60)
            try:
                body = b"%d" % thread
                stores[thread % 2].put(f"w/log/{number:020d}", body, if_absent=True)
                won.append(number)
            except ObjectExists:
                pass
        return won

    with ThreadPoolExecutor(threads) as pool:
        winners = list(pool.map(race, range(threads)))
    assert sorted(number for won in winners for number in won) == list(range(rounds))
    for thread, won in enumerate(winners):
        for number in won:
            assert stores[0].get(f"w/log/{number:020d}") == b"%d" % thread


def test_threads_may_share_a_store(store):
    def work(thread: int) -> None:
        for number in range(12):
            key = f"w/{thread}/{number}"
            store.put(key, key.encode())
            assert store.get(key) == key.encode()
            assert key in keys_of(store.list(f"w/{thread}/"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(list(store.list("w/"))) == 96


def test_two_stores_on_one_root_see_each_other_at_once(opener):
    one, two = opener(), opener()
    assert list(two.list("w/")) == []
    one.put("w/a", b"1")
    assert keys_of(two.list("w/")) == ["w/a"]
    assert two.get("w/a") == b"1"
    two.delete(["w/a"])
    assert list(one.list("w/")) == []
    assert one.get_many(["w/a"]) == [None]


# --- ranges ---------------------------------------------------------------------------------------

RANGES = [(s, e) for s in (None, 0, 1, 7, 10, 11, 500) for e in (None, 0, 1, 7, 10, 11, 500)]


RANGES += [(s, None) for s in (-1, -3, -10, -11, -500)]


@pytest.mark.parametrize("body", [b"0123456789", b"x", b""], ids=len)
def test_a_range_is_a_slice_of_the_body(store, body):
    store.put("w/ranged", body)
    for start, end in RANGES:
        got = store.get("w/ranged", start=start, end=end)
        assert got == body[start:end], (start, end)


@pytest.mark.parametrize(("start", "end"), [(0, -1), (None, -1), (-5, 3), (-5, -2)])
def test_a_range_that_no_store_can_serve_is_refused(store, start, end):
    store.put("w/ranged", b"0123456789")
    with pytest.raises(UsageError, match="range"):
        store.get("w/ranged", start=start, end=end)


# --- what is not there ----------------------------------------------------------------------------


def test_a_missing_object_is_named(store, missing):
    store.put("w/there", b"1")
    for key in missing:
        calls = [
            partial(store.get, key),
            partial(store.get, key, start=1),
            partial(store.get, key, start=-1),
            partial(store.get, key, start=2, end=2),
            partial(store.head, key),
            partial(store.open_input, key),
            lambda key=key: store.open_input(key, size_bytes=3).read(),
        ]
        for call in calls:
            with pytest.raises(ObjectNotFound) as caught:
                call()
            assert caught.value.key == key
            assert key in str(caught.value)
        assert store.get_many([key]) == [None]


def test_an_empty_root_lists_as_empty(store):
    assert list(store.list("")) == []
    assert list(store.list("w/")) == []
    assert list(store.list("", after="w/x")) == []
    assert store.list_folders("") == []
    assert store.list_folders("w/db/") == []
    assert store.get_many(["w/x", "y"]) == [None, None]
    store.delete(["w/x"])


def test_get_many_keeps_the_order_and_says_none(store):
    keys = [f"w/{number}" for number in range(40)]
    put_all(store, keys)
    store.put("w/empty", b"")
    store.put("w/7", b"seven")
    asked = ["w/missing", "w/7", "w/empty", "w/39", "w/7", "no/such/folder", "w/0"]
    assert store.get_many(asked) == [None, b"seven", b"", b"x", b"seven", None, b"x"]
    assert store.get_many(keys) == [b"x"] * 7 + [b"seven"] + [b"x"] * 32
    assert store.get_many([]) == []


# --- head, delete, files --------------------------------------------------------------------------


def test_head_tells_size_and_the_stores_time(store):
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=5)
    store.put("w/object", b"12345")
    info = store.head("w/object")
    assert (info.key, info.size_bytes) == ("w/object", 5)
    assert before <= info.modified_at <= dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
    assert info.modified_at.utcoffset() == dt.timedelta(0)
    assert next(iter(store.list("w/"))).modified_at.utcoffset() == dt.timedelta(0)
    listed = next(iter(store.list("w/"))).modified_at
    assert abs(listed - info.modified_at) < dt.timedelta(seconds=1)  # HEAD has whole seconds


@pytest.mark.parametrize("ordered", [True, False])
def test_deleting_is_idempotent_and_leaves_the_rest(store, ordered):
    put_all(store, ["w/a", "w/b", "w/c", "w/d"])
    store.delete(["w/b", "w/missing", "no/folder/here", "w/d", "w/b"], ordered=ordered)
    assert keys_of(store.list("")) == ["w/a", "w/c"]
    store.delete(["w/b", "w/d"], ordered=ordered)
    store.delete([], ordered=ordered)
    store.delete(iter(["w/a"]), ordered=ordered)
    assert keys_of(store.list("")) == ["w/c"]


def test_deleting_a_name_leaves_what_is_below_it(store):
    store.put("w/folder/x", b"1")
    store.delete(["w/folder", "w"])
    store.delete(["w/folder", "w"], ordered=False)
    assert keys_of(store.list("")) == ["w/folder/x"]


def test_an_ordered_deletion_that_fails_leaves_the_tail(store):
    put_all(store, ["w/a", "w/b", "w/c"])
    with pytest.raises(InvalidPath):
        store.delete(["w/b", "../x", "w/a"])
    assert keys_of(store.list("")) == ["w/a", "w/c"]


@pytest.mark.parametrize("size_known", [True, False])
@pytest.mark.parametrize("rows", [10, 300_000], ids=["small", "large"])
def test_parquet_is_read_from_an_open_file(store, rows, size_known):
    table = pa.table(
        {
            "n": range(rows),
            "noise": [float(n * 7919 % 1009) for n in range(rows)],
            "text": ["é"] * rows,
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100_000, compression="none")
    body = sink.getvalue().to_pybytes()
    store.put("w/data/t.parquet", body)
    size = len(body) if size_known else None
    file = pq.ParquetFile(store.open_input("w/data/t.parquet", size_bytes=size))
    assert file.metadata.num_rows == rows
    assert file.read().equals(table)
    assert file.read_row_group(0, columns=["noise"]).num_rows == min(rows, 100_000)


def test_an_open_file_seeks_and_tells(store):
    body = bytes(range(256)) * 4_000  # about 1 MB: several blocks
    store.put("w/file", body)
    with store.open_input("w/file") as file:
        assert file.readable()
        assert file.seekable()
        assert file.read(3) == body[:3]
        assert file.tell() == 3
        file.seek(-5, 2)
        assert file.read(100) == body[-5:]
        assert file.read(1) == b""
        file.seek(500_000)
        assert file.read(400_000) == body[500_000:900_000]
        file.seek(10)
        assert file.read(1) == body[10:11]
        file.seek(5, 1)
        assert file.tell() == 16
        assert file.read(300_000) == body[16:300_016]
        file.seek(0)
        assert file.read() == body
    assert file.closed


def test_an_object_url_names_the_object(store):
    url = store.object_url("w/data/part one.parquet")
    assert url == f"{store.url}/w/data/part one.parquet"


# --- the store object -----------------------------------------------------------------------------


def test_the_probe_trusts_what_it_saw(opener):
    store = opener()
    found = probe(store, "w/")
    assert found.put_if_absent is True
    assert found.backend == store.backend
    assert "one won" in found.detail
    kept = kept_key(store, "w/")
    assert kept in keys_of(store.list("w/_probe/"))
    before = store.get(kept)
    assert race(store, "w/", thorough=True).put_if_absent
    assert len(list(store.list(""))) == store.raced_names + 1, "what is raced for so is removed"
    assert store.get(kept) == before


def test_a_store_shows_its_url_and_refuses_to_be_pickled(store):
    assert store.url in repr(store)
    with pytest.raises(TypeError, match="URL and options"):
        pickle.dumps(store)


def test_opening_touches_nothing(opener, tmp_path):
    opener()
    assert list(tmp_path.iterdir()) == []
    assert list(open_store(tmp_path / "x").list("")) == []
    assert list(tmp_path.iterdir()) == []
