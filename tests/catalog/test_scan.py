"""Rows out: one schema over files that differ, projections, and files that aren't what the log
says."""

from __future__ import annotations

import datetime as dt
import io
import random
import threading
import time
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data import parquet as parquet_module
from lakelog.catalog.data import scan as scan_module
from lakelog.catalog.format.schema import COLUMN_ID
from lakelog.errors import (
    CorruptObject,
    ObjectNotFound,
    SchemaConflict,
    StorageError,
    UsageError,
)
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import PassingStore
from own_files import add_own


def put(catalog, *tables, writer="w", name="t", **options):
    """One commit a table, one file a commit. Returns the paths."""
    paths = []
    with catalog.writer(writer, "db") as opened:
        for table in tables:
            with opened.transaction() as tx:
                paths += tx.write(name, table, **options)
    return paths


def rows(catalog, columns=None, name="t"):
    return catalog.snapshot("db").to_arrow(name, columns).to_pylist()


def replace(store, path, body):
    store.put(f"w/db/{path}", body)


def parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


# --- Differing schemas ----------------------------------------------------------------------------


def test_files_of_several_schemas_are_one_table(catalog):
    put(
        catalog,
        pa.table({"a": pa.array([1], pa.int32()), "s": ["x"]}),
        pa.table({"a": pa.array([2], pa.int64())}),
        pa.table({"z": [True], "a": pa.array([3], pa.int8())}),
    )
    snapshot = catalog.snapshot("db")
    schema = pa.schema([("a", pa.int64()), ("s", pa.string()), ("z", pa.bool_())])
    assert snapshot.schema("t") == schema
    table = snapshot.to_arrow("t")
    assert table.schema == schema
    expected = [
        {"a": 1, "s": "x", "z": None},
        {"a": 2, "s": None, "z": None},
        {"a": 3, "s": None, "z": True},
    ]
    assert sorted(table.to_pylist(), key=lambda row: row["a"]) == expected


def test_the_schema_is_that_of_the_live_files(catalog):
    wide, _ = put(catalog, pa.table({"a": [1.5], "old": ["x"]}), pa.table({"a": [2.5]}))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.remove(wide)
    assert catalog.snapshot("db").schema("t") == pa.schema([("a", pa.float64())])
    assert rows(catalog) == [{"a": 2.5}]


def test_writers_that_disagree_are_named(catalog):
    put(catalog, pa.table({"a": ["text"]}), writer="EWR")
    put(catalog, pa.table({"a": [1]}), writer="JFK")
    snapshot = catalog.snapshot("db")
    for call in (snapshot.schema, snapshot.scan, snapshot.to_arrow):
        with pytest.raises(SchemaConflict) as caught:
            call("t")
        assert caught.value.writers == ("EWR", "JFK")
        assert caught.value.key == "a"
    assert snapshot.files("t").num_rows == 2, "the files can be listed all the same"
    assert catalog.snapshot("db", {"JFK": 0}).to_arrow("t").to_pylist() == [{"a": 1}]


def test_a_column_that_was_dropped_and_came_again_is_another_column(catalog):
    put(catalog, pa.table({"a": [1], "b": ["old"]}))
    catalog.evolve("db", "t", drop=["b"], add={"b": pa.int64()})
    put(catalog, pa.table({"a": [2], "b": [20]}))
    found = sorted(rows(catalog), key=lambda row: row["a"])
    assert found == [{"a": 1, "b": None}, {"a": 2, "b": 20}]


def test_ids_that_data_brings_along_count_for_nothing(catalog):
    """pyarrow gives them to whatever it reads from Parquet: they are another table's."""
    swapped = [pa.field(name, pa.int64(), metadata={COLUMN_ID: "1"}) for name in ("b", "a")]
    put(catalog, pa.table({"a": [1], "b": [10]}), pa.table([[20], [2]], pa.schema(swapped)))
    found = sorted(rows(catalog), key=lambda row: row["a"])
    assert found == [{"a": 1, "b": 10}, {"a": 2, "b": 20}]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("x", pa.int32())])),
        pa.map_(pa.string(), pa.int64()),
        pa.decimal128(30, 5),
        pa.timestamp("ns", "UTC"),
        pa.binary(3),
        pa.null(),
    ],
    ids=str,
)
def test_a_column_that_a_file_lacks_is_null_whatever_its_type(catalog, kind):
    put(catalog, pa.table({"a": [1]}), pa.table({"a": [2], "c": pa.nulls(1, kind)}))
    table = catalog.snapshot("db").to_arrow("t")
    assert table.schema.field("c").type == kind
    assert table.column("c").to_pylist() == [None, None]


