"""What each operation costs: the `Requests:` of every public docstring, counted."""

from __future__ import annotations

import datetime as dt
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog, open_catalog
from lakelog.catalog.data.footers.read import read_footer
from lakelog.catalog.log import checkpoint_files
from lakelog.catalog.read.log_reader import LogReader
from lakelog.cli.inputs.patterns import list_files
from lakelog.errors import SchemaConflict
from lakelog.store import kept_key
from lakelog.store.places import WideStore
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import START_US
from lakelog.testing.keys import log_keys
from own_files import add_own

ROWS = pa.table({"a": [1, 2, 3]})


def write(writer, **options):
    with writer.transaction(**options) as tx:
        tx.write("t", ROWS)
    return tx


@pytest.fixture
def counting(store):
    return CountingStore(store)


@pytest.fixture
def filled(catalog, fake):
    """Three writers of `db` and one of `other`, each with 7 commits and a checkpoint at the 4th."""
    for name, database in (("A", "db"), ("B", "db"), ("C", "db"), ("D", "other")):
        fake.wall_us = START_US
        writer = catalog.writer(name, database, checkpoint_every=0)
        for number in range(7):
            write(writer)
            if number == 3:
                writer.checkpoint()
            fake.move(1)
        writer.close()
    return catalog


class Spent:
    """Counts what is spent in a `with` block, and holds it against a budget."""

    def __init__(self, counting, **budget):
        self.counting, self.budget = counting, budget

    def __enter__(self):
        self.counting.reset()

    def __exit__(self, kind, error, trace):
        if kind is None:
            spent = {name: count for name, count in self.counting.reset().items() if count}
            assert spent == {name: count for name, count in self.budget.items() if count}


# --- Looking around -------------------------------------------------------------------------------


def test_opening_a_catalog_costs_nothing(counting, filled):
    with Spent(counting):
        catalog = Catalog(counting)
        assert repr(catalog)
    open_catalog("memory://budget")


def test_databases(counting, filled):
    """1 LIST, 1 for each writer, 1 for each writer and database."""
    with Spent(counting, list=1 + 4 + 4):
        Catalog(counting).databases()


def test_writers(counting, filled):
    """1 LIST, and 1 for each writer; 1 for each that has no log of it: is there a mirror?"""
    with Spent(counting, list=1 + 4 + 1):
        Catalog(counting).writers("db")


def test_history(counting, filled):
    """1 LIST and 1 for each writer; 1 for each that has no log of it: is there a mirror? Then as
    reading the newest snapshot, and all names."""
    with Spent(counting, list=1 + 4 + 1 + 3, get=3 * (1 + 3)):
        Catalog(counting).history("db")
    with Spent(counting, list=1 + 4 + 1 + 1, get=1 + 3):
        Catalog(counting).history("db", "A")


# --- Snapshots ------------------------------------------------------------------------------------


def test_the_newest_snapshot(counting, filled):
    """1 LIST, 1 for each writer, and 1 more for each that has no log of it: was it lost? Then 1 GET
    for a checkpoint and each later transaction."""
    with Spent(counting, list=1 + 4 + 1, get=3 * (1 + 3)):
        Catalog(counting).snapshot("db")


def test_many_writers_cost_two_requests_each(counting, catalog):
    """1 LIST, and 1 LIST and 1 GET for each writer of one commit: nothing is asked for twice."""
    for number in range(40):
        write(catalog.writer(f"w{number}", "db"))
    with Spent(counting, list=1 + 40, get=40):
        assert len(Catalog(counting).snapshot("db").cut.writers) == 40


def test_a_checkpoint_at_the_head_costs_the_beginning_of_its_transaction(counting, filled):
    """1 GET more, of 80 bytes, and only where no transaction above the checkpoint tells."""
    filled.writer("D", "other").checkpoint()
    with Spent(counting, list=1 + 4 + 3, get=1 + 1):
        Catalog(counting).snapshot("other")
    with Spent(counting, list=1, get=1 + 1):
        LogReader(counting, "D", "other").load()


def test_a_snapshot_at_a_time_before_the_head_reads_the_log_twice(counting, filled):
    at = dt.datetime.fromtimestamp(START_US / 1e6 + 4.5, dt.UTC)
    with Spent(counting, list=1 + 4 + 1 + 3, get=3 * ((1 + 3) + (1 + 1))):
        Catalog(counting).snapshot("db", at)


