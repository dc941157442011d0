"""A write that would make its table unreadable is refused before anything is uploaded."""

from __future__ import annotations

import datetime as dt
import io

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.errors import SchemaConflict, UsageError
from lakelog.testing.counting import CountingStore
from own_files import add_own

INTS = pa.table({"k": ["x"], "a": pa.array([1], pa.int64())})
DOUBLES = pa.table({"k": ["y"], "a": [1.5]})
TEXTS = pa.table({"k": ["z"], "a": ["one"]})


def write(writer, *tables, name="t", **options):
    with writer.transaction() as tx:
        return [path for table in tables for path in tx.write(name, table, **options)]


def read(store):
    return Catalog(store).snapshot("db").to_arrow("t")


def data_keys(store):
    return [info.key for info in store.list("w/db/data/")]


def test_a_conflict_is_refused_before_anything_is_uploaded(catalog, store):
    with catalog.writer("w", "db") as writer:
        (path,) = write(writer, INTS)
        before = data_keys(store)
        with pytest.raises(SchemaConflict) as caught:
            write(writer, DOUBLES)
    assert caught.value.message == (
        f"Column 'a' of table 't' is int64 in files of 'w' ({path} for one) and double in the "
        "data to be written"
    )
    assert "on_conflict='allow'" in caught.value.hint
    assert data_keys(store) == before
    assert read(store).equals(pa.table({"k": ["x"], "a": [1]}))


def test_what_can_be_united_goes_through(catalog, store):
    small = pa.table({"a": pa.array([1], pa.int16())})
    with catalog.writer("w", "db") as writer:
        write(writer, small, pa.table({"a": [2.5]}), pa.table({"b": ["x"]}))
        write(writer, pa.table({"a": pa.nulls(1)}))
    assert sorted(read(store)["a"].drop_null().to_pylist()) == [1.0, 2.5]


@pytest.mark.parametrize("at_once", [True, False])
def test_each_two_types_must_unite(catalog, store, at_once):
    """A decimal holds the values of int8 and of uint64; without it they have no common type, and
    its files may go."""
    tables = [pa.table({"a": pa.array([1], kind)}) for kind in (pa.decimal128(5, 2), pa.int8())]
    last = pa.table({"a": pa.array([2**64 - 1], pa.uint64())})
    with catalog.writer("w", "db") as writer:
        if at_once:
            with writer.transaction() as tx:
                for table in tables:
                    tx.write("t", table)
                with pytest.raises(SchemaConflict, match="int8 in this transaction and uint64"):
                    tx.write("t", last)
        else:
            write(writer, *tables)
            with pytest.raises(SchemaConflict, match="is int8 in files of 'w'"):
                write(writer, last)
    assert read(store)["a"].type == pa.decimal128(5, 2)


def test_it_can_be_allowed(catalog, store):
    with catalog.writer("w", "db") as writer:
        write(writer, INTS)
        write(writer, DOUBLES, on_conflict="allow")
        with pytest.raises(SchemaConflict):
            read(store)
        # What is in conflict already stops no write that adds none; a new one it does.
        write(writer, INTS, DOUBLES)
        with pytest.raises(SchemaConflict, match="'k'"):
            write(writer, pa.table({"k": [1], "a": [1]}))
        with writer.transaction() as tx, pytest.raises(UsageError, match="on_conflict"):
            tx.write("t", INTS, on_conflict="ignore")
    assert Catalog(store).snapshot("db").files("t").num_rows == 4


def test_within_one_transaction(catalog, store):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            tx.write("t", INTS)
            with pytest.raises(SchemaConflict, match="in the data to be written"):
                tx.write("t", TEXTS)
            tx.write("u", TEXTS)
        assert read(store).num_rows == 1


def test_files_that_are_removed_first_do_not_count(catalog, store):
    with catalog.writer("w", "db") as writer:
        paths = write(writer, INTS, INTS)
        with writer.transaction() as tx:
            tx.remove(paths[0])
            with pytest.raises(SchemaConflict):
                tx.write("t", DOUBLES)
            tx.remove(paths[1])
            tx.write("t", DOUBLES)
        assert read(store)["a"].to_pylist() == [1.5]
        # The old type is dead now, and comes back no more.
        write(writer, DOUBLES)
        with pytest.raises(SchemaConflict):
            write(writer, INTS)
    with catalog.writer("w", "db") as again, pytest.raises(SchemaConflict):
        write(again, INTS)
    assert read(store)["a"].to_pylist() == [1.5, 1.5]


