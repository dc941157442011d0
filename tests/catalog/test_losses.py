"""Losses that leave what is read sound and shorter: a log beside others, the checkpoint of a
rebuilt log, the end of a log that somebody holds. Each is told, once a call, with a key."""

from __future__ import annotations

import datetime as dt
import warnings

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.read.mirror import LostLogWarning, MirrorWarning
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import PassingStore
from lakelog.testing.keys import log_keys
from table_cases import table, values, write


def drop(store, prefix, but=""):
    """Lose all objects below a prefix, perhaps but those with a text in their key."""
    keys = [info.key for info in store.list(prefix)]
    store.delete([key for key in keys if not but or but not in key])


def silent(call):
    """What a call gives, if it warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


def told(call):
    """What a call gives, and all that it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    assert {item.category for item in caught} <= {LostLogWarning}
    return found, [str(item.message) for item in caught]


# --- A log beside others --------------------------------------------------------------------------


@pytest.fixture
def two(catalog):
    """The logs of two writers, of two commits each."""
    for name, first in (("a", 1), ("b", 3)):
        with catalog.writer(name, "db", checkpoint_every=0) as writer:
            write(writer, first)
            write(writer, first + 1)
    return catalog


def test_a_lost_log_beside_others_is_read_from_its_mirror(store, two):
    token = two.snapshot("db").token
    drop(store, "b/db/transactions/")
    for point in (None, token, dt.datetime(2100, 1, 1, tzinfo=dt.UTC)):
        with pytest.warns(MirrorWarning, match="`lakelog repair URL db --writer b --execute`"):
            assert values(store, point) == [1, 2, 3, 4]
    assert silent(lambda: values(store, {"a": 1})) == [1, 2]
    silent(lambda: two.history("db", "a"))
    two.repair("db", execute=True)
    assert silent(lambda: values(store)) == [1, 2, 3, 4]


def test_segments_without_a_log_are_told(store, two):
    drop(store, "b/")
    store.put(f"b/db/segments/{'0' * 64}.segment", b"x")
    _, texts = told(lambda: values(store))
    assert "b/db has neither a log nor a mirror, but segments" in texts[0]


@pytest.mark.parametrize("point", [None, dt.datetime(2100, 1, 1, tzinfo=dt.UTC)])
def test_data_files_of_a_log_that_is_lost_in_both_places_are_told(store, two, point):
    for folder in ("transactions", "mirror", "segments"):
        drop(store, f"b/db/{folder}/")
    found, texts = told(lambda: values(store, point))
    assert found == [1, 2]
    assert len(texts) == 1
    assert "begun on its revisions, as b/db/data/" in texts[0]
    assert "`lakelog rebuild URL db --writer b` salvages its rows" in texts[0]
    assert len(told(lambda: two.history("db"))[1]) == 1
    assert silent(lambda: values(store, {"a": 1})) == [1, 2]
    execute_rebuild(two, plan_rebuild(two, "b", "db"))
    assert silent(lambda: values(store)) == [1, 2, 3, 4]


def test_empty_folders_of_a_lost_log_on_a_disk_hide_nothing(tmp_path):
    catalog = lakelog.open_catalog(str(tmp_path))
    for name in ("a", "b"):
        with catalog.writer(name, "db") as writer:
            write(writer, 1)
            write(writer, 2)
    for folder in ("transactions", "mirror", "segments"):
        for path in (tmp_path / "b" / "db" / folder).rglob("*.*"):
            path.unlink()
    _, texts = told(lambda: catalog.snapshot("db"))
    assert len(texts) == 1


def test_a_log_that_is_begun_while_its_data_files_are_looked_at_is_read(two):
    """Its first listing came too early; then it made two commits."""

    class Late(PassingStore):
        """Has no log of b before a data file of it is read."""

        looked = False

        def list(self, prefix, *, after=None, first_page=1000):
            self.looked |= prefix == "b/db/data/"
            is_log = prefix.startswith(("b/db/transactions/", "b/db/mirror/"))
            if is_log and not self.looked:
                return iter(())
            return self.inner.list(prefix, after=after, first_page=first_page)

        def list_folders(self, prefix):
            return ["data"] if prefix == "b/db/" else self.inner.list_folders(prefix)

    assert silent(lambda: values(Late(two.store))) == [1, 2, 3, 4]


def test_a_first_commit_under_way_is_not_told(store, two, catalog):
    tx = catalog.writer("new", "db").transaction()
    tx.write("t", table(9))
    store.put("new/db/data/in/x.parquet", b"x")  # a file that it is about to take in
    assert silent(lambda: values(store)) == [1, 2, 3, 4]
    with catalog.writer("c", "other") as writer:
        write(writer, 1)
    assert silent(lambda: values(store)) == [1, 2, 3, 4]


def test_a_log_that_a_listing_misses_is_not_told(two):
    class Late(PassingStore):
        """Shows the names of b's log from the second listing on."""

        asked = 0

        def list(self, prefix, *, after=None, first_page=1000):
            self.asked += prefix == "b/db/transactions/"
            if prefix == "b/db/transactions/" and self.asked == 1:
                return iter(())
            return self.inner.list(prefix, after=after, first_page=first_page)

    assert silent(lambda: values(Late(two.store))) == [1, 2, 3, 4]


# --- The end of a log that is held ----------------------------------------------------------------


def test_a_held_head_that_is_lost_is_told(store, two):
    held = two.snapshot("db")
    lost = log_keys(store, "transaction", writer="a")[-1]
    store.delete([lost])
    again, texts = told(held.refresh)
    assert again is held
    assert len(texts) == 1
    assert lost in texts[0]
    assert silent(lambda: values(store)) == [1, 3, 4]


def test_a_listing_that_misses_the_head_is_not_told(store, two):
    class Short(PassingStore):
        """Never shows the newest name of a's log."""

        def list(self, prefix, *, after=None, first_page=1000):
            for info in self.inner.list(prefix, after=after, first_page=first_page):
                if not info.key.startswith("a/db/transactions/998-999999999998-1."):
                    yield info

    state = LogReader(store, "a", "db").load()
    assert silent(lambda: LogReader(Short(store), "a", "db").advance(state)) is state


def test_a_held_head_that_was_pruned_is_not_told(store, two, catalog):
    held = two.snapshot("db")
    with catalog.writer("a", "db", checkpoint_every=0) as writer:
        write(writer, 5)
        writer.checkpoint()
    drop(store, "a/db/transactions/", but="-2.")
    assert silent(held.refresh).to_arrow("t").num_rows == 5


# --- Over a network: the two requests at once -----------------------------------------------------


def test_a_checkpoint_and_its_transaction_are_asked_for_at_once(fake):
    class Remote(PassingStore):
        backend = "s3"
        refused = False

        def __init__(self, store):
            super().__init__(store)
            self.backend = "s3"

        def get(self, key, *, start=None, end=None):
            if self.refused:
                raise lakelog.errors.AccessDenied("no", key=key)
            return self.inner.get(key, start=start, end=end)

    store = Remote(MemoryStore("remote"))
    with Catalog(store, ambient=fake.ambient).writer("w", "db", checkpoint_every=0) as writer:
        with writer.transaction() as tx:
            tx.write("t", pa.table({"a": [1]}))
        writer.checkpoint()
    log = LogReader(store, "w", "db")
    assert log.load().revision == 0
    listing = log.names()
    store.delete(log_keys(store.inner, "transaction"))
    assert log.load(listing=listing).revision == 0
    store.refused = True
    with pytest.raises(lakelog.errors.AccessDenied):
        log.load(listing=listing)
