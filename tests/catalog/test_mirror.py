"""The second copy of a log: when it is put, what is read from it, and what it says of the first."""

from __future__ import annotations

import pytest
from damaged_logs import COUNT
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.mirror import copy_checkpoint
from lakelog.catalog.format.names import mirror_key
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.catalog.read.mirror import MirrorWarning
from lakelog.errors import CapabilityMissing, LogLost, LostTail, StorageError
from lakelog.testing.doubles import PassingStore
from lakelog.testing.keys import log_keys
from table_cases import table, values

MIRROR = "w/db/mirror/transactions/"


@pytest.fixture
def six(catalog, store, fake):
    """Six commits of a writer that was closed; returns the keys of its transactions."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for value in range(COUNT):
            with writer.transaction() as tx:
                tx.write("t", table(value))
            fake.move(1)
    return log_keys(store)


def copies(store):
    return {info.key for info in store.list(MIRROR)}


def write(writer, value=0):
    with writer.transaction() as tx:
        tx.write("t", table(value))


def test_a_closed_log_has_a_copy_of_each_commit_byte_for_byte(store, six):
    assert copies(store) == {mirror_key(key) for key in six}
    assert all(store.get(key) == store.get(mirror_key(key)) for key in six)


def test_only_the_two_newest_commits_can_lack_their_copies(catalog, store):
    writer = catalog.writer("w", "db", checkpoint_every=0)  # without threads copies come last
    for number in range(6):
        write(writer, number)
        keys = log_keys(store)
        assert {mirror_key(key) for key in keys[:-2]} <= copies(store)
        assert copies(store) <= {mirror_key(key) for key in keys}


def test_an_opening_completes_the_mirror_before_anything_else(catalog, store):
    writer = catalog.writer("w", "db", checkpoint_every=0)
    for number in range(3):
        write(writer, number)  # and the process dies
    assert len(copies(store)) < 3
    catalog.writer("w", "db")
    assert copies(store) == {mirror_key(key) for key in log_keys(store)}


def test_an_opening_puts_the_older_copy_too_if_the_newer_one_is_there_alone(catalog, store, six):
    store.delete([mirror_key(six[-2])])
    catalog.writer("w", "db")
    assert copies(store) == {mirror_key(key) for key in six}


@pytest.mark.parametrize("damage", [None, b"", b"damage", "cut", "flipped"])
def test_what_is_lost_or_damaged_is_read_from_its_copy(store, six, damage):
    tokens = [Catalog(store).snapshot("db", {"w": n}).token for n in range(COUNT)]
    for number, key in enumerate(six):
        body = store.get(key)
        if damage is None:
            store.delete([key])
        elif damage == "cut":
            store.put(key, body[:-1])
        elif damage == "flipped":
            store.put(key, body[:90] + bytes([body[90] ^ 1]) + body[91:])
        else:
            store.put(key, damage)
        for revision in range(number, COUNT):
            with pytest.warns(MirrorWarning, match="lakelog repair"):
                assert values(store, tokens[revision]) == list(range(revision + 1))
        store.put(key, body)


def test_another_transaction_in_the_place_of_one_is_read_from_its_copy(store, six):
    tail = store.get(six[3])
    store.put(six[3], store.get(six[2]))
    with pytest.warns(MirrorWarning):
        assert values(store) == list(range(COUNT))
    store.put(six[3], tail)


@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.mirror.MirrorWarning")
def test_without_transactions_every_point_in_time_is_read_from_the_mirror(store, six):
    store.delete(six)
    for revision in range(COUNT):
        assert values(store, {"w": revision}) == list(range(revision + 1))
    assert values(store) == list(range(COUNT))
    assert Catalog(store).writers("db") == ["w"]
    assert Catalog(store).databases() == ["db"]
    assert Catalog(store).history("db").num_rows == COUNT


def test_a_warning_names_one_object_and_counts_the_others(store, six):
    store.delete(six[:4])
    with pytest.warns(MirrorWarning, match="and 3 more objects"):
        values(store)


def test_no_log_is_begun_where_a_mirror_is(catalog, store, six):
    store.delete(six)
    with pytest.raises(LogLost) as caught:
        catalog.writer("w", "db")
    assert "lakelog repair" in caught.value.hint


@pytest.mark.parametrize("shared", [False, True])
def test_nothing_is_committed_to_a_log_that_lost_its_end(catalog, store, six, shared):
    store.delete(six[-2:])
    with pytest.raises(LostTail) as caught:
        catalog.writer("w", "db", shared=shared)
    assert "lakelog repair" in caught.value.hint
    assert caught.value.key == mirror_key(six[-1])


class Refusing(PassingStore):
    """Takes no copies for a while."""

    refuses = True

    def put(self, key, body, *, if_absent=False):
        if self.refuses and "/mirror/" in key:
            raise StorageError("refused", key=key)
        super().put(key, body, if_absent=if_absent)


def test_the_commit_after_the_next_fails_if_a_copy_cant_be_put(store, fake):
    refusing = Refusing(store)
    writer = Catalog(refusing, ambient=fake.ambient).writer("w", "db", checkpoint_every=0)
    write(writer, 0)
    write(writer, 1)
    with pytest.raises(StorageError, match="copy of revision 0"):
        write(writer, 2)
    assert len(log_keys(store)) == 2
    refusing.refuses = False
    write(writer, 3)
    assert values(store) == [0, 1, 3]


def test_closing_warns_of_a_copy_that_cant_be_put(store, fake):
    writer = Catalog(Refusing(store), ambient=fake.ambient).writer("w", "db")
    write(writer, 0)
    with pytest.warns(MirrorWarning, match="copy of revision 0"):
        writer.close()


def test_a_copy_of_another_transaction_is_a_lost_end(catalog, store):
    """A stale guest commits what the lost end had, under the same name."""
    with catalog.writer("w", "db", shared=True) as writer:
        write(writer, 0)
        stale = catalog.writer("w", "db", shared=True)
        write(writer, 1)
    store.delete(log_keys(store)[-1:])
    write(stale, 7)
    write(stale, 8)
    with pytest.raises(LostTail, match="another transaction"):
        write(stale, 9)


def test_copies_are_put_in_the_background(tmp_path):
    from lakelog import open_catalog

    catalog = open_catalog(tmp_path)
    with catalog.writer("w", "db") as writer:
        for number in range(20):
            write(writer, number)
    store = catalog.store
    keys = [info.key for info in store.list("w/db/transactions/") if ".transaction" in info.key]
    assert copies(store) == {mirror_key(key) for key in keys}


def test_a_damaged_checkpoint_and_a_lost_transaction_below_it_lose_nothing(store, six):
    """Neither object has lost both copies, though the checkpoint has but one."""
    with Catalog(store).writer("w", "db") as writer:
        writer.checkpoint()
    (checkpoint,) = log_keys(store, "checkpoint")
    store.put(checkpoint, store.get(checkpoint)[:-1])
    store.delete([six[1]])
    with pytest.warns(MirrorWarning), pytest.warns(CheckpointWarning):
        assert values(store) == list(range(COUNT))


class Plain(PassingStore):
    """Has no put-if-absent."""

    def put(self, key, body, *, if_absent=False):
        if if_absent:
            raise CapabilityMissing("no such thing", key=key)
        super().put(key, body)


def test_a_plain_store_takes_the_copy_of_a_checkpoint(store, fake):
    plain = Plain(store)
    with Catalog(plain, ambient=fake.ambient).writer("w", "db", checkpoint_every=0) as writer:
        write(writer, 0)
        writer.checkpoint()
    log = LogReader(plain, "w", "db", fake.ambient)
    (item,) = log.names().checkpoints[0]
    copy_checkpoint(log, item, exclusive=False)
    copies = {i.key for i in store.list("w/db/mirror/")}
    assert mirror_key(log.folder + item.name) in copies
    for info in store.list("w/db/segments/"):
        assert store.get(mirror_key(info.key)) == store.get(info.key)
