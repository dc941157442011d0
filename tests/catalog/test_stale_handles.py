"""A handle that has not looked at the log for long looks again before it refuses."""

from __future__ import annotations

import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import (
    DuplicateFile,
    FencedError,
    FileNotLive,
    OperationConflict,
    TableNotFound,
    UsageError,
)
from lakelog.testing.counting import CountingStore
from own_files import add_own
from table_cases import table, values, write


@pytest.fixture
def counting(store):
    return CountingStore(store)


@pytest.fixture
def stale(counting, fake):
    """A guest that looked when the log held one commit."""
    with Catalog(counting, ambient=fake.ambient).writer("w", "db", checkpoint_every=0) as owner:
        write(owner, 0)
    return Catalog(counting, ambient=fake.ambient).writer("w", "db", shared=True)


@pytest.fixture
def other(catalog, stale):
    return catalog.writer("w", "db", shared=True)


def test_a_file_that_others_have_added_is_removed(store, stale, other):
    with other.transaction() as tx:
        (path,) = tx.write("t", table(1))
    with stale.transaction() as tx:
        tx.remove(path)
    assert values(store) == [0]


def test_a_file_that_others_have_removed_is_added_again(store, stale, other):
    with other.transaction() as tx:
        (path,) = tx.write("t", table(1))
    with other.transaction() as tx:
        tx.remove(path)
    with other.transaction() as tx:
        add_own(tx, "t", path)
    with stale.transaction() as tx:
        tx.remove(path)  # it has seen that file now
    with other.transaction() as tx:
        add_own(tx, "t", path)
    with other.transaction() as tx:
        tx.remove(path)
    with stale.transaction() as tx:
        add_own(tx, "t", path)
    assert values(store) == [0, 1]


def test_a_file_that_others_have_put_back_is_removed_by_a_commit_under_way(store, stale, other):
    """The commit is judged by what stands, not by what this one saw last."""
    with other.transaction() as tx:
        (path,) = tx.write("t", table(1))
    late = stale.transaction()
    late.remove(path)
    with stale.transaction() as tx:
        tx.remove(path)
    with other.transaction() as tx:
        add_own(tx, "t", path)
    assert late.commit()
    assert values(store) == [0]


def test_what_doesnt_fit_the_log_as_it_is_is_refused(counting, stale, other):
    """After one more listing, and no second one."""
    with other.transaction() as tx:
        (path,) = tx.write("t", table(1))
    tx = stale.transaction()
    tx.remove(path)
    twice = stale.transaction()
    add_own(twice, "t", path)
    with other.transaction() as theirs:
        theirs.remove(path)
    with pytest.raises(FileNotLive):
        tx.commit()
    with other.transaction() as theirs:
        add_own(theirs, "t", path)
    counting.reset()
    with pytest.raises(DuplicateFile):
        twice.commit()
    assert counting.reset()["list"] == 1
    with pytest.raises(DuplicateFile):
        twice.commit()
    assert not any(counting.reset().values()), "a refusal is final"
    with pytest.raises(FileNotLive):
        stale.transaction().remove("data/none.parquet")
    assert counting.reset()["list"] == 1


def test_a_table_that_others_have_emptied_is_forgotten(store, stale, other):
    with other.transaction() as tx:
        (path,) = tx.write("u", table(1))
    with pytest.raises(UsageError, match="has files"):
        stale.forget(tables=["u"])  # it has learnt of the table by now
    with pytest.raises(TableNotFound):
        stale.forget(tables=["none"])
    with other.transaction() as tx:
        tx.remove(path)
    assert stale.forget(tables=["u"])
    assert Catalog(store).snapshot("db").tables() == ["t"]


def test_a_fenced_owner_is_told_so_and_not_that_a_file_is_not_there(store, fake):
    catalog = Catalog(store, ambient=fake.ambient)
    first = catalog.writer("w", "db")
    write(first, 0)
    tx = first.transaction()
    second = catalog.writer("w", "db")
    with second.transaction() as theirs:
        (path,) = theirs.write("t", table(1))
    with pytest.raises(FencedError):
        tx.remove(path)


def test_a_file_that_came_since_is_replaced_by_hand(store, stale, other):
    """It was added since, but not again: no row of it was deleted before."""
    with stale.transaction() as tx:
        with other.transaction() as another:
            (path,) = another.write("t", table(1))
        tx.remove(path)
        tx.write("t", table(2))
    assert values(store) == [0, 2]


def test_an_overwrite_that_finds_nothing_is_held_against_what_came_since(store, stale, other):
    late = stale.transaction()
    with other.transaction() as tx:
        tx.write("t", table(7))
    none = table(7).slice(0, 0)
    late.overwrite("t", none, "a = 7")
    with pytest.raises(OperationConflict, match="may hold rows that it replaces"):
        late.commit()
    with stale.transaction() as tx:
        tx.overwrite("t", none, "a = 7")
    assert values(store) == [0]
    with stale.transaction() as tx:
        tx.overwrite("t", none, "a = 7")
    assert tx.commit_info is None
