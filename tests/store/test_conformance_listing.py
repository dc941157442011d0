"""Listing and names: the same on every backend."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from conformance_cases import keys_of, put_all
from lakelog.errors import InvalidPath, ObjectExists

ODD_KEYS = [
    "plain",
    "with space/in folder/and name",
    " leading and trailing ",
    "plus+plus",
    "percent%2Fnot-a-slash%",
    "hash#fragment",
    "question?query=1",
    "question?versionId=abc",
    "brackets[0]{1}(2)",
    "star*glob?",
    "quotes'and\"double",
    "tilde~/$HOME/back`tick",
    "amp&lt<gt>",
    "colon:at@comma,semi;eq=",
    "é/ü/ß composed",
    "e\u0301 decomposed",
    "日本語/テーブル",
    "emoji 🦆/🦆.parquet",
    ".hidden/.name",
    "...",
    "a..b/..c/d..",
    "-dash/--option",
]

BAD_KEYS = [
    "",
    "/absolute",
    "a//b",
    "a/",
    "a/../b",
    "..",
    ".",
    "../outside",
    "a/./b",
    "a/..",
    "nul\0byte",
    "surrogate\udc80",
]


# --- listing --------------------------------------------------------------------------------------

LISTED = [
    "a",
    "a-old/1",
    "a.b",
    "a/1",
    "a/10",
    "a/2",
    "a/b/1",
    "a/b/c/d",
    "a/b-",
    "a/b0",
    "a/é",
    "a/\uff5e",  # above the surrogates: UTF-16 order would put the duck first
    "a/\U0001f986",
    "b/x",
]


@pytest.fixture
def listed(store, has_folders):
    # On a file system "a" can't be a file and a folder.
    names = [name for name in LISTED if name != "a" or not has_folders]
    put_all(store, names)
    return sorted(names, key=str.encode)


def test_a_listing_is_sorted_by_bytes_at_any_depth(store, listed):
    assert keys_of(store.list("")) == listed


def test_a_prefix_ends_at_its_slash(store, listed):
    for prefix in ("a/", "a/b/", "a-old/", "b/", "c/", "a/b/c/"):
        assert keys_of(store.list(prefix)) == [key for key in listed if key.startswith(prefix)]


def test_after_is_exclusive_and_need_not_exist(store, listed):
    points = [*listed, "", "a/", "a/b/", "a/b/c", "a/b/b", "a/11", "a0", "zzz", "\U0010fffd", "A"]
    for prefix in ("", "a/", "a/b/"):
        for after in points:
            expected = [key for key in listed if key.startswith(prefix) and key > after]
            assert keys_of(store.list(prefix, after=after)) == expected, (prefix, after)


@pytest.mark.slow("S3's second page takes over 1,000 objects, each a request to a test server")
def test_a_listing_goes_on_over_pages(store, has_folders):
    """Azurite's own page holds 5,000 objects: there, and where each object is a file of a server,
    the second one is that of a small first."""
    remote = (150, 99) if has_folders else (1_100, 1_049)
    counts = {"s3": remote, "gs": remote, "az": (150, 99)}
    count, point = counts.get(store.backend, (2_500, 1_049))
    folders = [f"w{number:020d}" for number in range(count)]
    keys = [f"root/{folder}/x" for folder in folders]
    put_all(store, keys)
    assert keys_of(store.list("root/")) == keys
    assert keys_of(store.list("root/", first_page=100)) == keys
    assert keys_of(store.list("root/", after=keys[point])) == keys[point + 1 :]
    assert keys_of(store.list("root/", after=keys[10], first_page=100)) == keys[11:]
    assert list(store.list("root/", after=keys[-1])) == []
    assert store.list_folders("root/") == folders
    assert store.get_many(keys[:300]) == [b"x"] * min(count, 300)


def test_a_listing_shows_all_that_was_acknowledged_before_it(opener):
    writer, reader = opener(), opener()
    written: list[str] = []
    done = threading.Event()

    def write() -> None:
        for number in range(50 if writer.backend in {"s3", "gs", "az"} else 300):
            key = f"w/log/{number:020d}"
            writer.put(key, b"x", if_absent=True)
            written.append(key)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(write)
        while not done.is_set() and not future.done():
            acknowledged = set(written)
            assert acknowledged <= set(keys_of(reader.list("w/log/")))
        future.result()
    assert keys_of(reader.list("w/log/")) == written


def test_folders_are_listed_by_name(store, listed):
    assert store.list_folders("") == ["a", "a-old", "b"]
    assert store.list_folders("a/") == ["b"]
    assert store.list_folders("a/b/") == ["c"]
    assert store.list_folders("a/b/c/") == []
    assert store.list_folders("nothing/") == []


# --- odd names ------------------------------------------------------------------------------------


def test_odd_names_are_names_like_any_other(store):
    for key in ODD_KEYS:
        store.put(key, key.encode(), if_absent=True)
    assert keys_of(store.list("")) == sorted(ODD_KEYS, key=str.encode)
    assert store.get_many(ODD_KEYS) == [key.encode() for key in ODD_KEYS]
    folders = {key.split("/")[0] for key in ODD_KEYS if "/" in key}
    assert store.list_folders("") == sorted(folders, key=str.encode)
    for key in ODD_KEYS:
        body = key.encode()
        assert store.get(key) == body
        assert store.get(key, start=1, end=3) == body[1:3]
        assert store.head(key).size_bytes == len(body)
        assert store.open_input(key).read() == body
        with pytest.raises(ObjectExists):
            store.put(key, b"other", if_absent=True)
    for key in ODD_KEYS:
        if "/" in key:
            prefix = key.rpartition("/")[0] + "/"
            assert keys_of(store.list(prefix)) == [key]
    half = len(ODD_KEYS) // 2
    store.delete(ODD_KEYS[:half])
    store.delete(ODD_KEYS[half:], ordered=False)
    assert list(store.list("")) == []


def test_a_key_outside_the_grammar_goes_nowhere(store):
    store.put("b", b"1")
    store.put("w/b", b"1")
    for key in BAD_KEYS:
        calls = [
            partial(store.put, key, b"x"),
            partial(store.put, key, b"x", if_absent=True),
            partial(store.get, key),
            partial(store.get, key, start=0, end=1),
            partial(store.get_many, ["b", key]),
            partial(store.head, key),
            partial(store.delete, [key]),
            partial(store.delete, [key], ordered=False),
            partial(store.open_input, key, size_bytes=1),
            partial(store.object_url, key),
            partial(store.list, key + "/"),
            partial(store.list_folders, key + "/"),
        ]
        for call in calls:
            with pytest.raises(InvalidPath):
                raise AssertionError(f"{key!a}: {call} gave {call()}")
    assert keys_of(store.list("")) == ["b", "w/b"]


def test_a_listing_prefix_without_its_slash_is_refused(store):
    for call in (store.list, store.list_folders):
        with pytest.raises(InvalidPath, match="'/'"):
            call("w")
