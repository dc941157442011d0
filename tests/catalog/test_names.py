"""Names and keys: what may be called how, and that nothing is lost on the way to a key and back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import (
    MAX_PATH_BYTES,
    MAX_REVISION,
    MAX_SEGMENT_BYTES,
    DataFile,
    LogObject,
    base_folder,
    check_id,
    check_path,
    data_path,
    escape_name,
    first_slot_uuid,
    is_id,
    log_folder,
    name_prefix,
    parse_data_file,
    parse_log_object,
    parse_segment_name,
    rebuilt_slot_uuid,
    segment_name,
    segments_folder,
    successor_uuid,
    unescape_name,
)
from lakelog.errors import InvalidName, InvalidPath
from lakelog.store.keys import check_key

ID = b"\x00\x01" + b"\xab" * 14
REVISIONS = st.integers(0, MAX_REVISION)
INCARNATIONS = st.integers(1, 999)
UUID8 = st.text("0123456789abcdef", min_size=8, max_size=8)
NASTY = [
    ".",
    "..",
    "...",
    "%",
    "%2E",
    "%2e%2e",
    "a/b",
    "/",
    "\\",
    "a\\b",
    "_",
    "%5F",
    "\x00",
    "\n",
    "\x1f",
    "\x7f",
    "\x80",
    "a b",
    " ",
    "ü",
    "u\u0308",
    "日本語",
    "🦆",
    "\u202e",
    "\ufeff",
    "CON",
    "a=b",
    "x" * 255,
]


# --- Names of log objects -----------------------------------------------------------------------


@given(INCARNATIONS, REVISIONS, UUID8, st.sampled_from(["transaction", "checkpoint"]))
def test_log_object_names_round_trip(incarnation, revision, uuid8, kind):
    item = LogObject(incarnation, revision, uuid8, kind)
    assert parse_log_object(item.name) == item
    complement = MAX_REVISION - revision
    assert item.name == f"{999 - incarnation:03}-{complement:012}-{revision}.{uuid8}.{kind}"
    assert item.name.startswith(name_prefix(incarnation, revision) + ".")
    assert item.name.startswith(name_prefix(incarnation))


def test_the_example_of_the_text():
    name = "998-999999999987-12.bdb70c0a.transaction"
    assert parse_log_object(name) == LogObject(1, 12, "bdb70c0a", "transaction")


@given(st.lists(st.tuples(INCARNATIONS, REVISIONS, UUID8), min_size=2, max_size=8))
def test_the_newest_name_sorts_first(triples):
    items = [LogObject(*triple, "transaction") for triple in triples]
    ordered = [parse_log_object(name) for name in sorted(item.name for item in items)]
    places = [(item.incarnation, item.revision) for item in ordered]
    assert places == sorted(places, reverse=True)


def test_a_checkpoint_sorts_before_the_transaction_of_its_revision():
    both = [LogObject(1, 7, "0123abcd", kind).name for kind in ("checkpoint", "transaction")]
    assert sorted(both) == both


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "998-999999999998-1.0123abcd.transaction.tmp",
        "998-999999999998-1.0123abcd.transactio",
        "998-999999999998-1.0123abcd.segment",
        "998-999999999998-1.0123ABCD.transaction",
        "998-999999999998-1.0123abc.transaction",
        "998-999999999998-1.0123abcd.transaction\n",
        "998-99999999998-1.0123abcd.transaction",
        "998-0999999999998-1.0123abcd.transaction",
        "998-999999999998-01.0123abcd.transaction",
        "998-999999999998-+1.0123abcd.transaction",
        "998-999999999998-2.0123abcd.transaction",
        "998-999999999999-1.0123abcd.transaction",
        "998-999999999998-.0123abcd.transaction",
        "999-999999999998-1.0123abcd.transaction",
        "0998-999999999998-1.0123abcd.transaction",
        "98-999999999998-1.0123abcd.transaction",
        "٩98-999999999998-1.0123abcd.transaction",
        "998-999999999998-١.0123abcd.transaction",
        "sub/998-999999999998-1.0123abcd.transaction",
        " 998-999999999998-1.0123abcd.transaction",
        "00000000000000000001.0123abcd.transaction",
    ],
)
def test_foreign_names_are_not_log_objects(name):
    assert parse_log_object(name) is None


def test_the_first_and_the_last_of_all_numbers():
    assert parse_log_object("000-000000000000-999999999999.0123abcd.checkpoint") == LogObject(
        999, MAX_REVISION, "0123abcd", "checkpoint"
    )
    assert parse_log_object("998-999999999999-0.0123abcd.transaction") == LogObject(
        1, 0, "0123abcd", "transaction"
    )


@given(st.text(max_size=60))
def test_any_parsed_name_is_the_name_of_what_it_parsed_to(name):
    item = parse_log_object(name)
    assert item is None or item.name == name


@given(st.binary(min_size=32, max_size=32))
def test_segment_names_round_trip(digest):
    assert parse_segment_name(segment_name(digest)) == digest


@pytest.mark.parametrize(
    "name",
    ["", "0" * 64, "0" * 63 + ".segment", "0" * 65 + ".segment", "A" * 64 + ".segment",
     "0" * 64 + ".segment\n", "x/" + "0" * 64 + ".segment", "0" * 64 + ".segment.tmp"],
)  # fmt: skip
def test_foreign_names_are_not_segments(name):
    assert parse_segment_name(name) is None


# --- Ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", ["a", "EWR", "a-b_c", "0", "x" * 64, "a_", "a-"])
def test_good_ids(good):
    assert check_id(good, "writer") == good
    assert is_id(good)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "_a",
        "-",
        "-a",
        "_refs",
        "x" * 65,
        "a b",
        "a/b",
        "..",
        ".",
        "a.b",
        "ü",
        "a\n",
        "a\x00",
        "%41",
        "١",
    ],
)
def test_bad_ids(bad):
    assert not is_id(bad)
    with pytest.raises(InvalidName) as caught:
        check_id(bad, "writer")
    assert caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("bad", [None, 7, b"EWR"])
def test_ids_that_are_no_text(bad):
    with pytest.raises(InvalidName):
        check_id(bad, "database")


# --- Table and partition names ------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY)
def test_nasty_names_become_one_safe_segment_and_come_back(name):
    segment = escape_name(name, "table")
    assert unescape_name(segment) == name
    assert "/" not in segment
    assert "\\" not in segment
    assert segment not in ("", ".", "..")
    assert not any(ord(char) < 0x20 or ord(char) == 0x7F for char in segment)
    check_path(f"data/{segment}/x.parquet")
    check_key(f"w/db/data/{segment}/x.parquet")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_every_name_comes_back_and_no_two_share_a_segment(name):
    segment = escape_name(name, "table")
    assert unescape_name(segment) == name
    check_path(f"data/{segment}/x")
    if name not in (".", ".."):
        assert escape_name(segment, "table") == segment.replace("%", "%25")


@given(st.text(max_size=6), st.text(max_size=6))
def test_different_names_have_different_segments(left, right):
    try:
        segments = escape_name(left, "table"), escape_name(right, "table")
    except InvalidName:
        return
    assert (segments[0] == segments[1]) == (left == right)


def test_names_are_neither_normalized_nor_folded():
    assert escape_name("Ä", "table") == "Ä"
    assert escape_name("A\u0308", "table") == "A\u0308"
    assert escape_name("ä", "table") != escape_name("Ä", "table")


@pytest.mark.parametrize("bad", ["", "\ud800", "a\udcff", "x" * 256, "ü" * 128, "%" * 86, None, 3])
def test_names_that_no_key_can_hold(bad):
    with pytest.raises(InvalidName) as caught:
        escape_name(bad, "table")
    str(caught.value).encode()  # the message itself can be printed


def test_the_longest_names_fit_together():
    long = "x" * MAX_SEGMENT_BYTES
    path = data_path(long, long, 10**18, ID, 999_999_999)
    assert len(base_folder("w" * 64, "d" * 64) + path) <= 1024


# --- Paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "good",
    [
        "data/a",
        "data/a/b/c.parquet",
        "data/ü/日本語.parquet",
        "data/hour=3/x",
        "data/.hidden",
        "data/...",
        "data/a..b",
        "data/%2E%2E/x",
        "data/" + "x" * 255,
        "data/\x80",
        "data/a b",
    ],
)
def test_good_paths(good):
    assert check_path(good) == good
    check_key(good)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "data",
        "data/",
        "/data/x",
        "Data/x",
        "data//x",
        "data/x/",
        "data/.",
        "data/..",
        "data/../x",
        "data/x/../../../w2/db/data/secret",
        "data/./x",
        "data/x\\y",
        "data/x\x00",
        "data/x\ny",
        "data/\x7f",
        "data/\ud800",
        "data/" + "x" * 256,
        "data/" + "ü" * 128,
        "data/" + "x/" * 500 + "x",
        "s3://bucket/data/x",
        "transactions/00000000000000000000.00000000.transaction",
        "../data/x",
        None,
        7,
    ],
)
def test_bad_paths(bad):
    with pytest.raises(InvalidPath) as caught:
        check_path(bad)
    assert caught.value.hint


@pytest.mark.parametrize("path", [pa.scalar("data/x"), Path("data/x"), b"data/x", 7], ids=repr)
def test_what_is_no_text_is_no_path_and_the_error_says_that(path):
    with pytest.raises(InvalidPath, match=f"is a {type(path).__name__}") as caught:
        check_path(path)
    assert "below" not in str(caught.value)
    assert ".as_py()" in caught.value.hint


def test_the_length_of_a_path_is_counted_in_bytes():
    def path(size):
        body = "data/" + "/".join(["x" * 200] * 4) + "/"
        return body + "y" * (size - len(body))

    assert check_path(path(MAX_PATH_BYTES))
    with pytest.raises(InvalidPath):
        check_path(path(MAX_PATH_BYTES + 1))


@given(st.text(st.sampled_from("data/.\\%x\x00\x7f\x80ü"), max_size=24).map("data/".__add__))
def test_a_good_path_is_a_good_key(path):
    try:
        check_path(path)
    except InvalidPath:
        return
    check_key(f"w/db/{path}")
    assert not {"", ".", ".."} & set(path.split("/"))


# --- Data files ---------------------------------------------------------------------------------


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.integers(1, 2**62 - 1),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 999_999_999),
)
def test_data_paths_say_epoch_transaction_and_number(partition, table, epoch, mark, number):
    path = data_path(partition, table, epoch, mark, number)
    assert parse_data_file(path) == DataFile(epoch, mark, number)
    _, folder, name, _ = path.split("/")
    assert unescape_name(name) == table
    assert ("" if folder == "_" else unescape_name(folder)) == partition


def test_the_empty_partition_and_one_called_underscore_are_two():
    paths = {data_path(name, "t", 1, ID, 0) for name in ("", "_", "%5F")}
    assert len(paths) == 3


@pytest.mark.parametrize(
    "path",
    [
        "data/_/t/x.parquet",
        "data/_/t/0-" + "ab" * 16 + "-0.parquet",
        "data/_/t/01-" + "ab" * 16 + "-0.parquet",
        "data/_/t/1-" + "AB" * 16 + "-0.parquet",
        f"data/_/t/{2**62}-" + "ab" * 16 + "-0.parquet",
        "data/_/t/1-" + "ab" * 15 + "-0.parquet",
        "data/_/t/1-" + "ab" * 16 + "-0.parquet.tmp",
        "data/_/t/1-" + "ab" * 16 + "-٣.parquet",
    ],
)
def test_foreign_data_files_have_no_epoch(path):
    assert parse_data_file(path) is None


# --- Folders and the first slot -----------------------------------------------------------------


def test_folders_end_in_a_slash_so_that_no_sibling_prefix_matches():
    assert log_folder("w", "db") == "w/db/transactions/"
    assert segments_folder("w", "db") == "w/db/segments/"
    assert base_folder("w", "db") == "w/db/"


def test_the_first_slot_is_derived_alike_by_everyone_and_differs_by_log():
    assert first_slot_uuid("w", "db") == first_slot_uuid("w", "db")
    marks = {first_slot_uuid(*pair) for pair in [("w", "db"), ("wd", "b"), ("db", "w"), ("w", "x")]}
    assert len(marks) == 4
    assert all(len(mark) == 16 for mark in marks)


def test_slot_uuids_are_those_of_the_text():
    seed = bytes(range(16))

    def digest(text, number):
        return hashlib.sha256(text + seed + number.to_bytes(8, "little")).digest()[:16]

    assert first_slot_uuid("EWR", "weather").hex() == "648025039cb2e4bf77d9869cccf3fdad"
    for revision in (0, 1, 255, 256, MAX_REVISION):
        assert successor_uuid(seed, revision) == digest(b"lakelog successor", revision)
        assert rebuilt_slot_uuid(seed, revision) == digest(b"lakelog rebuild", revision)
