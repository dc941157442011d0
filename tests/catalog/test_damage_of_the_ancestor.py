"""The ancestor's list of damage: what a reader says of each, and that nothing is wiped.

With `test_state.py`, `test_chain.py`, `test_checkpointing.py`, `test_checkpoint_in_use.py`,
`test_listing.py`, `test_listing_in_part.py`, `test_writer.py` and `test_writer_files.py` these are
the ancestor's tests: each thing that they asserted, by the same name.
"""

from __future__ import annotations

import contextlib
import re

import pytest
from damaged_logs import COUNT, at, refused
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.frame import FrameKind, LogIdentity, encode_frame
from lakelog.catalog.format.objects import decode_transaction, encode_transaction
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    BrokenChain,
    CorruptError,
    CorruptObject,
    ForkError,
    LakelogError,
    SnapshotPruned,
    UnsupportedFeature,
)
from lakelog.testing.doubles import PassingStore
from lakelog.testing.keys import drop_mirror, log_keys
from table_cases import table, values

LOG = LogIdentity(bytes(16), 1)


def rewrite(store, key, change):
    """Write a transaction anew with a change in its message, soundly framed."""
    decoded = decode_transaction(store.get(key), key)
    change(decoded.message)
    store.put(key, encode_transaction(decoded.log, decoded.message)[0])


def test_version_mismatch(store, six_commits):
    """A format version of the future, with a sound digest."""
    import hashlib

    body = bytearray(store.get(six_commits[3]))
    body[4] = 2
    body[48:80] = hashlib.sha256(body[:48] + body[80:]).digest()
    store.put(six_commits[3], bytes(body))
    with pytest.raises(UnsupportedFeature, match="format version 2") as caught:
        values(store)
    assert caught.value.key == six_commits[3]
    assert values(store, {"w": 2}) == [0, 1, 2]


def test_wrong_revision(store, six_commits):
    rewrite(store, six_commits[3], lambda message: setattr(message, "revision", 9))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_wrong_uuid(store, six_commits):
    rewrite(store, six_commits[3], lambda message: setattr(message, "uuid", bytes(16)))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_missing_uuid(store, six_commits):
    rewrite(store, six_commits[3], lambda message: message.ClearField("uuid"))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_broken_uuid(store, six_commits):
    rewrite(store, six_commits[3], lambda message: setattr(message, "uuid", b"foo"))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_wrong_link_at_the_start(store, six_commits):
    rewrite(store, six_commits[0], lambda message: setattr(message, "previous_uuid", b"\1" * 16))
    refused(store, CorruptObject, six_commits[0])


def test_wrong_link_in_the_middle(store, six_commits):
    rewrite(store, six_commits[3], lambda message: setattr(message, "previous_uuid", b"\1" * 16))
    refused(store, BrokenChain, six_commits[3], "up to 2")


def test_broken_link(store, six_commits):
    rewrite(store, six_commits[3], lambda message: setattr(message, "previous_uuid", b"foo"))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_a_transaction_written_anew_breaks_the_chain_behind_it(store, six_commits):
    """Sound in itself, same name, same uuid: only the digest in its successor tells."""

    def change(message):
        message.commit.members[0].summary["forged"] = "yes"

    rewrite(store, six_commits[3], change)
    refused(store, BrokenChain, six_commits[4], "up to 3")


def test_broken_protobuf(store, six_commits):
    store.put(six_commits[3], encode_frame(FrameKind.TRANSACTION, LOG, b"\xff\xff no message")[0])
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_missing_timestamp(store, six_commits):
    rewrite(store, six_commits[3], lambda message: message.commit.ClearField("committed_at_us"))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_broken_timestamp(store, six_commits):
    rewrite(store, six_commits[3], lambda message: setattr(message.commit, "committed_at_us", -5))
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_wrong_encoding_for_the_suffix(catalog, store, six_commits):
    """A checkpoint under a transaction's name, and the other way round."""
    with catalog.writer("w", "db") as writer:
        info = writer.checkpoint()
    drop_mirror(store)
    checkpoint, transaction = store.get(info.key), store.get(six_commits[5])
    store.put(six_commits[5], checkpoint)
    store.delete([info.key])
    refused(store, CorruptObject, six_commits[5], "up to 4")
    store.put(six_commits[5], transaction)
    store.put(info.key, transaction)
    with pytest.warns(UserWarning, match=re.escape(info.key)):
        assert values(store) == list(range(COUNT))


def test_broken_encoding_for_the_suffix(store, six_commits):
    body = store.get(six_commits[3])
    store.put(six_commits[3], encode_frame(FrameKind.SEGMENT, LOG, b"", body)[0])
    refused(store, CorruptObject, six_commits[3], "up to 2")


def test_fork_by_transaction(store, six_commits):
    rival = re.sub(r"\.[0-9a-f]{8}\.", ".00000000.", six_commits[3])
    store.put(rival, store.get(six_commits[3]))
    with pytest.raises(ForkError) as caught:
        values(store)
    assert sorted(caught.value.keys) == sorted([six_commits[3], rival])
    assert values(store, {"w": 2}) == [0, 1, 2]
    assert values(store, at(1)) == [0, 1]


def test_fork_by_checkpoint(catalog, store, six_commits):
    with catalog.writer("w", "db") as writer:
        info = writer.checkpoint()
    rival = re.sub(r"\.[0-9a-f]{8}\.", ".00000000.", info.key)
    store.put(rival, store.get(info.key))
    with pytest.raises(ForkError) as caught:
        values(store)
    assert rival in caught.value.keys


