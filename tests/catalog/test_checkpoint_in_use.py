"""Reading from checkpoints: what a broken one costs, and that a sound one is all that is needed."""

from __future__ import annotations

import warnings
from unittest import mock

import pytest
from checkpoint_cases import fill, keys, revisions
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.objects import decode_checkpoint, encode_checkpoint
from lakelog.catalog.format.segments import FILES
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import CorruptObject, UnsupportedFeature
from lakelog.testing.counting import CountingStore
from lakelog.testing.keys import drop_mirror
from lakelog.testing.logs import live_paths
from table_cases import values, write

# --- A reader and a broken checkpoint -------------------------------------------------------------


def damage(store, key, how):
    body = store.get(key)
    if how == "flipped bit":
        store.put(key, body[:-9] + bytes([body[-9] ^ 1]) + body[-8:])
    elif how == "cut":
        store.put(key, body[: len(body) // 2])
    elif how == "empty":
        store.put(key, b"")
    elif how == "another object":
        store.put(key, store.get(keys(store, ".transaction")[0]))
    else:
        store.delete([key])


HOW = ["flipped bit", "cut", "empty", "another object"]


@pytest.mark.parametrize("how", HOW)
def test_a_broken_newest_checkpoint_falls_back_with_a_warning(catalog, store, how):
    fill(catalog, 8, checkpoint_every=3)
    assert revisions(store) == [2, 5]
    damage(store, keys(store, "checkpoint")[1], how)
    instead = "reading an older checkpoint and more of the log instead"
    with pytest.warns(CheckpointWarning) as caught:
        assert values(store) == list(range(8))
    (text,) = (str(warning.message) for warning in caught)
    assert text.startswith("w/db/transactions/998-999999999994-5.")
    assert text.endswith(instead)
    damage(store, keys(store, "checkpoint")[0], how)
    with pytest.warns(CheckpointWarning) as caught:
        assert values(store) == list(range(8))
    both = [str(warning.message) for warning in caught]
    assert [text.split(".")[0].rsplit("-", 1)[1] for text in both] == ["5", "2"]
    assert all(text.endswith(instead) for text in both)


@pytest.mark.parametrize("how", [*HOW, "lost"])
def test_a_broken_segment_is_a_broken_checkpoint(catalog, store, how, spilling):
    fill(catalog, 8, checkpoint_every=3)
    (key,) = (
        f"w/db/segments/{piece.name}"
        for piece in LogReader(store, "w", "db").load().pieces
        if piece.kind == FILES
    )
    damage(store, key, how)
    with pytest.warns(CheckpointWarning, match=key):
        assert values(store) == list(range(8))


def test_a_broken_checkpoint_nobody_needs_is_not_noticed(catalog, store):
    fill(catalog, 8, checkpoint_every=3)
    damage(store, keys(store, "checkpoint")[0], "cut")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(store) == list(range(8))


@pytest.mark.parametrize("how", HOW)
def test_the_only_checkpoint_of_a_pruned_log_broken_says_so(catalog, store, how):
    fill(catalog, 8, checkpoint_every=6)
    store.delete(keys(store, ".transaction")[:6])
    assert values(store) == list(range(8))
    (key,) = keys(store, "checkpoint")
    damage(store, key, how)
    drop_mirror(store)
    with pytest.raises(CorruptObject, match="No usable checkpoint of w/db up to") as caught:
        values(store)
    assert caught.value.key == key
    assert caught.value.exit_code == 5
    assert "Revisions 5-7 are there" in caught.value.hint
    assert "rebuild" in caught.value.hint


def test_a_writer_opens_on_a_broken_checkpoint_and_writes_a_sound_one(catalog, store):
    fill(catalog, 6, checkpoint_every=6)
    damage(store, keys(store, "checkpoint")[0], "cut")
    with pytest.warns(CheckpointWarning):
        writer = catalog.writer("w", "db", checkpoint_every=1)
    write(writer, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(store) == list(range(7))


def test_a_checkpoint_of_the_future_is_refused_and_not_passed_over(catalog, store):
    """Falling back would read a log that this version may not understand."""
    fill(catalog, 3, checkpoint_every=3)
    (key,) = keys(store, "checkpoint")
    decoded = decode_checkpoint(store.get(key), key)
    decoded.message.required_reader_features.append("time-machine")
    body, _ = encode_checkpoint(decoded.log, decoded.message, bytes(decoded.attachments))
    store.put(key, body)
    with pytest.raises(UnsupportedFeature, match="time-machine"):
        values(store)


# --- A checkpoint is all that is needed -----------------------------------------------------------


@pytest.mark.parametrize("spill", [False, True])
def test_a_checkpoint_loads_with_every_earlier_transaction_deleted(catalog, store, spill):
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0 if spill else 1 << 20):
        fill(catalog, 5, checkpoint_every=5)
    before = LogReader(store, "w", "db").load()
    store.delete(keys(store, ".transaction"))
    after = LogReader(store, "w", "db").load()
    assert live_paths(after) == live_paths(before)
    assert after.history.table().equals(before.history.table())
    assert after.next_uuid == before.next_uuid
    assert values(store) == list(range(5))


def test_a_checkpoint_alone_is_enough_to_exist_and_to_go_on(catalog, store):
    fill(catalog, 5, checkpoint_every=5)
    store.delete(keys(store, ".transaction"))
    assert catalog.databases() == ["db"]
    assert catalog.writers("db") == ["w"]
    with catalog.writer("w", "db") as writer:
        assert write(writer, 5).revision == 5
    assert values(store) == list(range(6))


def test_a_writer_of_a_pruned_log_leaves_the_pruned_history_out(catalog, store, spilling):
    """A piece of history goes once all of it was pruned."""
    fill(catalog, 6, checkpoint_every=3)
    store.delete(keys(store, ".transaction")[:3] + keys(store, "checkpoint")[:1])
    with catalog.writer("w", "db") as writer:
        for value in range(6, 12):
            write(writer, value)
            writer.checkpoint()
        store.delete(keys(store, ".transaction") + keys(store, "checkpoint")[:-1])
        writer_rows = LogReader(store, "w", "db").load().history.table()
    revisions_left = writer_rows.column("revision").to_pylist()
    assert revisions_left == list(range(revisions_left[0], 12))
    assert 0 < revisions_left[0] <= 5, "what was pruned goes, what was left stays"


def test_what_a_checkpoint_costs(catalog, store, spilling):
    fill(catalog, 3)
    counting = CountingStore(store)
    with Catalog(counting).writer("w", "db") as writer:
        counting.reset()
        info = writer.checkpoint()
        assert counting.reset()["put"] == 1 + info.segments
    counting = CountingStore(store)
    LogReader(counting, "w", "db").load()
    assert counting.reset() == {
        "put": 0,
        "get": 1 + 1,  # the checkpoint, and the beginning of its transaction
        "list": 1,
        "head": 0,
        "delete": 0,
    }
