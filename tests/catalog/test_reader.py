"""What a catalog shows of several writers: the newest cut, a newer one, what is there, history."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog, open_catalog
from lakelog.catalog.read.mirror import LostLogWarning
from lakelog.errors import (
    DatabaseNotFound,
    InvalidUrl,
    NotACatalog,
    StorageError,
    TableNotFound,
    WriterNotFound,
)
from lakelog.testing.doubles import START_US, PassingStore
from lakelog.testing.keys import log_keys
from reader_cases import values, write
from table_cases import table

# --- The newest -----------------------------------------------------------------------------------


def test_the_newest_state_of_all_writers(catalog_of_two):
    snapshot = catalog_of_two.snapshot("db")
    assert values(snapshot) == [0, 1, 2, 3, 4, 5]
    assert snapshot.cut.revisions == {"A": 2, "B": 2}
    assert snapshot.tables() == ["t"]
    assert "A" in repr(snapshot)


def test_a_snapshot_never_changes(catalog_of_two):
    snapshot = catalog_of_two.snapshot("db")
    before = snapshot.files("t")
    write(catalog_of_two.writer("A", "db"), 9)
    assert snapshot.files("t").equals(before)
    assert values(snapshot) == [0, 1, 2, 3, 4, 5]


# --- Refreshing -----------------------------------------------------------------------------------


def test_refresh_is_the_same_object_when_nothing_is_new(catalog_of_two):
    snapshot = catalog_of_two.snapshot("db")
    assert snapshot.refresh() is snapshot


def test_refresh_shows_what_is_new(catalog_of_two):
    snapshot = catalog_of_two.snapshot("db")
    write(catalog_of_two.writer("B", "db"), 6)
    newer = snapshot.refresh()
    assert newer is not snapshot
    assert newer.cut.revisions == {"A": 2, "B": 3}
    assert values(newer) == list(range(7))
    assert values(snapshot) == list(range(6))
    assert newer.refresh() is newer


def test_refresh_of_the_past_goes_to_the_present(catalog_of_two):
    assert values(catalog_of_two.snapshot("db", {"A": 0, "B": 1}).refresh()) == list(range(6))


def test_refresh_sees_writers_that_have_come_since(catalog_of_two):
    snapshot = catalog_of_two.snapshot("db")
    write(catalog_of_two.writer("C", "other"), 8)
    assert snapshot.refresh() is snapshot
    write(catalog_of_two.writer("C", "db"), 7)
    newer = snapshot.refresh()
    assert newer.cut.revisions == {"A": 2, "B": 2, "C": 0}
    assert newer.token == catalog_of_two.snapshot("db").token
    assert newer.refresh() is newer
    assert catalog_of_two.snapshot("db", snapshot.token).refresh().token == newer.token


def test_refresh_keeps_to_writers_that_were_named(catalog_of_two):
    named = catalog_of_two.snapshot("db", {"A": 1}).refresh()
    assert named.cut.revisions == {"A": 2}
    write(catalog_of_two.writer("A", "db"), 6)
    assert named.refresh().cut.revisions == {"A": 3}


def test_refresh_takes_no_writer_back(catalog_of_two, store):
    """Its folder is gone, and another writer has come: what was seen stays."""
    snapshot = catalog_of_two.snapshot("db")
    write(catalog_of_two.writer("C", "db"), 6)
    store.delete([info.key for info in list(store.list("B/db/transactions/"))])
    with pytest.warns(LostLogWarning):
        newer = snapshot.refresh()
    assert newer.cut.revisions == {"A": 2, "B": 2, "C": 0}


def test_refreshing_along_a_long_log_equals_reading_it(catalog):
    writer = catalog.writer("A", "db", checkpoint_every=3)
    write(writer, 0)
    snapshot = catalog.snapshot("db")
    for value in range(1, 10):
        with writer.transaction() as tx:
            if value % 4 == 0:
                tx.remove(snapshot.files("t").column("path")[0].as_py())
            tx.write("t", table(value))
        snapshot = snapshot.refresh()
        fresh = catalog.snapshot("db")
        assert snapshot.token == fresh.token
        assert sorted(snapshot.files("t").column("path").to_pylist()) == sorted(
            fresh.files("t").column("path").to_pylist()
        )


# --- What is there --------------------------------------------------------------------------------


def test_databases_and_writers(catalog_of_two, store):
    write(catalog_of_two.writer("C", "other"), 1)
    store.put("_refs/x/00000000000000000000.ref", b"")
    store.put("D/db/data/t/x.parquet", b"")
    store.put("E/db/transactions", b"a file where a folder should be")
    store.put("README", b"")
    assert catalog_of_two.databases() == ["db", "other"]
    assert catalog_of_two.writers("db") == ["A", "B"]
    assert catalog_of_two.writers("other") == ["C"]


def test_nothing_is_no_catalog(catalog):
    for call in (catalog.databases, lambda: catalog.writers("db"), lambda: catalog.history("db")):
        with pytest.raises(NotACatalog) as caught:
            call()
        assert caught.value.exit_code == 3


def test_a_database_that_is_not_there(catalog_of_two):
    for call in (catalog_of_two.snapshot, catalog_of_two.writers, catalog_of_two.history):
        with pytest.raises(DatabaseNotFound, match="'nowhere'") as caught:
            call("nowhere")
        assert "db" in caught.value.hint


def test_a_table_that_is_not_there(catalog_of_two):
    snapshot = catalog_of_two.snapshot("db")
    for call in (snapshot.schema, snapshot.files, snapshot.scan, snapshot.file_parts):
        with pytest.raises(TableNotFound, match="'u'") as caught:
            call("u")
        assert "t" in caught.value.hint


def test_a_table_that_came_later_is_not_there_before(catalog_of_two):
    write(catalog_of_two.writer("A", "db"), 1, name="late")
    assert catalog_of_two.snapshot("db").tables() == ["late", "t"]
    with pytest.raises(TableNotFound):
        catalog_of_two.snapshot("db", {"A": 2}).files("late")


def test_a_table_whose_files_were_all_removed(catalog):
    with catalog.writer("A", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1))
        with writer.transaction() as tx:
            tx.remove(path)
    snapshot = catalog.snapshot("db")
    assert snapshot.tables() == ["t"]
    assert snapshot.files("t").num_rows == 0
    assert snapshot.to_arrow("t").schema.names == ["a"]


@pytest.mark.parametrize("url", ["", "nosuch://x", "s3:/bucket", "s3://user:secret@bucket/x"])
def test_a_url_that_no_backend_serves(url):
    with pytest.raises(InvalidUrl) as caught:
        open_catalog(url)
    assert "secret" not in str(caught.value)


def test_a_local_catalog_by_path_and_by_url(tmp_path):
    for url in (str(tmp_path / "x"), f"file://{tmp_path}/x"):
        catalog = open_catalog(url)
        write(catalog.writer("A", "db"), 1)
    assert values(open_catalog(str(tmp_path / "x")).snapshot("db")) == [1, 1]


# --- History --------------------------------------------------------------------------------------


def test_history_over_all_writers_in_the_order_of_their_clocks(catalog_of_two):
    history = catalog_of_two.history("db")
    assert history.column("writer").to_pylist() == list("ABABAB")
    assert history.column("revision").to_pylist() == [0, 0, 1, 1, 2, 2]
    times = history.column("committed_at").cast(pa.int64()).to_pylist()
    assert times == [START_US + step * 1_000_000 for step in range(6)]
    assert history.schema.field("committed_at").type == pa.timestamp("us", "UTC")
    assert catalog_of_two.history("db", "B").column("writer").to_pylist() == ["B"] * 3
    with pytest.raises(WriterNotFound):
        catalog_of_two.history("db", "C")


def test_history_of_a_pruned_log_begins_where_it_can_be_read(catalog_of_two, store):
    catalog_of_two.writer("A", "db").checkpoint()
    store.delete(log_keys(store, writer="A")[:2])
    assert catalog_of_two.history("db", "A").column("revision").to_pylist() == [2]


def test_history_says_when_the_store_is_away(catalog_of_two, store):
    """That is no damage, and no empty history."""

    class Away(PassingStore):
        def get_many(self, keys):
            raise StorageError("away")

        def get(self, key, *, start=None, end=None):
            raise StorageError("away", key=key)

    with pytest.raises(StorageError):
        Catalog(Away(store)).history("db")