def test_names_that_look_like_paths(catalog):
    inner = pa.array([{"b": 5}], pa.struct([("b", pa.int64())]))
    put(catalog, pa.table({"a": inner, "a.b": [100]}), pa.table({"a.b": [200]}))
    found = sorted(rows(catalog), key=lambda row: row["a.b"])
    assert found == [{"a": {"b": 5}, "a.b": 100}, {"a": None, "a.b": 200}]
    assert sorted(row["a.b"] for row in rows(catalog, ["a.b"])) == [100, 200]
    assert [row["a"] for row in rows(catalog, ["a"]) if row["a"]] == [{"b": 5}]


# --- Projections ----------------------------------------------------------------------------------


SOME = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [1.5, None]})


@pytest.mark.parametrize("columns", [["a"], ["c", "a"], ["b", "c", "a"], ("b",)])
def test_columns_come_in_the_order_asked_for(catalog, columns):
    put(catalog, SOME)
    table = catalog.snapshot("db").to_arrow("t", columns)
    assert table.column_names == list(columns)
    assert table.equals(SOME.select(columns))


def test_no_columns_keep_the_number_of_rows(catalog):
    put(catalog, SOME, SOME)
    reader = catalog.snapshot("db").scan("t", [])
    assert len(reader.schema) == 0
    assert sum(batch.num_rows for batch in reader) == 4


@pytest.mark.parametrize("columns", [["nope"], ["a", "nope"], ["A"], ["a", "a"], "a", [7]], ids=str)
def test_columns_that_cannot_be(catalog, columns):
    put(catalog, SOME)
    with pytest.raises(UsageError) as caught:
        catalog.snapshot("db").scan("t", columns)
    assert caught.value.hint


def test_a_projection_needs_only_its_own_columns_to_agree(catalog):
    tables = (pa.table({"a": [1], "b": ["x"]}), pa.table({"a": [2], "b": [0]}))
    put(catalog, *tables, on_conflict="allow")
    with pytest.raises(SchemaConflict):
        rows(catalog)
    assert sorted(row["a"] for row in rows(catalog, ["a"])) == [1, 2]
    with pytest.raises(SchemaConflict):
        rows(catalog, ["a", "b"])


# --- Streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole_bytes", [0, 32 << 20])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_rows_come_in_the_order_of_writers_and_of_their_commits(catalog, whole_bytes, checkpoint):
    for first, writer in ((20, "B"), (0, "A")):
        put(catalog, *(pa.table({"a": [n, n + 1]}) for n in range(first, first + 20, 2)),
            writer=writer)  # fmt: skip
        if checkpoint:
            with catalog.writer(writer, "db") as opened:
                opened.checkpoint()
    with mock.patch.object(scan_module, "_WHOLE_BYTES", whole_bytes):
        found = catalog.snapshot("db").to_arrow("t").column("a").to_pylist()
    assert found == list(range(40))


def test_rows_of_one_commit_come_as_they_were_written(catalog):
    """Paths begin with the partition, and number 10 sorts before 2; calls may share a clock."""
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for n in range(12):
            tx.write("t", pa.table({"a": [n]}), partition="pq"[n % 2], clock=(7, 7))
        parts = [pa.table({"a": [n]}) for n in range(12, 30)]
        with mock.patch.object(parquet_module, "ROW_GROUP_ROWS", 1):
            tx.write("t", pa.concat_tables(parts), file_bytes=1)
    snapshot = catalog.snapshot("db")
    assert snapshot.files("t").num_rows == 30
    assert snapshot.to_arrow("t").column("a").to_pylist() == [*range(30)]


