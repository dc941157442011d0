"""Damage in the store: what a reader says of it, what stays readable, and that nothing is wiped.

With `test_state.py`, `test_chain.py`, `test_checkpointing.py`, `test_listing.py` and
`test_writer.py` these are the ancestor's list: each thing that its tests asserted, by the same
name.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.format.frame import FrameKind, LogIdentity, encode_frame
from lakelog.catalog.format.objects import decode_transaction, encode_transaction
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    BrokenChain,
    CorruptError,
    CorruptObject,
    ForkError,
    LakelogError,
    MissingTransaction,
    RevisionNotFound,
    SnapshotPruned,
    UnsupportedFeature,
)
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import START_US, PassingStore
from lakelog.testing.keys import log_keys, revision_in

COUNT = 6
LOG = LogIdentity(bytes(16), 1)


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def filled(catalog, store, fake):
    """A log of six commits, a second apart; returns the keys of its transactions."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for value in range(COUNT):
            with writer.transaction() as tx:
                tx.write("t", table(value))
            fake.move(1)
    return log_keys(store)


def values(store, as_of=None):
    found = Catalog(store).snapshot("db", as_of).to_arrow("t").column("a").to_pylist()
    return sorted(found)


def at(revision, plus_s=0.5):
    """A moment after a revision's commit."""
    return dt.datetime.fromtimestamp(START_US / 1e6 + revision + plus_s, dt.UTC)


def rewrite(store, key, change):
    """Write a transaction anew with a change in its message, soundly framed."""
    decoded = decode_transaction(store.get(key), key)
    change(decoded.message)
    store.put(key, encode_transaction(decoded.log, decoded.message)[0])


def refused(store, error, key, readable=None):
    """Reading the newest state fails by type, names the key and says what stays readable."""
    with pytest.raises(error) as caught:
        values(store)
    found = caught.value
    assert found.exit_code == 5
    assert found.key == key
    assert key in str(found) or key[-20:] in str(found)
    if readable is not None:
        assert readable in str(found)
    with pytest.raises(error):
        Catalog(store).writer("w", "db")
    return found


def test_one_junk_checkpoint_a_trillion_above_costs_a_few_requests(store, filled, fake):
    """Whoever looks downwards steps over names, not over numbers."""
    store.put("w/db/transactions/998-000000000000-999999999999.0badcafe.checkpoint", b"junk")
    counting = CountingStore(store)
    catalog = Catalog(counting, ambient=fake.ambient)
    assert catalog.snapshot("db", at(2)).cut.revisions == {"w": 2}
    assert counting.reset()["list"] < 10
    with pytest.raises(CorruptObject, match="999999999999"):
        catalog.snapshot("db", at(COUNT))
    assert counting.reset()["list"] < 10


# --- Lost and broken transactions ---------------------------------------------------------------


def test_a_lost_transaction_is_named_and_the_rest_stays_readable(store, filled):
    store.delete([filled[3]])
    found = refused(store, MissingTransaction, "w/db/transactions/998-999999999996-3", "0-2")
    assert found.readable == "0-2"
    assert values(store, {"w": 2}) == [0, 1, 2]
    with pytest.raises(MissingTransaction):
        values(store, {"w": 4})


BREAK = {
    "flipped bit": lambda body: body[:70] + bytes([body[70] ^ 4]) + body[71:],
    "cut": lambda body: body[:-1],
    "empty": lambda body: b"",
    "longer": lambda body: body + b"\0",
    "zeros": lambda body: bytes(len(body)),
    "text": lambda body: b"<html>404</html>",
}


@pytest.mark.parametrize("how", BREAK)
def test_a_broken_transaction_is_named_and_the_rest_stays_readable(store, filled, how):
    store.put(filled[3], BREAK[how](store.get(filled[3])))
    refused(store, CorruptObject, filled[3], "up to 2")
    for revision in range(3):
        assert values(store, {"w": revision}) == list(range(revision + 1))
        assert values(store, at(revision, plus_s=0)) == list(range(revision + 1))


def test_earlier_points_in_time_still_read_by_revision_token_and_time(store, filled):
    token = Catalog(store).snapshot("db", {"w": 2}).token
    store.put(filled[3], b"damage")
    expected = [0, 1, 2]
    assert values(store, {"w": 2}) == expected
    assert values(store, token) == expected
    assert values(store, at(2, plus_s=0)) == expected
    assert values(store, at(1)) == [0, 1]


def test_a_time_after_the_damage_is_not_guessed(store, filled):
    """The broken transaction's own commit time is unknown: it may have been before."""
    store.put(filled[3], b"damage")
    for moment in (at(2), at(3), at(4), at(100)):
        with pytest.raises(CorruptObject) as caught:
            values(store, moment)
        assert caught.value.key == filled[3]