def test_a_snapshot_at_a_time_after_the_head_reads_it_once(counting, filled):
    with Spent(counting, list=1 + 4 + 1, get=3 * (1 + 3)):
        Catalog(counting).snapshot("db", dt.datetime(2100, 1, 1, tzinfo=dt.UTC))


def test_a_snapshot_of_a_cut_lists_its_writers_alone(counting, filled):
    token = filled.snapshot("db", {"A": 5, "B": 2}).token
    with Spent(counting, list=2, get=(1 + 2) + 3):
        Catalog(counting).snapshot("db", token)
    with Spent(counting, list=1, get=1 + 1):  # and the beginning of the checkpoint's transaction
        Catalog(counting).snapshot("db", {"C": 3})


def test_spilled_segments_cost_one_get_each(counting, filled, store):
    store.delete(log_keys(store, "checkpoint", writer="A"))  # else its pieces are taken over
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", 0):
        info = filled.writer("A", "db").checkpoint()
    assert info.segments == 4  # files and their statistics, schemas, history
    with Spent(counting, list=1, get=1 + 1):
        snapshot = Catalog(counting).snapshot("db", {"A": 6})
    with Spent(counting, get=1 + 1):
        snapshot.files("t")
    with Spent(counting, get=1):  # all columns: the piece of files once more
        snapshot.files("t", details=True)
    with Spent(counting):
        snapshot.schema("t")
        snapshot.tables()
    item = LogReader(store, "A", "db").names().checkpoints[6][0]
    with Spent(counting, get=1):
        state = LogReader(counting, "A", "db").checkpoint_state(item)
    with Spent(counting, get=1 + 1 + 1):
        assert (len(state.files.tables()), state.history.table().num_rows) == (1, 7)
        assert len(state.schemas.entries) == 1


def test_a_refresh_when_nothing_is_new(counting, filled):
    """1 LIST for each writer, 1 to find new ones, and 2 for the other writer of the catalog: has it
    a log of the database, or the copy of one?"""
    snapshot = Catalog(counting).snapshot("db")
    with Spent(counting, list=3 + 1 + 2):
        assert snapshot.refresh() is snapshot


def test_a_refresh_of_named_writers_looks_for_no_others(counting, filled):
    snapshot = Catalog(counting).snapshot("db", {"A": 6, "B": 3})
    with Spent(counting, list=2, get=3):
        snapshot = snapshot.refresh()
    with Spent(counting, list=2):
        assert snapshot.refresh() is snapshot


def test_a_refresh_when_something_is_new(counting, filled):
    """As when nothing is; and 1 GET for each new transaction."""
    snapshot = Catalog(counting).snapshot("db")
    writer = filled.writer("B", "db")
    write(writer)
    write(writer)
    with Spent(counting, list=3 + 1 + 2, get=2):
        snapshot.refresh()


def test_a_refresh_that_finds_a_new_writer(counting, filled):
    """As when nothing is new; the new log is read by the LIST that found it, and its 2 commits."""
    snapshot = Catalog(counting).snapshot("db")
    writer = filled.writer("E", "db")
    write(writer)
    write(writer)
    with Spent(counting, list=3 + 1 + 2 + 1, get=2):
        assert "E" in snapshot.refresh().cut.writers


def test_what_a_snapshot_knows_costs_nothing(counting, filled):
    snapshot = Catalog(counting).snapshot("db")
    with Spent(counting):
        snapshot.tables()
        snapshot.schema("t")
        snapshot.files("t")
        snapshot.files("t", details=True)
        snapshot.file_parts("t")
        assert snapshot.token
        snapshot.scan("t")


def test_reading_rows_costs_a_few_gets_a_file(counting, filled):
    snapshot = Catalog(counting).snapshot("db")
    counting.reset()
    assert snapshot.to_arrow("t").num_rows == 63
    spent = counting.reset()
    assert 21 <= spent.pop("get") <= 3 * 21
    assert not any(spent.values()), "the size is known: no HEAD"


# --- Writing --------------------------------------------------------------------------------------


def test_opening_a_writer(counting, filled):
    """1 GET of what is kept about the store, 1 LIST of the mirror, 1 LIST, and as reading the
    newest state of this one log."""
    catalog = Catalog(counting)
    with Spent(counting, get=1 + (1 + 3), list=2):
        catalog.writer("A", "db")
    with Spent(counting, get=1 + 3, list=2):  # known to the store object
        catalog.writer("B", "db")
    # No log: is there a twin's, or a mirror of a lost one, or is the root inside another catalog?
    with Spent(counting, list=2 + 3 + 1):
        catalog.writer("new", "db")
    # Where nothing is kept, on a store that takes puts in turn: 2 race, and the finding is kept.
    fresh = CountingStore(counting.inner)
    fresh.probed = None
    fresh.inner.delete([kept_key(fresh, "new/")])
    with Spent(fresh, put=2 + 1, get=1 + 1, list=2 + 3 + 1 + 1):
        Catalog(fresh).writer("new", "db")
    # A guest begins it, and puts the copy: 1 GET finds none, 1 reads what stands.
    with Spent(counting, list=2 + 3 + 1 + 1, put=2, get=1 + 2):
        catalog.writer("new", "db", shared=True).close()


