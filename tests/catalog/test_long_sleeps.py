"""Committers that slept so long that names may have been pruned."""

from __future__ import annotations

import pytest
from commit_cases import LIMIT_S, prune_to_checkpoint, transactions
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    CommitOutcomeUnknown,
    FencedError,
    StorageError,
)
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FaultyStore
from lakelog.testing.keys import revision_in
from table_cases import table, values, write


def test_a_committer_that_slept_lists_again_and_never_makes_a_pruned_name_anew(
    catalog, store, fake
):
    sleeper = catalog.writer("w", "db", shared=True)
    write(sleeper, 0)
    other = catalog.writer("w", "db", shared=True)
    for value in range(1, 6):
        write(other, value)
    prune_to_checkpoint(store, other.checkpoint().revision)
    fake.move(LIMIT_S + 1)
    assert write(sleeper, 6).revision == 7  # revision 0 is the birth
    assert [revision_in(key) for key in transactions(store)] == [6, 7]
    assert values(store) == list(range(7))


def test_without_the_long_sleep_one_put_is_all(store, fake):
    counting = CountingStore(store)
    writer = Catalog(counting, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    fake.move(LIMIT_S - 1)
    tx = writer.transaction()
    tx.write("t", table(2))
    counting.reset()
    tx.commit()
    assert counting.reset() == {"put": 1, "get": 0, "list": 0, "head": 0, "delete": 0}


def test_a_put_that_took_long_is_looked_after(store, fake):
    """It stands, and nothing was pruned: success."""
    slow = FaultyStore(store)
    writer = Catalog(slow, ambient=fake.ambient).writer("w", "db")
    write(writer, 1)
    slow.before_put = lambda key: fake.move(LIMIT_S + 1)
    assert write(writer, 2).revision == 1
    slow.before_put = None
    assert write(writer, 3).revision == 2
    assert values(store) == [1, 2, 3]


def test_a_put_so_slow_that_its_name_was_pruned_before_it_landed(catalog, store, fake):
    """Others committed, checkpointed and pruned meanwhile: the put made a dead name anew."""
    slow = FaultyStore(store)
    sleeper = Catalog(slow, ambient=fake.ambient).writer("w", "db", shared=True)
    write(sleeper, 0)

    def meanwhile(key):
        slow.before_put = None
        other = catalog.writer("w", "db", shared=True)
        for value in range(1, 6):
            write(other, value)
        prune_to_checkpoint(store, other.checkpoint().revision)
        fake.move(LIMIT_S + 1)

    slow.before_put = meanwhile
    assert write(sleeper, 99).revision == 7  # it lost that name, and has taken the next one
    assert values(store) == [0, 1, 2, 3, 4, 5, 99]
    assert write(sleeper, 100).revision == 8


class AfterPut(FaultyStore):
    """Something happens after the next transaction was put, before its committer hears of it."""

    after = None

    def put(self, key, body, *, if_absent=False):
        super().put(key, body, if_absent=if_absent)
        if self.after is not None and key.endswith(".transaction"):
            self.after, call = None, self.after
            call()


def test_a_slow_put_whose_place_in_the_history_is_gone_is_unknown(store, fake):
    """It stood, others went on, and what is left of the log no longer tells."""
    slow = AfterPut(store)
    sleeper = Catalog(slow, ambient=fake.ambient).writer("w", "db", shared=True)

    def meanwhile():
        for value in range(1, 5):  # a piece of history goes once all of it was pruned
            other = Catalog(store, ambient=fake.ambient).writer("w", "db", shared=True)
            write(other, value)
            prune_to_checkpoint(store, other.checkpoint().revision)
        fake.move(LIMIT_S + 1)

    slow.after = meanwhile
    with pytest.raises(CommitOutcomeUnknown, match="was pruned"):
        write(sleeper, 0)
    assert values(store) == list(range(5))


def test_a_slow_put_that_stands_is_never_reported_as_failed(store, fake):
    """The put landed, and then the store went away: that is unknown, and no plain error."""

    class Away(FaultyStore):
        def list(self, prefix, **options):
            if self.fail_reads:
                raise StorageError("the store is away", key=prefix)
            return list(super().list(prefix, **options))

    away = Away(store)
    writer = Catalog(away, ambient=fake.ambient).writer("w", "db")

    def meanwhile(key):
        away.before_put = None
        away.fail_reads = True
        fake.move(LIMIT_S + 1)

    tx = writer.transaction()
    tx.write("t", table(1))
    away.before_put = meanwhile
    with pytest.raises(CommitOutcomeUnknown):
        tx.commit()
    away.fail_reads = False
    assert tx.commit().revision == 0
    assert values(store) == [1]


def test_a_slow_put_before_a_new_owner_is_the_last_one(catalog, store, fake):
    """It stands; but by then a new owner had committed after it."""
    slow = AfterPut(store)
    old = Catalog(slow, ambient=fake.ambient).writer("w", "db")
    write(old, 1)

    def meanwhile():
        write(catalog.writer("w", "db"), 3)
        fake.move(LIMIT_S + 1)

    slow.after = meanwhile
    assert write(old, 2).revision == 1
    with pytest.raises(FencedError):
        write(old, 4)
    assert values(store) == [1, 2, 3]
