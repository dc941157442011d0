"""A checkpoint beside the transaction of its own revision: one of a history that was lost, and
committed anew under the same name, is no base, neither for readers nor for writers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.frame import FrameKind, decode_frame, encode_frame
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import CorruptObject
from lakelog.testing.keys import drop_mirror, log_keys
from table_cases import values, write


@pytest.fixture
def replaced(catalog, store):
    """A log of three commits, the last of which was lost and made anew; then its old checkpoint
    comes back. Gives that one's key."""
    writer = catalog.writer("w", "db", checkpoint_every=0)
    for value in range(3):
        write(writer, value)
    key = writer.checkpoint().key
    body = store.get(key)
    own = key.removesuffix("checkpoint") + "transaction"
    store.delete([key, own])
    write(catalog.writer("w", "db", checkpoint_every=0), 222)
    assert own in log_keys(store), "the same name"
    store.put(key, body)
    return key


def test_readers_go_by_what_is_listed(store, replaced):
    with pytest.warns(CheckpointWarning, match="another history") as told:
        assert values(store) == [0, 1, 222]
    assert len(told) == 1
    assert replaced in str(told[0].message)
    with pytest.warns(CheckpointWarning):
        assert values(store, {"w": 2}) == [0, 1, 222]


@pytest.mark.parametrize("shared", [False, True])
def test_nobody_commits_on_it(store, catalog, replaced, shared):
    with pytest.warns(CheckpointWarning):
        writer = catalog.writer("w", "db", shared=shared)
    write(writer, 5)
    writer.checkpoint()
    assert values(store) == [0, 1, 5, 222]


def test_without_another_base_it_is_refused(store, catalog, replaced):
    store.delete(log_keys(store, "transaction")[:1])
    drop_mirror(store)
    with pytest.raises(CorruptObject, match="another history") as caught:
        values(store)
    assert caught.value.key == replaced
    with pytest.raises(CorruptObject):
        catalog.writer("w", "db")


def test_a_damaged_transaction_proves_nothing(store, replaced):
    """The checkpoint stands in for it, as it always did."""
    own = log_keys(store, "transaction")[-1]
    store.put(own, store.get(own)[:-1] + b"\0")
    assert values(store) == [0, 1, 2]


def test_a_transaction_that_is_pruned_meanwhile_proves_nothing(store, catalog):
    writer = catalog.writer("w", "db", checkpoint_every=0)
    write(writer, 1)
    writer.checkpoint()
    log = LogReader(store, "w", "db")
    listing = log.names()
    store.delete(log_keys(store, "transaction"))
    assert log.load(listing=listing).revision == 0


def test_the_other_parts_of_a_state_go_by_it_too(store, replaced, catalog):
    """What is asked for later of a state from a lower base is not taken from the checkpoint."""
    with pytest.warns(CheckpointWarning):
        state = LogReader(store, "w", "db").load()
    assert state.history.table().num_rows == 3
    with pytest.warns(CheckpointWarning):
        assert Catalog(store).history("db").num_rows == 3


def test_pieces_are_held_against_the_log_of_their_own_checkpoint(store, catalog, monkeypatch):
    """The newest checkpoint says that it is of another log: what a lower one refers to still
    counts, also where it is read later, as statistics are."""
    monkeypatch.setattr(checkpoint_files, "SPILL_FROM_BYTES", 0)
    writer = catalog.writer("w", "db", checkpoint_every=0)
    write(writer, 1)
    writer.checkpoint()
    write(writer, 2)
    key = writer.checkpoint().key
    known = Catalog(store).snapshot("db").statistics("t")
    frame = decode_frame(store.get(key), FrameKind.CHECKPOINT, key, incarnation=1)
    stranger = replace(frame.log, log_id=bytes(16))
    body, _ = encode_frame(FrameKind.CHECKPOINT, stranger, frame.message, frame.attachments)
    store.delete([key, log_keys(store, "transaction")[0]])
    store.put(key, body)
    with pytest.warns(CheckpointWarning, match="belongs to another log"):
        assert Catalog(store).snapshot("db").statistics("t") == known
    assert known.num_rows