def test_rows_of_one_commit_go_by_logical_clock_first_and_foreign_names_last(catalog, store):
    for name in ("data/a.parquet", "data/b.parquet"):
        replace(store, name, parquet(pa.table({"a": [ord(name[5])]})))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", "data/b.parquet", clock=(5, 5))
        add_own(tx, "t", "data/a.parquet", clock=(5, 5))
        tx.write("t", pa.table({"a": [2]}), clock=(5, 9))
        tx.write("t", pa.table({"a": [1]}), clock=(-3, 0))
    found = catalog.snapshot("db").to_arrow("t").column("a").to_pylist()
    assert found == [1, 2, ord("a"), ord("b")]


@pytest.mark.parametrize("whole_bytes", [0, 32 << 20])
def test_a_file_of_many_batches(catalog, whole_bytes):
    put(catalog, pa.table({"a": range(300_000)}))
    with mock.patch.object(scan_module, "_WHOLE_BYTES", whole_bytes):
        batches = list(catalog.snapshot("db").scan("t"))
    assert len(batches) > 2
    assert [v for batch in batches for v in batch.column(0).to_pylist()] == list(range(300_000))


class Slow(PassingStore):
    """Counts how many files are open at the same time."""

    def __init__(self, store):
        super().__init__(store)
        self.guard = threading.Lock()
        self.open = self.most = self.opened = 0

    def open_input(self, key, *, size_bytes=None):
        with self.guard:
            self.open += 1
            self.opened += 1
            self.most = max(self.most, self.open)
        time.sleep(0.01)
        try:
            return super().open_input(key, size_bytes=size_bytes)
        finally:
            with self.guard:
                self.open -= 1


def test_files_are_read_ahead_but_only_a_few(catalog, store):
    put(catalog, *(pa.table({"a": [n]}) for n in range(30)))
    slow = Slow(store)
    reader = Catalog(slow).snapshot("db").scan("t")
    next(iter(reader))
    time.sleep(0.2)
    assert 1 < slow.opened <= 6
    rest = reader.read_all()
    assert rest.num_rows == 29
    assert 1 < slow.most <= 4
    assert slow.opened == 30


def test_a_scan_that_is_given_up_ends_its_threads(catalog, store):
    put(catalog, *(pa.table({"a": [n]}) for n in range(30)))
    before = threading.active_count()
    slow = Slow(store)
    reader = Catalog(slow).snapshot("db").scan("t")
    next(iter(reader))
    del reader
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
    assert slow.opened <= 8


def test_a_scan_reads_nothing_before_it_is_asked_for_rows(catalog, store):
    put(catalog, SOME)
    counting = CountingStore(store)
    snapshot = Catalog(counting).snapshot("db")
    counting.reset()
    reader = snapshot.scan("t")
    assert reader.schema == SOME.schema
    assert not any(counting.reset().values())
    reader.read_all()
    assert 1 <= counting.reset()["get"] <= 4


# --- Files that aren't what the log says ----------------------------------------------------------


def fails(catalog, error, path, columns=None):
    with pytest.raises(error) as caught:
        rows(catalog, columns)
    assert caught.value.key == f"w/db/{path}"
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("whole_bytes", [0, 32 << 20])
def test_a_missing_file_is_named(catalog, store, whole_bytes):
    _, path, _ = sorted(put(catalog, SOME, SOME, SOME))
    store.delete([f"w/db/{path}"])
    with mock.patch.object(scan_module, "_WHOLE_BYTES", whole_bytes):
        found = fails(catalog, ObjectNotFound, path)
    assert "gc" in found.hint


@pytest.mark.parametrize("change", ["cut", "longer", "empty", "text", "flipped"])
def test_a_damaged_file_is_named(catalog, store, change):
    (path,) = put(catalog, SOME)
    body = store.get(f"w/db/{path}")
    middle = len(body) // 2
    damaged = {
        "cut": body[:-1],
        "longer": body + b"\0",
        "empty": b"",
        "text": b"x" * len(body),
        "flipped": body[:20] + bytes([body[20] ^ 0xFF]) + body[21:],
    }[change]
    assert middle
    replace(store, path, damaged)
    fails(catalog, CorruptObject, path)


