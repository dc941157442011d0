"""Commits whose answer was lost: they stand once, or it is said that nobody knows."""

from __future__ import annotations

import pytest
from commit_cases import LIMIT_S, prune_to_checkpoint, transactions
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import (
    AccessDenied,
    CapabilityMissing,
    CommitOutcomeUnknown,
    StorageError,
)
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FaultyStore, PassingStore
from table_cases import table, values, write

LOG = "w/db/transactions/"  # not the mirror: its copies are put beside
FAULTS = {
    "lost response": (["lost response"], 2),
    "lost request": (["lost request"], 2),
    "request, then response": (["lost request", "lost response"], 3),
    "response, then request": (["lost response", "lost request"], 3),
    "three requests": (["lost request"] * 3, 4),
    "three requests, the last one landed": (["lost request"] * 2 + ["lost response"], 4),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_commit_whose_answer_was_lost_succeeds_once(store, fake, name):
    faults, puts = FAULTS[name]
    lossy = FaultyStore(store, ["ok", *faults], match=LOG)
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    assert write(writer, 2).revision == 1
    assert write(writer, 3).revision == 2
    assert values(store) == [1, 2, 3]
    assert len(transactions(store)) == 3
    keys = [key for key, _ in lossy.script.puts]
    assert len(keys) == 1 + puts + 1
    assert len(set(keys)) == 3, "a retry took another name"


@pytest.mark.parametrize("fault", ["lost request", "lost response"])
def test_nothing_learnt_at_all_is_unknown_and_can_be_called_again(store, fake, fault):
    lossy = FaultyStore(store, ["ok", *[fault] * 4], match=LOG)
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    if fault == "lost response":
        lossy.fail_reads = True
    tx = writer.transaction()
    tx.write("t", table(2))
    with pytest.raises(CommitOutcomeUnknown) as caught:
        tx.commit()
    error = caught.value
    assert error.exit_code == 7
    assert error.transaction_id == tx.transaction_id
    assert error.key.endswith(".transaction")
    assert "again" in error.hint
    assert tx.commit_info is None
    lossy.fail_reads = False
    info = tx.commit()
    assert info.revision == 1
    assert tx.commit() is info
    write(writer, 3)
    assert values(store) == [1, 2, 3]
    assert len(transactions(store)) == 3


def test_an_unknown_commit_that_another_writers_commit_overtook(store, fake):
    """Its request was lost for good, and somebody else took the name: it goes to the next."""
    lossy = FaultyStore(store, ["ok", *["lost request"] * 4])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db", shared=True)
    tx = writer.transaction()
    tx.write("t", table(1))
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    write(Catalog(store).writer("w", "db", shared=True), 2)
    assert tx.commit().revision == 2
    assert values(store) == [1, 2]


def test_an_unknown_commit_that_was_pruned_since_stays_unknown(store, fake):
    """The log went on and its early part was pruned: neither yes nor no can be said."""
    lossy = FaultyStore(store, ["ok", *["lost response"] * 4])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db", shared=True)
    tx = writer.transaction()
    tx.write("t", table(1))
    lossy.fail_reads = True
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    lossy.fail_reads = False
    other = Catalog(store).writer("w", "db", shared=True)
    for value in range(2, 6):  # a piece of history goes once all of it was pruned
        write(other, value)
        prune_to_checkpoint(store, other.checkpoint().revision)
    fake.move(LIMIT_S + 1)
    with pytest.raises(CommitOutcomeUnknown, match="pruned"):
        tx.commit()


def test_a_commit_time_is_the_same_however_it_was_learnt(store, fake):
    """Read back from a checkpoint or from the log: to the microsecond."""
    for step in range(20):
        fake.wall_us = 1_700_000_000_123_457 + step * 1_000_003
        root = MemoryStore()
        lossy = FaultyStore(root, ["lost response"] * 4)
        writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
        tx = writer.transaction()
        tx.write("t", table(step))
        lossy.fail_reads = True
        with pytest.raises(CommitOutcomeUnknown):
            tx.commit()
        lossy.fail_reads = False
        Catalog(root).writer("w", "db", shared=True).checkpoint()
        root.delete(transactions(root))
        expected = LogReader(root, "w", "db").load().committed_at_us
        fake.move(LIMIT_S + 1)
        assert tx.commit().committed_at_us == expected


def test_a_lost_answer_while_reading_back_is_tried_again(store, fake):
    class Flaky(FaultyStore):
        failures = 2

        def get(self, key, *, start=None, end=None):
            if self.failures and key.endswith(".transaction"):
                self.failures -= 1
                raise StorageError("try later", key=key)
            return super().get(key, start=start, end=end)

    lossy = Flaky(store, ["lost response"])
    writer = Catalog(lossy, ambient=fake.ambient).writer("w", "db")
    assert write(writer, 1).revision == 0
    assert lossy.failures == 0
    assert values(store) == [1]


@pytest.mark.parametrize("error", [AccessDenied, CapabilityMissing])
def test_a_refusal_is_no_doubt(store, fake, error):
    """The store said no, so nothing was written: no retries, and no "unknown"."""

    class Refusing(PassingStore):
        puts = 0

        def put(self, key, body, *, if_absent=False):
            if key.endswith(".transaction"):
                self.puts += 1
                raise error("no", key=key)
            super().put(key, body, if_absent=if_absent)

    refusing = Refusing(store)
    writer = Catalog(refusing, ambient=fake.ambient).writer("w", "db")
    with pytest.raises(error):
        write(writer, 1)
    assert refusing.puts == 1
    assert transactions(store) == []