def test_a_checkpoint_behind_the_damage_heals_it(catalog, store, filled):
    with catalog.writer("w", "db") as writer:
        writer.checkpoint()
    store.put(filled[3], b"damage")
    assert values(store) == list(range(COUNT))
    assert values(store, at(1)) == [0, 1]
    with pytest.raises(CorruptObject):
        values(store, {"w": 4})


def test_the_last_transaction_lost_is_the_past(store, filled):
    """Nothing in the log knows of it any more; a token does."""
    token = Catalog(store).snapshot("db").token
    store.delete([filled[-1]])
    assert values(store) == list(range(COUNT - 1))
    with pytest.raises(RevisionNotFound):
        values(store, token)


def test_history_of_a_damaged_log_shows_the_rest_with_a_warning(store, filled):
    store.put(filled[3], b"damage")
    with pytest.warns(UserWarning, match=re.escape(filled[3])):
        history = Catalog(store).history("db")
    assert history.column("revision").to_pylist() == [0, 1, 2, 4, 5]
    assert history.column("files_added").to_pylist() == [1] * 5
    assert history.column("rows_added").to_pylist() == [1] * 5


def test_history_of_a_damaged_log_counts_the_files_of_large_commits(catalog, store, filled):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for value in range(300):
            tx.write("t", table(value))
    store.put(filled[3], b"damage")
    with pytest.warns(UserWarning, match="fewer than a header"):
        history = Catalog(store).history("db")
    row = history.to_pylist()[-1]
    assert (row["revision"], row["files_added"], row["rows_added"]) == (6, 300, 300)
    assert row["bytes_added"] > 0


# --- The ancestor's list ------------------------------------------------------------------------


def test_version_mismatch(store, filled):
    """A format version of the future, with a sound digest."""
    import hashlib

    body = bytearray(store.get(filled[3]))
    body[4] = 2
    body[48:80] = hashlib.sha256(body[:48] + body[80:]).digest()
    store.put(filled[3], bytes(body))
    with pytest.raises(UnsupportedFeature, match="format version 2") as caught:
        values(store)
    assert caught.value.key == filled[3]
    assert values(store, {"w": 2}) == [0, 1, 2]


def test_wrong_revision(store, filled):
    rewrite(store, filled[3], lambda message: setattr(message, "revision", 9))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_wrong_uuid(store, filled):
    rewrite(store, filled[3], lambda message: setattr(message, "uuid", bytes(16)))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_missing_uuid(store, filled):
    rewrite(store, filled[3], lambda message: message.ClearField("uuid"))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_broken_uuid(store, filled):
    rewrite(store, filled[3], lambda message: setattr(message, "uuid", b"foo"))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_wrong_link_at_the_start(store, filled):
    rewrite(store, filled[0], lambda message: setattr(message, "previous_uuid", b"\1" * 16))
    refused(store, CorruptObject, filled[0])


def test_wrong_link_in_the_middle(store, filled):
    rewrite(store, filled[3], lambda message: setattr(message, "previous_uuid", b"\1" * 16))
    refused(store, BrokenChain, filled[3], "up to 2")


def test_broken_link(store, filled):
    rewrite(store, filled[3], lambda message: setattr(message, "previous_uuid", b"foo"))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_a_transaction_written_anew_breaks_the_chain_behind_it(store, filled):
    """Sound in itself, same name, same uuid: only the digest in its successor tells."""

    def change(message):
        message.commit.members[0].summary["forged"] = "yes"

    rewrite(store, filled[3], change)
    refused(store, BrokenChain, filled[4], "up to 3")


def test_broken_protobuf(store, filled):
    store.put(filled[3], encode_frame(FrameKind.TRANSACTION, LOG, b"\xff\xff no message")[0])
    refused(store, CorruptObject, filled[3], "up to 2")


def test_missing_timestamp(store, filled):
    rewrite(store, filled[3], lambda message: message.commit.ClearField("committed_at_us"))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_broken_timestamp(store, filled):
    rewrite(store, filled[3], lambda message: setattr(message.commit, "committed_at_us", -5))
    refused(store, CorruptObject, filled[3], "up to 2")


def test_wrong_encoding_for_the_suffix(catalog, store, filled):
    """A checkpoint under a transaction's name, and the other way round."""
    with catalog.writer("w", "db") as writer:
        info = writer.checkpoint()
    checkpoint, transaction = store.get(info.key), store.get(filled[5])
    store.put(filled[5], checkpoint)
    store.delete([info.key])
    refused(store, CorruptObject, filled[5], "up to 4")
    store.put(filled[5], transaction)
    store.put(info.key, transaction)
    with pytest.warns(UserWarning, match=re.escape(info.key)):
        assert values(store) == list(range(COUNT))