def test_a_commit_costs_a_put_and_its_copy_another(counting, filled, fake):
    """The copy of a commit is put beside the next one; closing puts that of the last."""
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    with Spent(counting, head=1, put=1 + 1):  # is there news? Then a file and the commit
        write(writer)
    with Spent(counting, head=1, put=1 + 1):
        write(writer)
    with Spent(counting, head=1, put=1 + 1 + 1):  # and the copy of the first
        write(writer)
    with Spent(counting, put=2):
        writer.close()


def test_an_opening_puts_the_copies_that_a_dead_writer_left_out(counting, filled, fake):
    """1 GET and 1 PUT each: of the two newest commits at the most."""
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    for _ in range(3):
        write(writer)
    catalog = Catalog(counting, ambient=fake.ambient)
    with Spent(counting, put=2, get=(1 + 6) + 2, list=2):
        catalog.writer("A", "db")


def test_a_transaction_costs_a_look_its_files_and_one_put(counting, filled, fake):
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    with Spent(counting, head=1):
        tx = writer.transaction()
    with Spent(counting, put=2):
        tx.write("t", ROWS)
        tx.write("u", ROWS)
    with Spent(counting, head=1):
        writer.transaction().discard()
    with Spent(counting, put=1):
        tx.commit()
    with Spent(counting):
        tx.commit()
    with Spent(counting, head=1):
        writer.transaction().commit()


def test_a_transaction_that_begins_reads_what_others_committed(counting, filled, fake):
    """1 HEAD, and if there is news 1 LIST and 1 GET a transaction."""
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db", shared=True)
    other = filled.writer("A", "db", shared=True)
    write(other)
    write(other)
    with Spent(counting, head=1, list=1, get=2):
        writer.transaction().discard()
    with Spent(counting, head=1):
        writer.transaction().discard()
    new = Catalog(counting, ambient=fake.ambient).writer("new", "db")
    with Spent(counting, head=1):  # the first name follows from those of writer and database
        new.transaction().discard()


def test_a_commit_without_files_costs_a_put_and_a_copy(counting, filled, fake):
    """1 HEAD, 1 PUT, and the copy of the commit before the last."""
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    first, second = write(writer), write(writer)
    paths = [next(iter(tx._added)) for tx in (first, second)]
    with Spent(counting, head=1, put=1 + 1), writer.transaction() as tx:
        tx.remove(paths[0])
    with Spent(counting, head=1, put=1 + 1 + 1), writer.transaction() as tx:
        tx.remove(paths[1])
        tx.write("t", ROWS)
    with Spent(counting, head=1, put=1 + 1), writer.transaction() as tx:
        tx.evolve("t", add={"b": pa.int64()})
    with Spent(counting, head=1, put=1 + 1), writer.transaction(app_id="x", app_version=1):
        pass
    with Spent(counting, head=1, put=1), writer.transaction(app_id="x", app_version=1):
        pass  # skipped: only a copy was still to be put


def test_a_write_that_is_refused_by_its_columns_costs_nothing(counting, filled, fake):
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    with writer.transaction() as tx:
        tx.evolve("t", add={"b": pa.int64()}, drop=["a"])
    tx = writer.transaction()
    with Spent(counting), pytest.raises(SchemaConflict, match="was dropped"):
        tx.write("t", ROWS)
    tx.discard()


def test_files_that_are_refused_are_read_once(counting, filled, fake):
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    with writer.transaction() as tx:
        tx.evolve("t", add={"b": pa.int64()}, drop=["a"])
    body = pa.BufferOutputStream()
    pq.write_table(ROWS, body)
    counting.put("A/db/data/in/old.parquet", body.getvalue().to_pybytes())
    for _ in range(2):  # the first finds out whether the store folds names
        counting.reset()
        tx = writer.transaction()
        with pytest.raises(SchemaConflict, match="was dropped"):
            add_own(tx, "t", "data/in/old.parquet")
        tx.discard()
    assert {verb: n for verb, n in counting.reset().items() if n} == {
        "head": 1 + 1,
        "get": 1,
    }


