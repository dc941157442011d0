"""A listing is fetched as it is consumed: on every backend, in order, and no further."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from lakelog.errors import InvalidPath, UsageError
from lakelog.testing.counting import CountingStore

LOG = "w/d/transactions/"


def fill(store, keys) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"x"), keys))


def keys_of(found) -> list[str]:
    return [info.key for info in found]


def names(count: int) -> list[str]:
    return [f"{LOG}{number:04d}.transaction" for number in range(count)]


@pytest.fixture
def log(store):
    keys = names(40)
    fill(store, [*keys, "w/d/transactions-old/1", "w/d/data/p/t/1-a.parquet"])
    return keys


def test_pages_of_any_size_give_the_whole_in_order(store, log):
    for first_page in (1, 2, 7, 39, 40, 41, 1000, 5000):
        assert keys_of(store.list(LOG, first_page=first_page)) == log, first_page
        assert keys_of(store.list(LOG, after=log[9], first_page=first_page)) == log[10:]
    everything = keys_of(store.list(""))
    assert keys_of(store.list("", first_page=3)) == everything == sorted(everything)


def test_nested_folders_keep_their_order_over_pages(store):
    keys = ["a/b", "a/b-/1", "a/b./1", "a/b0", "a/c/1", "a/c/d/1", "a/c/e", "a/é", "a/\uff5e/1"]
    keys += ["a/b!/2", "a/\U0001f986", "b/1"]
    fill(store, keys)
    keys.sort(key=str.encode)
    for first_page in range(1, len(keys) + 2):
        assert keys_of(store.list("", first_page=first_page)) == keys, first_page
        for after in keys:
            left = [key for key in keys if key > after]
            assert keys_of(store.list("", after=after, first_page=first_page)) == left


def test_a_prefix_may_end_inside_a_name(store, log):
    fill(store, [f"{LOG}0007", f"{LOG}0007.more/x"])
    everything = keys_of(store.list(LOG))
    for part in ("0", "00", "0007", "0007.", "0007.m", "003", "0039.transaction", "9"):
        wanted = [key for key in everything if key.startswith(LOG + part)]
        assert keys_of(store.list(LOG + part)) == wanted, part
        assert keys_of(store.list(LOG + part, first_page=1)) == wanted, part
        after = f"{LOG}0020"
        assert keys_of(store.list(LOG + part, after=after)) == [k for k in wanted if k > after]
    assert keys_of(store.list("w/d/trans")) == ["w/d/transactions-old/1", *everything]
    assert keys_of(store.list("w/d/no-such/part")) == []


def test_a_prefix_without_a_folder_or_a_page_without_keys_is_refused_at_once(store):
    for prefix in ("w", "transactions", "w//x", "../x", "w/../x", "w/..", "/w"):
        with pytest.raises(InvalidPath):
            store.list(prefix)
    for first_page in (0, -1):
        with pytest.raises(UsageError, match="at least 1"):
            store.list("", first_page=first_page)


def test_an_iterator_may_be_left_or_closed_by_any_thread(store, log):
    found = store.list(LOG, first_page=5)
    assert next(found).key == log[0]
    closer = threading.Thread(target=found.close)
    closer.start()
    closer.join(30)
    assert list(found) == []
    store.list(LOG).close()
    left = store.list(LOG, first_page=5)
    assert keys_of(islice(left, 6)) == log[:6]
    del left
    with ThreadPoolExecutor(1) as pool:  # begun here, gone on with there
        going = store.list(LOG, first_page=5)
        assert next(going).key == log[0]
        assert pool.submit(keys_of, going).result() == log[1:]


def test_objects_that_go_and_come_between_pages_disturb_no_other(store, log):
    found = store.list(LOG, first_page=10)
    assert keys_of(islice(found, 10)) == log[:10]
    store.delete([log[3], log[9], log[20]])
    store.put(f"{LOG}0030.zzz", b"x")
    rest = keys_of(found)
    assert rest == sorted(set(rest))
    assert set(log[10:]) - set(rest) <= {log[20]}
    assert set(rest) - set(log[10:]) <= {f"{LOG}0030.zzz"}


def test_the_store_tells_its_own_time(store):
    store.put("w/a", b"1")
    told = store.server_time()
    assert told.utcoffset() == dt.timedelta(0)
    assert abs(told - dt.datetime.now(dt.UTC)) < dt.timedelta(seconds=5)
    assert store.server_time() >= told
    assert CountingStore(store).server_time() >= told


def test_a_counted_page_is_one_list(store, log):
    counting = CountingStore(store)

    def lists() -> int:
        return counting.reset()["list"]

    found = counting.list(LOG, first_page=10)
    assert lists() == 0, "nothing is asked before it is wanted"
    assert keys_of(islice(found, 10)) == log[:10]
    assert lists() == 1
    assert next(found).key == log[10]
    assert lists() == 1
    assert len(list(found)) == 29
    assert lists() == 0
    assert len(list(counting.list(LOG, first_page=40))) == 40
    assert lists() == 1
    assert list(counting.list(LOG, after=log[-1])) == []
    assert lists() == 1