def test_unsupported_upgrade(store, six_commits):
    def change(message):
        message.actions.add().upgrade.required_reader_features.append("time-machine")

    rewrite(store, six_commits[5], change)
    with pytest.raises(UnsupportedFeature, match="time-machine") as caught:
        values(store)
    assert caught.value.key == six_commits[5]
    assert "read a revision before it" in caught.value.hint
    assert values(store, {"w": 4}) == [0, 1, 2, 3, 4]
    with pytest.raises(UnsupportedFeature):
        Catalog(store).writer("w", "db")


def test_an_upgrade_for_writers_stops_writers_alone(store, six_commits):
    def change(message):
        message.actions.add().upgrade.required_writer_features.append("time-machine")

    rewrite(store, six_commits[5], change)
    assert values(store) == list(range(COUNT))
    with pytest.raises(UnsupportedFeature, match="time-machine"):
        Catalog(store).writer("w", "db")


def test_a_delete_of_no_table_is_damage(store, six_commits):
    def change(message):
        message.actions.add().tombstone.predicate = "a > 1"

    rewrite(store, six_commits[5], change)
    with pytest.raises(CorruptObject, match="no table"):
        values(store)
    assert values(store, {"w": 4}) == [0, 1, 2, 3, 4]


def test_an_action_that_does_not_fit_costs_its_table_alone(catalog, store, six_commits):
    """The revision exists, and other tables can be read at it; the table can be read before it."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer, writer.transaction() as tx:
        tx.write("u", table(7))

    def change(message):
        message.actions.append(wire.Action(remove=wire.Remove(path="data/never/was", table="t")))

    sixth = log_keys(store)[-1]
    rewrite(store, sixth, change)
    with pytest.raises(CorruptObject, match="data/never/was") as caught:
        values(store)
    assert caught.value.key == sixth
    assert Catalog(store).snapshot("db").to_arrow("u").column("a").to_pylist() == [7]
    assert values(store, {"w": 5}) == list(range(COUNT))


JUNK = [
    "README.md",
    ".hidden",
    "00000000000000000009.deadbeef.transaction",
    "998-999999999996-3",
    "998-999999999990-9.deadbeef.transaction.tmp",
    "998-999999999990-9.DEADBEEF.transaction",
    "backup/998-999999999990-9.deadbeef.transaction",
    "998-999999999990-09.deadbeef.transaction",
    "998-999999999990-8.deadbeef.transaction",
    "999-999999999990-9.deadbeef.transaction",
    "998-999999999990-9.deadbeef.parquet",
    "zzz",
]


def test_junk_names_are_ignored_and_survive(catalog, store, six_commits):
    keys = [f"w/db/transactions/{name}" for name in JUNK] + ["w/db/transactions-old/x", "w/x", "y"]
    for key in keys:
        store.put(key, b"junk")
    assert values(store) == list(range(COUNT))
    with catalog.writer("w", "db", checkpoint_every=1) as writer, writer.transaction() as tx:
        tx.write("t", table(COUNT))
    assert values(store) == list(range(COUNT + 1))
    assert catalog.databases() == ["db"]
    assert all(store.get(key) == b"junk" for key in keys)


def test_a_sibling_prefix_is_another_log(catalog, store, six_commits):
    """`w2` and `db2` begin with the names of `w` and `db`."""
    for writer_id, database in (("w2", "db"), ("w", "db2")):
        with catalog.writer(writer_id, database) as writer, writer.transaction() as tx:
            tx.write("t", table(100))
    assert values(store, {"w": 5}) == list(range(COUNT))
    assert catalog.writers("db") == ["w", "w2"]


def test_wipe_of_nothing_of_a_normal_and_of_a_broken_catalog(catalog, store, six_commits):
    """There is no wipe: nothing deletes a log but its owner. Then the name is free again."""
    for broken in (False, True):
        if broken:
            drop_mirror(store)
            store.put(next(iter(store.list("w/db/transactions/"))).key, b"damage")
            with pytest.raises(CorruptError):
                values(store)
        store.delete([item.key for item in store.list("w/")])
        with catalog.writer("w", "db") as writer:
            assert writer.revision == -1
            with writer.transaction() as tx:
                tx.write("t", table(7))
        assert values(store) == [7]


def test_a_failed_load_changes_nothing_in_the_store(store, six_commits):
    class ReadOnly(PassingStore):
        def put(self, key, body, *, if_absent=False):
            assert "/_probe/" in key
            super().put(key, body, if_absent=if_absent)

        def delete(self, keys, *, ordered=True):
            every = list(keys)
            assert all("/_probe/" in key for key in every)
            super().delete(every, ordered=ordered)

    for key in six_commits:
        body = store.get(key)
        for damage in (b"", body[:50], None):
            if damage is None:
                store.delete([key])
            else:
                store.put(key, damage)
            before = [(item.key, item.size_bytes) for item in store.list("")]
            # Without its last transaction the log is sound.
            fails = key != six_commits[-1] or damage is not None
            error = pytest.raises(LakelogError) if fails else contextlib.nullcontext()
            with error:
                Catalog(ReadOnly(store)).snapshot("db")
            if fails:
                with error:
                    Catalog(ReadOnly(store)).writer("w", "db")
            assert [(item.key, item.size_bytes) for item in store.list("")] == before
        store.put(key, body)


def test_a_store_wiped_to_its_last_checkpoint_still_loads(catalog, store, six_commits):
    with catalog.writer("w", "db") as writer:
        info = writer.checkpoint()
    drop_mirror(store)
    store.delete([item.key for item in store.list("w/db/transactions/") if item.key != info.key])
    assert values(store) == list(range(COUNT))
    with pytest.raises(SnapshotPruned):
        values(store, {"w": 2})