def test_many_files_in_one_commit_cost_one_put_more(counting, filled, fake):
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db")
    with Spent(counting, head=1, put=300 + 1), writer.transaction() as tx:
        for _ in range(300):
            tx.write("t", ROWS)


def test_an_application_version_that_stands_already_costs_its_files_alone(counting, filled):
    writer = Catalog(counting).writer("A", "db")
    write(writer, app_id="x", app_version=1)
    with Spent(counting, head=1, put=1, list=1, delete=1):  # put, and deleted again
        assert write(writer, app_id="x", app_version=1).commit_info.skipped


def test_a_lost_race_costs_a_get_a_list_and_a_get_a_transaction_more(counting, filled, fake):
    writer = Catalog(counting, ambient=fake.ambient).writer("A", "db", shared=True)
    other = filled.writer("A", "db", shared=True)
    tx = writer.transaction()
    tx.write("t", ROWS)
    write(other)
    write(other)
    # And the copy that the other one has not put yet.
    with Spent(counting, put=2 + 1, get=1 + 2 + 2, list=1):
        tx.commit()


def test_taking_in_a_file(counting, filled, store):
    """1 HEAD beside the look, and 1 GET of the end of a file, 2 if its footer is over 64 KiB."""
    wide = pa.table({f"column {i}": [i] for i in range(3_000)})
    for name, table, gets in (("small", ROWS, 1), ("wide", wide, 2)):
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        store.put(f"A/db/data/{name}", sink.getvalue().to_pybytes())
        writer = Catalog(counting).writer("A", "db")
        with Spent(counting, head=1 + 1, get=gets):
            add_own(writer.transaction(), "t", f"data/{name}")
        with Spent(counting, get=gets):
            read_footer(counting, f"A/db/data/{name}", sink.getvalue().size)


def test_a_checkpoint(counting, filled):
    """1 PUT, and 1 for each new segment; the LIST of all names."""
    writer = Catalog(counting).writer("A", "db")
    with Spent(counting, put=1, list=1):
        writer.checkpoint()
    with Spent(counting, put=1, list=1):
        writer.checkpoint()


def test_an_automatic_checkpoint_is_one_put_more(counting, filled, fake):
    writer = Catalog(counting, ambient=fake.ambient).writer(
        "A", "db", checkpoint_every=3
    )  # the last one is at 3
    with Spent(counting, head=1, put=1 + 1 + 1):
        assert write(writer).commit_info.revision == 7
    assert writer.last_checkpoint.revision == 7
    with Spent(counting, head=1, put=1 + 1):
        write(writer)


# --- One log --------------------------------------------------------------------------------------


def test_one_log(counting, filled):
    log = LogReader(counting, "A", "db")
    with Spent(counting, list=1):
        listing = log.names()
    with Spent(counting, list=1, get=1 + 3):
        state = log.load()
    with Spent(counting, get=1 + 3):
        log.load(listing=listing)
    with Spent(counting, get=3):
        past = log.load(2, listing)
    with Spent(counting, get=1):
        log.transaction(listing.transactions[5][0])
    with Spent(counting, list=1):
        assert log.advance(state) is state
    with Spent(counting, list=1, get=4):
        assert log.advance(past).revision == 6
    with Spent(counting, list=2):  # and of the mirror: was there a log?
        LogReader(counting, "nobody", "db").load()


def test_a_listing_of_the_tail_is_short(counting, filled, store):
    """A refresh doesn't page through the whole log: names are taken in down to the one it knows."""
    log = LogReader(store, "A", "db")
    listing = log.names_down_to(5)
    assert sorted(listing.transactions) == [4, 5, 6]  # one more: another name could stand on 5
    assert not listing.checkpoints


# --- Files that are to be added -------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["a/b/c", "a/b/c/", "a/b/c/*.parquet"])
def test_to_look_for_other_tables_above_costs_nine_lists_a_folder(counting, folder):
    """Of one page each, however many objects are there."""
    for number in range(3):
        counting.put(f"a/b/c/{number}.parquet", b"")
    for number in range(2_500):
        counting.put(f"a/metadata/{number}.avro", b"")
    wide = WideStore(counting)
    wide._stores["s3://bucket"] = counting
    with Spent(counting, list=9 * len(["", "a", "a/b", "a/b/c"]) + 1, head=folder[-1] == "c"):
        assert len(list_files(wide, [f"s3://bucket/{folder}"]).files) == 3