def test_broken_encoding_for_the_suffix(store, filled):
    body = store.get(filled[3])
    store.put(filled[3], encode_frame(FrameKind.SEGMENT, LOG, b"", body)[0])
    refused(store, CorruptObject, filled[3], "up to 2")


def test_fork_by_transaction(store, filled):
    rival = re.sub(r"\.[0-9a-f]{8}\.", ".00000000.", filled[3])
    store.put(rival, store.get(filled[3]))
    with pytest.raises(ForkError) as caught:
        values(store)
    assert sorted(caught.value.keys) == sorted([filled[3], rival])
    assert values(store, {"w": 2}) == [0, 1, 2]
    assert values(store, at(1)) == [0, 1]


def test_fork_by_checkpoint(catalog, store, filled):
    with catalog.writer("w", "db") as writer:
        info = writer.checkpoint()
    rival = re.sub(r"\.[0-9a-f]{8}\.", ".00000000.", info.key)
    store.put(rival, store.get(info.key))
    with pytest.raises(ForkError) as caught:
        values(store)
    assert rival in caught.value.keys


def test_unsupported_upgrade(store, filled):
    def change(message):
        message.actions.add().upgrade.required_reader_features.append("time-machine")

    rewrite(store, filled[5], change)
    with pytest.raises(UnsupportedFeature, match="time-machine") as caught:
        values(store)
    assert caught.value.key == filled[5]
    assert "read a revision before it" in caught.value.hint
    assert values(store, {"w": 4}) == [0, 1, 2, 3, 4]
    with pytest.raises(UnsupportedFeature):
        Catalog(store).writer("w", "db")


def test_an_upgrade_for_writers_stops_writers_alone(store, filled):
    def change(message):
        message.actions.add().upgrade.required_writer_features.append("time-machine")

    rewrite(store, filled[5], change)
    assert values(store) == list(range(COUNT))
    with pytest.raises(UnsupportedFeature, match="time-machine"):
        Catalog(store).writer("w", "db")


def test_delete_predicates_are_refused_by_type(store, filled):
    def change(message):
        message.actions.add().tombstone.predicate = "a > 1"

    rewrite(store, filled[5], change)
    with pytest.raises(UnsupportedFeature, match="tombstones"):
        values(store)
    assert values(store, {"w": 4}) == [0, 1, 2, 3, 4]


def test_an_action_that_does_not_fit_costs_its_table_alone(catalog, store, filled):
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


def test_junk_names_are_ignored_and_survive(catalog, store, filled):
    keys = [f"w/db/transactions/{name}" for name in JUNK] + ["w/db/transactions-old/x", "w/x", "y"]
    for key in keys:
        store.put(key, b"junk")
    assert values(store) == list(range(COUNT))
    with catalog.writer("w", "db", checkpoint_every=1) as writer, writer.transaction() as tx:
        tx.write("t", table(COUNT))
    assert values(store) == list(range(COUNT + 1))
    assert catalog.databases() == ["db"]
    assert all(store.get(key) == b"junk" for key in keys)


def test_a_sibling_prefix_is_another_log(catalog, store, filled):
    """`w2` and `db2` begin with the names of `w` and `db`."""
    for writer_id, database in (("w2", "db"), ("w", "db2")):
        with catalog.writer(writer_id, database) as writer, writer.transaction() as tx:
            tx.write("t", table(100))
    assert values(store, {"w": 5}) == list(range(COUNT))
    assert catalog.writers("db") == ["w", "w2"]


def test_wipe_of_nothing_of_a_normal_and_of_a_broken_catalog(catalog, store, filled):
    """There is no wipe: nothing deletes a log but its owner. Then the name is free again."""
    for broken in (False, True):
        if broken:
            store.put(next(iter(store.list("w/db/transactions/"))).key, b"damage")
            with pytest.raises(CorruptError):
                values(store)
        store.delete([item.key for item in store.list("w/")])
        with catalog.writer("w", "db") as writer:
            assert writer.revision == -1
            with writer.transaction() as tx:
                tx.write("t", table(7))
        assert values(store) == [7]