def test_a_removal_that_was_discarded_counts_for_nothing(catalog, store):
    with catalog.writer("w", "db") as writer:
        (path,) = write(writer, INTS)
        tx = writer.transaction()
        tx.remove(path)
        tx.write("t", DOUBLES)
        tx.discard()
        with pytest.raises(SchemaConflict):
            write(writer, DOUBLES)


def test_an_empty_table_is_read_by_all_that_the_log_knows(catalog, store):
    with catalog.writer("w", "db") as writer:
        (path,) = write(writer, INTS)
        with writer.transaction() as tx:
            tx.remove(path)
        with pytest.raises(SchemaConflict):
            write(writer, DOUBLES.slice(0, 0))  # no file would have it, so both would count
        assert read(store).num_rows == 0
        write(writer, DOUBLES)
    assert read(store)["a"].to_pylist() == [1.5]


def test_files_that_are_added(catalog, store):
    sink = io.BytesIO()
    pq.write_table(DOUBLES, sink)
    store.put("w/db/data/x.parquet", sink.getvalue())
    with catalog.writer("w", "db") as writer:
        write(writer, INTS)
        with writer.transaction() as tx:
            with pytest.raises(SchemaConflict, match="'a'"):
                add_own(tx, "t", "data/x.parquet")
            add_own(tx, "t", "data/x.parquet", on_conflict="allow")
    assert Catalog(store).snapshot("db").files("t").num_rows == 2


def test_other_writers_logs_are_not_asked(catalog, store):
    with catalog.writer("v", "db") as other, catalog.writer("w", "db") as writer:
        write(other, INTS)
        write(writer, DOUBLES)
    with pytest.raises(SchemaConflict):
        read(store)


def test_from_a_checkpoint_and_at_no_further_request(catalog, store):
    """A write reads a table's schemas, as it always did; files are asked for in conflict only."""
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        (path,) = write(writer, INTS)
        write(writer, TEXTS, name="other")
        writer.checkpoint()
    counting, spent = CountingStore(store), {}
    for on_conflict in ("allow", "raise"):
        with Catalog(counting).writer("w", "db", checkpoint_every=0) as writer:
            counting.reset()
            for _ in range(3):
                write(writer, INTS, on_conflict=on_conflict)
            spent[on_conflict] = counting.reset()
            if on_conflict == "raise":
                with pytest.raises(SchemaConflict, match=path):
                    write(writer, DOUBLES)
    for found in spent.values():
        assert (found["get"], found["put"]) == (0, 9)  # a file, a commit, and the copy of that


def test_files_are_not_asked_for_at_every_write(catalog, store, monkeypatch):
    """Where there is a conflict already, that was allowed."""
    from lakelog.catalog.log.state import State

    calls = []
    real = State.table_of
    monkeypatch.setattr(State, "table_of", lambda *args: calls.append(1) or real(*args))
    with catalog.writer("w", "db") as writer:
        write(writer, INTS)
        (path,) = write(writer, DOUBLES, on_conflict="allow")
        for _ in range(10):
            write(writer, INTS)
        assert len(calls) <= 2
        with writer.transaction() as tx:  # from here on it would be a new conflict
            tx.remove(path)
            tx.write("t", INTS)
        with pytest.raises(SchemaConflict):
            write(writer, DOUBLES)
    assert read(store).num_rows == 12


def test_many_schemas_of_a_table_are_united_once(catalog, store, monkeypatch):
    from lakelog.catalog.commit import schema_compatibility

    calls = []
    real = schema_compatibility.unify

    def counted(schemas, table):
        calls.append(len(schemas))
        return real(schemas, table)

    monkeypatch.setattr(schema_compatibility, "unify", counted)
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for number in range(20):
            write(writer, pa.table({f"c{number}": [1]}))
        calls.clear()
        for _ in range(20):
            write(writer, pa.table({"c0": [1]}))
    assert max(calls, default=0) <= 20
    assert sum(calls) <= 20 + 20  # all of them once, and each transaction's own


def looked_at_in_vain(writer, table):
    """A write that is let through, and given up."""
    tx = writer.transaction()
    tx.write("t", table)
    tx.discard()


def removed(writer, *paths):
    with writer.transaction() as tx:
        for path in paths:
            tx.remove(path)


def test_a_type_that_others_bring_back_counts(catalog):
    """After its files were gone, and a write had looked for them."""
    guest, other = (catalog.writer("w", "db", shared=True) for _ in range(2))
    removed(guest, *write(guest, INTS))
    looked_at_in_vain(guest, TEXTS)
    write(other, INTS)
    write(guest, INTS, name="u")  # now it has seen that
    with pytest.raises(SchemaConflict, match="'a'"):
        write(guest, TEXTS)


