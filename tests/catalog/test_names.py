"""Names and keys: what may be called how, and that nothing is lost on the way to a key and back."""

from __future__ import annotations

import hashlib
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import (
    MAX_REVISION,
    MAX_SEGMENT_BYTES,
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
    parse_log_object,
    parse_segment_name,
    rebuilt_slot_uuid,
    segment_name,
    segments_folder,
    successor_uuid,
)
from lakelog.errors import InvalidName
from lakelog.store.base import check_key

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


# --- Names of log objects -------------------------------------------------------------------------


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


# --- Ids ------------------------------------------------------------------------------------------


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


# --- Table and partition names --------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY)
def test_nasty_names_become_one_safe_segment_and_come_back(name):
    segment = escape_name(name, "table")
    assert unquote(segment) == name
    assert "/" not in segment
    assert "\\" not in segment
    assert segment not in ("", ".", "..")
    assert not any(ord(char) < 0x20 or ord(char) == 0x7F for char in segment)
    check_path(f"data/{segment}/x.parquet")
    check_key(f"w/db/data/{segment}/x.parquet")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_every_name_comes_back_and_no_two_share_a_segment(name):
    segment = escape_name(name, "table")
    assert unquote(segment) == name
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


# --- Folders and the first slot -------------------------------------------------------------------


def test_folders_end_in_a_slash_so_that_no_sibling_prefix_matches():
    assert log_folder("w", "db") == "w/db/transactions/"
    assert segments_folder("w", "db") == "w/db/segments/"
    assert base_folder("w", "db") == "w/db/"


def test_the_first_slot_is_derived_alike_by_everyone_and_differs_by_log():
    assert first_slot_uuid("w", "db") == first_slot_uuid("w", "db")
    uuids = {first_slot_uuid(*pair) for pair in [("w", "db"), ("wd", "b"), ("db", "w"), ("w", "x")]}
    assert len(uuids) == 4
    assert all(len(uuid) == 16 for uuid in uuids)


def test_slot_uuids_are_those_of_the_text():
    seed = bytes(range(16))

    def digest(text, number):
        return hashlib.sha256(text + seed + number.to_bytes(8, "little")).digest()[:16]

    assert first_slot_uuid("EWR", "weather").hex() == "648025039cb2e4bf77d9869cccf3fdad"
    for revision in (0, 1, 255, 256, MAX_REVISION):
        assert successor_uuid(seed, revision) == digest(b"lakelog successor", revision)
        assert rebuilt_slot_uuid(seed, revision) == digest(b"lakelog rebuild", revision)