@pytest.mark.parametrize("whole_bytes", [0, 1 << 30])
def test_a_flipped_bit_that_is_another_value_is_named(catalog, store, whole_bytes):
    """What can't be compressed is stored as it is: only the checksum of its page tells."""
    value = random.Random(1).randbytes(4000)
    (path,) = put(catalog, pa.table({"a": [value]}))
    body = bytearray(store.get(f"w/db/{path}"))
    column = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0)
    end = column.data_page_offset + column.total_compressed_size
    body[body.rindex(value[1000:1100], 0, end)] ^= 1  # headers of pages have no checksum
    replace(store, path, bytes(body))
    with mock.patch.object(scan_module, "_WHOLE_BYTES", whole_bytes):
        fails(catalog, CorruptObject, path)


@pytest.mark.parametrize(
    "table",
    [
        SOME.slice(0, 1),
        pa.concat_tables([SOME, SOME]),
        SOME.drop_columns(["c"]),
        SOME.set_column(0, "a", pa.array(["not", "a number"])),
        SOME.set_column(0, "a", pa.array([{"x": 1}, {"x": 2}])),
        SOME.rename_columns(["a", "b", "C"]),
    ],
    ids=["fewer rows", "more rows", "column lost", "other type", "nested type", "renamed"],
)
def test_another_sound_file_under_the_name_is_named(catalog, store, table):
    """Even of the very size that the log says."""
    (path,) = put(catalog, SOME)
    replace(store, path, parquet(table))
    fails(catalog, CorruptObject, path)
    snapshot = catalog.snapshot("db")
    real = snapshot.file_parts

    def same_size(name):
        size = len(parquet(table))
        return [
            scan_module.FilePart(part.key, size, part.row_count, part.schema) for part in real(name)
        ]

    with mock.patch.object(snapshot, "file_parts", same_size):
        with pytest.raises(CorruptObject) as caught:
            snapshot.to_arrow("t")
        assert caught.value.key == f"w/db/{path}"


def test_a_time_beyond_the_finer_unit_is_a_conflict_not_damage(catalog):
    late = pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us"))
    fine = pa.table({"at": pa.array([1], pa.timestamp("ns")), "n": [1]})
    _, path = put(catalog, fine, pa.table({"at": late, "n": [2]}), on_conflict="allow")
    with pytest.raises(SchemaConflict, match="out of bounds") as caught:
        rows(catalog)
    assert caught.value.key == f"w/db/{path}"
    assert rows(catalog, ["n"]) == [{"n": 1}, {"n": 2}]


def test_a_store_that_is_away_is_no_damage(catalog, store):
    put(catalog, SOME)

    class Away(PassingStore):
        def open_input(self, key, *, size_bytes=None):
            raise StorageError("away", key=key)

    with pytest.raises(StorageError):
        rows(Catalog(Away(store)))


def test_damage_in_one_file_spares_the_rows_before_it(catalog, store):
    paths = put(catalog, *(pa.table({"a": [n]}) for n in range(5)))
    store.delete([f"w/db/{paths[3]}"])
    reader = catalog.snapshot("db").scan("t")
    for _ in range(3):
        assert reader.read_next_batch().num_rows == 1
    with pytest.raises(ObjectNotFound):
        reader.read_next_batch()


# --- Many small files -----------------------------------------------------------------------------


def test_many_small_files_are_read_in_order_and_in_few_batches(catalog):
    count = 300
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in range(count):
            tx.write("t", pa.table({"n": [2 * number, 2 * number + 1]}))
    batches = list(catalog.snapshot("db").scan("t"))
    assert [n for batch in batches for n in batch.column("n").to_pylist()] == list(range(2 * count))
    assert len(batches) < count / 3


def test_who_stops_early_has_read_few_files(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        for number in range(300):
            tx.write("t", pa.table({"n": [number]}))
    counting = CountingStore(catalog.store)
    snapshot = Catalog(counting).snapshot("db")
    counting.reset()
    reader = snapshot.scan("t")
    first = [next(iter(reader)) for _ in range(10)]
    assert sum(batch.num_rows for batch in first) >= 10
    del reader
    assert counting.reset()["get"] <= 30