def test_what_was_allowed_counts_too(catalog, store):
    with catalog.writer("w", "db") as writer:
        (ints,) = write(writer, INTS)
        with writer.transaction() as tx:
            tx.remove(ints)
            (texts,) = tx.write("t", TEXTS)
        (more,) = write(writer, TEXTS)
        write(writer, INTS, on_conflict="allow")
        removed(writer, texts, more)
        with pytest.raises(SchemaConflict, match="'a'"):
            write(writer, TEXTS)
        assert read(store).num_rows == 1


def test_a_conflict_that_was_mended_stays_mended(catalog, store):
    with catalog.writer("w", "db") as writer:
        write(writer, INTS)
        texts = write(writer, TEXTS, on_conflict="allow")
        texts += write(writer, TEXTS)  # nothing gets worse by these
        texts += write(writer, TEXTS)
        removed(writer, *texts)
        with pytest.raises(SchemaConflict, match="'a'"):
            write(writer, TEXTS)
        assert read(store).num_rows == 1


# --- Times that don't fit -------------------------------------------------------------------------

FINE = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
LATE = dt.datetime(9999, 12, 31)
BEYOND = [
    pa.array([dt.datetime(2000, 1, 1), LATE], pa.timestamp("us")),
    pa.array([None, LATE], pa.timestamp("ms")),
    pa.array([None, LATE.date()], pa.date32()),
]


@pytest.mark.parametrize("values", BEYOND, ids=lambda values: str(values.type))
def test_a_time_beyond_the_tables_unit_is_refused_before_anything_is_uploaded(
    catalog, store, values
):
    late = pa.table({"at": values})
    with catalog.writer("w", "db") as writer:
        write(writer, FINE)
        before = data_keys(store)
        with pytest.raises(SchemaConflict, match=r"'at' of table 't' is read as timestamp\[ns\]"):
            write(writer, late, file_bytes=1)
        with pytest.raises(SchemaConflict):
            write(writer, pa.table({"at": values.slice(1)}).to_batches()[0])
        assert data_keys(store) == before
        assert read(store).num_rows == 1
        write(writer, late, on_conflict="allow")
    with pytest.raises(lakelog.LakelogError):
        read(store)


def test_times_that_fit_go_through(catalog, store):
    with catalog.writer("w", "db") as writer:
        write(writer, FINE)
        write(writer, pa.table({"at": pa.array([dt.datetime(2262, 1, 1)], pa.timestamp("us"))}))
        write(writer, pa.table({"at": pa.array([LATE], pa.timestamp("us"))}), name="other")
    assert read(store).num_rows == 2


def test_times_inside_of_lists_and_structs(catalog):
    kinds = [pa.struct([("at", pa.list_(pa.timestamp(unit)))]) for unit in ("ns", "us")]
    fine, late = (
        pa.table({"s": pa.array([{"at": [at]}], kind)})
        for at, kind in zip((dt.datetime(2000, 1, 1), LATE), kinds, strict=True)
    )
    with catalog.writer("w", "db") as writer:
        write(writer, fine)
        with pytest.raises(SchemaConflict, match="'s'"):
            write(writer, late)


def test_times_of_one_transaction(catalog, store):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        coarse = pa.table({"at": pa.array([1], pa.timestamp("us"))})
        tx.write("t", coarse)
        tx.write("t", FINE)
        with pytest.raises(SchemaConflict):
            tx.write("t", pa.table({"at": BEYOND[0]}))
    assert read(store).num_rows == 2


def test_times_of_a_stream_are_looked_at_as_they_come(catalog, store):
    late = pa.table({"at": BEYOND[0]})
    reader = pa.RecordBatchReader.from_batches(late.schema, late.to_batches(max_chunksize=1))
    with catalog.writer("w", "db") as writer:
        write(writer, FINE)
        with writer.transaction() as tx, pytest.raises(SchemaConflict):
            tx.write("t", reader, file_bytes=1)
    assert read(store).num_rows == 1


def test_files_that_are_gone_make_no_unit(catalog, store):
    with catalog.writer("w", "db") as writer:
        (path,) = write(writer, FINE)
        with writer.transaction() as tx:
            with pytest.raises(SchemaConflict):
                tx.write("t", pa.table({"at": BEYOND[0]}))
            tx.remove(path)
            tx.write("t", pa.table({"at": BEYOND[0]}))
        write(writer, pa.table({"at": BEYOND[1]}))
    assert read(store)["at"].to_pylist().count(LATE) == 2