def test_a_failed_load_changes_nothing_in_the_store(store, filled):
    class ReadOnly(PassingStore):
        def put(self, key, body, *, if_absent=False):
            assert "/_probe/" in key
            super().put(key, body, if_absent=if_absent)

        def delete(self, keys, *, ordered=True):
            every = list(keys)
            assert all("/_probe/" in key for key in every)
            super().delete(every, ordered=ordered)

    for key in filled:
        body = store.get(key)
        for damage in (b"", body[:50], None):
            if damage is None:
                store.delete([key])
            else:
                store.put(key, damage)
            before = [(item.key, item.size_bytes) for item in store.list("")]
            # Without its last transaction the log is sound.
            fails = key != filled[-1] or damage is not None
            error = pytest.raises(LakelogError) if fails else contextlib.nullcontext()
            with error:
                Catalog(ReadOnly(store)).snapshot("db")
            with error:
                Catalog(ReadOnly(store)).writer("w", "db")
            assert [(item.key, item.size_bytes) for item in store.list("")] == before
        store.put(key, body)


def test_a_store_wiped_to_its_last_checkpoint_still_loads(catalog, store, filled):
    with catalog.writer("w", "db") as writer:
        info = writer.checkpoint()
    store.delete([item.key for item in store.list("w/db/transactions/") if item.key != info.key])
    assert values(store) == list(range(COUNT))
    with pytest.raises(SnapshotPruned):
        values(store, {"w": 2})


# --- Races with writers and with prune ----------------------------------------------------------


class Racing(PassingStore):
    """Hides a key from the first listings, or loses it between listing and reading."""

    hidden = ""
    hide_lists = 0
    before_read = None

    def list(self, prefix, **options):
        found = list(self.inner.list(prefix, **options))
        if self.hide_lists:
            self.hide_lists -= 1
            found = [item for item in found if item.key != self.hidden]
        return found

    def get_many(self, keys):
        if self.before_read is not None:
            call, self.before_read = self.before_read, None
            call()
        return self.inner.get_many(keys)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_gap_in_a_listing_means_list_again(store, filled, times):
    racing = Racing(store)
    racing.hidden, racing.hide_lists = filled[2], times
    assert LogReader(racing, "w", "db").load().revision == COUNT - 1


def test_a_gap_that_stays_is_an_error(store, filled):
    racing = Racing(store)
    racing.hidden, racing.hide_lists = filled[2], 99
    with pytest.raises(MissingTransaction):
        LogReader(racing, "w", "db").load()


def test_a_log_pruned_between_listing_and_reading_is_listed_again(catalog, store, filled):
    racing = Racing(store)

    def prune():
        with catalog.writer("w", "db") as writer:
            writer.checkpoint()
        store.delete(filled[:-1])

    racing.before_read = prune
    assert values(racing) == list(range(COUNT))


def test_a_refresh_that_finds_the_log_pruned_past_it_starts_from_the_checkpoint(
    catalog, store, filled
):
    snapshot = catalog.snapshot("db", {"w": 1})
    with catalog.writer("w", "db") as writer:
        writer.checkpoint()
    store.delete(filled[:-1])
    newer = snapshot.refresh()
    assert newer.cut.revisions == {"w": COUNT - 1}
    assert sorted(newer.to_arrow("t").column("a").to_pylist()) == list(range(COUNT))


def test_a_readers_head_never_goes_back(catalog, store, filled):
    """Even when the store shows it an older listing."""
    racing = Racing(store)
    snapshot = Catalog(racing).snapshot("db")
    racing.hidden, racing.hide_lists = filled[-1], 99
    assert snapshot.refresh() is snapshot


def test_a_readers_head_does_not_go_back_by_listing_again_either(catalog, store, filled):
    """The tail is listed with a gap; the whole log, listed anew, is shown as it was long ago."""

    class Stale(PassingStore):
        lists = 0

        def list(self, prefix, **options):
            self.lists += 1
            shown = {COUNT - 1, COUNT + 1} if self.lists == 1 else set(range(COUNT - 1))
            return [
                item
                for item in self.inner.list(prefix, **options)
                if revision_in(item.key) in shown
            ]

    stale = Stale(store)
    snapshot = catalog.snapshot("db")
    with catalog.writer("w", "db") as writer:
        for value in range(2):
            with writer.transaction() as tx:
                tx.write("t", table(value))
    snapshot._store = stale
    assert snapshot.refresh() is snapshot
    assert stale.lists == 2


def test_a_writer_open_while_its_log_was_replaced_is_told_to_open_it_again(catalog, store, filled):
    log = LogReader(store, "w", "db")
    before = log.load(COUNT - 2)
    store.delete(filled[-2:])
    with Catalog(store).writer("w", "db") as writer:  # as a rebuild would: other objects
        for _ in range(3):
            with writer.transaction() as tx:
                tx.write("t", table(9))
    with pytest.raises(BrokenChain, match=r"rebuilt or restored since .* open it again") as caught:
        log.advance(before)
    assert "its plan shows that first" in str(caught.value)
