"""Tables with a key, one matter at a time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from lakelog import open_catalog
from lakelog.catalog.data import key_rows
from lakelog.catalog.data.key_rows import KeyFile, superseded_rows
from lakelog.errors import InvalidSchema, SchemaConflict, UsageError


@pytest.fixture
def catalog(tmp_path):
    return open_catalog(str(tmp_path / "lake"))


def rows(*pairs):
    ids, texts = zip(*pairs)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(texts, pa.string())})


def keyed(catalog, *writers, key=("id",)):
    """Writers whose logs give the table a key."""
    found = []
    for name in writers:
        writer = catalog.writer(name, "db")
        with writer.transaction() as tx:
            tx.write("t", rows((0, "")).slice(0, 0))
            tx.evolve("t", key=list(key))
        found.append(writer)
    return found


def write(writer, *pairs, clock, table="t", **options):
    with writer.transaction() as tx:
        return tx.write(table, rows(*pairs), clock=(clock, clock), **options)


def read(catalog, **asked):
    found = catalog.snapshot("db").to_arrow("t", **asked).to_pylist()
    return {row["id"]: row["x"] for row in found}


def parts(catalog):
    return catalog.snapshot("db").file_parts("t")


# --- What a key means -----------------------------------------------------------------------------


def test_the_newest_clock_counts_then_the_revision_then_the_writer_then_the_row(catalog):
    u, v = keyed(catalog, "u", "v")
    write(u, (1, "clock 9"), (2, "revision 1"), (3, "writer u"), (4, "old"), (4, "row"), clock=9)
    write(v, (1, "clock 8"), (3, "writer v"), clock=8)
    assert read(catalog) == {1: "clock 9", 2: "revision 1", 3: "writer u", 4: "row"}
    write(u, (2, "revision 2"), (5, "u"), clock=9)
    write(v, (5, "v"), (2, "of the lower clock"), clock=8)
    write(v, (5, "v at 9"), clock=9)
    assert read(catalog)[2] == "revision 2"
    assert read(catalog)[5] == "v at 9"


def test_of_one_clock_and_revision_the_later_writer_counts(catalog):
    u, v = keyed(catalog, "u", "v")
    write(v, (1, "v"), clock=5)
    write(u, (1, "u"), clock=5)
    assert read(catalog) == {1: "v"}


def test_rows_without_a_key_are_all_read(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (None, "a"), (None, "b"), (1, "c"), clock=1)
    write(u, (None, "a"), (1, "d"), clock=2)
    found = sorted(row["x"] for row in catalog.snapshot("db").to_arrow("t").to_pylist())
    assert found == ["a", "a", "b", "d"]


def test_files_that_are_skipped_count_all_the_same(catalog):
    u, v = keyed(catalog, "u", "v")
    write(u, (1, "old"), (2, "old"), clock=1)
    write(v, (1, "new"), clock=2, partition="p")
    assert read(catalog, where="x = 'old'") == {2: "old"}
    assert read(catalog, partition="") == {2: "old"}
    assert read(catalog, writer="u") == {2: "old"}
    assert read(catalog, writer="v") == {1: "new"}


def test_a_deleted_row_brings_no_older_one_back(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "old"), (2, "old"), clock=1)
    write(u, (1, "new"), clock=2)
    for mode in ("rows", "predicate"):
        with u.transaction() as tx:
            said = tx.delete("t", "x = 'new'", mode=mode)
        assert said.files_removed == 0
        assert read(catalog) == {2: "old"}
        write(u, (1, "new"), clock=3)
        assert read(catalog) == {1: "new", 2: "old"}


@pytest.mark.parametrize("mode", ["rows", "predicate"])
def test_a_delete_in_a_log_that_knows_of_no_key_leaves_files(catalog, mode):
    (u,) = keyed(catalog, "u")
    v = catalog.writer("v", "db")
    write(u, (1, "old"), clock=1)
    write(v, (1, "new"), clock=2)
    with v.transaction() as tx:
        assert tx.delete("t", "x = 'new'", mode=mode).files_removed == 0
    assert read(catalog) == {}
    write(v, (1, "newer"), clock=3)
    with v.transaction() as tx:
        said = tx.upsert("t", rows((2, "newer")), key=["x"])
    assert (said.replaced, said.files_removed) == (1, 0)
    assert read(catalog) == {2: "newer"}


def test_a_file_that_is_removed_does(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "old"), clock=1)
    (path,) = write(u, (1, "new"), clock=2)
    with u.transaction() as tx:
        tx.remove(path)
    assert read(catalog) == {1: "old"}


def test_each_point_in_time_has_its_own_rows(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "old"), clock=1)
    token = catalog.snapshot("db").token
    write(u, (1, "new"), clock=2)
    assert read(catalog) == {1: "new"}
    assert catalog.snapshot("db", token).to_arrow("t").to_pylist() == [{"id": 1, "x": "old"}]


def test_a_table_without_a_key_any_more_gives_all_rows(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "old"), clock=1)
    write(u, (1, "new"), clock=2)
    with u.transaction() as tx:
        tx.evolve("t", key=[])
    assert catalog.snapshot("db").to_arrow("t").num_rows == 2
    assert catalog.snapshot("db").key("t") == ()


TYPES = [
    (pa.int32(), 1, 2), (pa.uint64(), 1, 1 << 63), (pa.string(), "a", "b"),
    (pa.large_string(), "a", "b"), (pa.binary(), b"a", b"b"), (pa.binary(2), b"ab", b"cd"),
    (pa.bool_(), False, True), (pa.date32(), dt.date(2026, 1, 1), dt.date(2026, 1, 2)),
    (pa.time64("us"), dt.time(1), dt.time(2)),
    (pa.timestamp("ms", "UTC"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
     dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
    (pa.decimal128(9, 2), Decimal("1.00"), Decimal("2.50")),
    (pa.decimal256(40, 2), Decimal("1.00"), Decimal("2.50")),
    (pa.dictionary(pa.int8(), pa.string()), "a", "b"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "one", "other"), TYPES, ids=[str(kind) for kind, *_ in TYPES])
def test_keys_of_each_type(catalog, kind, one, other):
    writer = catalog.writer("u", "db")

    def table(*values, number):
        return pa.table({"k": pa.array(values, kind), "n": [number] * len(values)})

    with writer.transaction() as tx:
        tx.write("t", table(one, other, one, None, number=1), clock=(1, 1))
        tx.evolve("t", key=["k"])
    with writer.transaction() as tx:
        tx.write("t", table(other, None, number=2), clock=(2, 2))
    snapshot = catalog.snapshot("db")
    found = [(row["k"], row["n"]) for row in snapshot.to_arrow("t").to_pylist()]
    assert sorted(found, key=str) == sorted([(one, 1), (other, 2), (None, 1), (None, 2)], key=str)
    with writer.transaction() as tx:
        assert tx.upsert("t", table(one, one, number=3), key=["k"]).rows == 1
    found = catalog.snapshot("db").to_arrow("t").to_pylist()
    assert {row["n"] for row in found if row["k"] == one} == {3}


def test_keys_meet_across_types(catalog):
    u, v = catalog.writer("u", "db"), catalog.writer("v", "db")
    for writer, kind in ((u, pa.int16()), (v, pa.int64())):
        with writer.transaction() as tx:
            number = 1 if writer is u else 2
            ids = pa.array([1, number + 1], kind)
            tx.write("t", pa.table({"id": ids, "n": [number] * 2}), clock=(number, number))
            tx.evolve("t", key=["id"])
    found = catalog.snapshot("db").to_arrow("t").to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(1, 2), (2, 1), (3, 2)]


def test_a_default_is_a_key_as_any_other(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "a"), (1, "b"), clock=1)
    with u.transaction() as tx:
        tx.evolve("t", add={"kind": pa.string()}, default={"kind": "k"}, key=["kind"])
    assert read(catalog) == {1: "b"}
    with u.transaction() as tx:
        tx.write("t", rows((2, "c")).append_column("kind", [["k"]]), clock=(2, 2))
    assert read(catalog) == {2: "c"}


# --- Declaring it ---------------------------------------------------------------------------------


def test_a_key_follows_its_column(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "old"), clock=1)
    with u.transaction() as tx:
        tx.evolve("t", rename={"id": "number"})
    with u.transaction() as tx:
        tx.write("t", pa.table({"number": [1], "x": ["new"]}), clock=(2, 2))
    snapshot = catalog.snapshot("db")
    assert snapshot.key("t") == ("number",)
    assert snapshot.to_arrow("t").to_pylist() == [{"number": 1, "x": "new"}]


def test_what_no_key_can_be(catalog):
    (u,) = keyed(catalog, "u")
    with u.transaction() as tx:
        for change, error in (
            ({"drop": ["id"]}, UsageError),
            ({"key": ["none"]}, UsageError),
            ({"key": ["id", "id"]}, UsageError),
            ({"key": "id"}, UsageError),
            ({"add": {"f": pa.float64()}, "key": ["f"]}, InvalidSchema),
            ({"add": {"l": pa.list_(pa.int64())}, "key": ["l"]}, InvalidSchema),
        ):
            with pytest.raises(error):
                tx.evolve("t", **change)
        tx.evolve("t", drop=["id"], key=["x"])
    assert catalog.snapshot("db").key("t") == ("x",)


def test_two_logs_with_different_keys_are_a_conflict(catalog):
    keyed(catalog, "u")
    (v,) = keyed(catalog, "v", key=("x",))
    with pytest.raises(SchemaConflict, match=r"'u'.*'v'") as caught:
        read(catalog)
    assert caught.value.writers == ("u", "v")
    with v.transaction() as tx:
        tx.evolve("t", key=["id"])
    assert read(catalog) == {}


def test_a_key_in_all_logs(catalog):
    u, v = catalog.writer("u", "db"), catalog.writer("v", "db")
    write(u, (1, "old"), clock=1)
    write(v, (1, "new"), clock=2)
    planned = catalog.evolve("db", "t", key=["id"], execute=False)
    assert [(item.key, item.changes) for item in planned] == [(("id",), True)] * 2
    catalog.evolve("db", "t", key=["id"])
    assert read(catalog) == {1: "new"}
    assert not any(item.changes for item in catalog.evolve("db", "t", key=["id"]))


def test_a_log_whose_files_make_the_key_a_float_can_not_be_read(catalog):
    keyed(catalog, "u")
    v = catalog.writer("v", "db")
    with v.transaction() as tx:
        tx.write("t", pa.table({"id": pa.array([1.5]), "x": ["f"]}))
    write(catalog.writer("w", "db"), (1, "a"), clock=1)
    with pytest.raises(SchemaConflict):
        read(catalog, columns=["x"])


# --- Files that are not touched -------------------------------------------------------------------


def test_files_that_hold_each_key_once_and_meet_no_other_are_not_looked_into(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "a"), (3, "b"), clock=1)
    write(u, (4, "c"), (9, "d"), (None, "e"), (None, "f"), clock=2)
    snapshot = catalog.snapshot("db")
    assert snapshot._tables.touched("t") == 0
    assert snapshot.explain("t", "x > ''").column("key_files").to_pylist() == [0, 0]
    assert all(part.hidden is None for part in snapshot.file_parts("t"))
    write(u, (7, "new"), clock=3)
    snapshot = catalog.snapshot("db")
    found = snapshot.explain("t", "x > ''")
    by_rows = dict(
        zip(found.column("row_count").to_pylist(), found.column("key_files").to_pylist())
    )
    assert by_rows == {2: 0, 4: 2, 1: 2}


def test_a_file_that_may_hold_a_key_twice_is_looked_into(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "a"), (1, "b"), clock=1)
    write(u, (5, "c"), clock=1)
    assert catalog.snapshot("db")._tables.touched("t") == 1
    assert read(catalog) == {1: "b", 5: "c"}


def test_a_mark_that_data_brings_along_is_not_believed(catalog):
    (u,) = keyed(catalog, "u")
    field = pa.field("id", pa.int64(), metadata={"lakelog.key": "once"})
    data = pa.table(
        [pa.array([1, 1]), pa.array(["a", "b"])], pa.schema([field, ("x", pa.string())])
    )
    with u.transaction() as tx:
        tx.write("t", data)
    assert read(catalog) == {1: "b"}
    with u.transaction() as tx:
        tx.evolve("t", key=[])
    with u.transaction() as tx:
        tx.write("t", data)
    with u.transaction() as tx:
        tx.evolve("t", key=["id"])
    assert read(catalog) == {1: "b"}


def test_a_mark_means_nothing_for_another_key(catalog):
    (u,) = keyed(catalog, "u")
    write(u, (1, "a"), (2, "a"), clock=1)
    with u.transaction() as tx:
        tx.evolve("t", key=["x"])
    assert read(catalog) == {2: "a"}
    with u.transaction() as tx:
        tx.evolve("t", key=["x", "id"])  # what is once by one column is once by both
    snapshot = catalog.snapshot("db")
    assert snapshot._tables.touched("t") == 0
    assert read(catalog) == {1: "a", 2: "a"}


def test_duckdb_reads_files_itself_only_where_no_key_is_touched(catalog):
    (u,) = keyed(catalog, "u")
    for start in (0, 60_000):
        ids = pa.array(np.arange(start, start + 60_000))
        with u.transaction() as tx:
            tx.write("t", pa.table({"id": ids, "x": ["a"] * 60_000}), clock=(1, 1))
    snapshot = catalog.snapshot("db")
    assert snapshot._source("t").bare() is not None
    assert snapshot.to_duckdb().sql("select count(*) from t").fetchall() == [(120_000,)]
    write(u, (5, "new"), clock=2)
    snapshot = catalog.snapshot("db")
    assert snapshot._source("t").bare() is None
    connection = snapshot.to_duckdb()
    assert connection.sql("select count(*), count(distinct id) from t").fetchall() == [
        (120_000, 120_000)
    ]
    assert connection.sql("select x from t where id = 5").fetchall() == [("new",)]


def test_what_was_resolved_is_kept(catalog, monkeypatch):
    (u,) = keyed(catalog, "u")
    write(u, (1, "old"), clock=1)
    write(u, (1, "new"), clock=2)
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t").num_rows == 1
    monkeypatch.delattr(key_rows, "superseded_rows")
    assert snapshot.to_arrow("t").num_rows == 1


# --- Many rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [7, 40, 1 << 20])
@pytest.mark.parametrize("few", [0, 4, 1000])
def test_rows_are_found_in_whatever_passes(catalog, monkeypatch, most, few):
    monkeypatch.setattr(key_rows, "MOST_ROWS", most)
    monkeypatch.setattr(key_rows, "_FEW", few)
    (u,) = keyed(catalog, "u")
    rng = np.random.default_rng(most + few)
    newest = {}
    for clock in range(8):
        span = 200 if clock < 2 else 20
        ids = rng.choice(300, span, replace=clock % 2 == 0).tolist()
        write(u, *((one, f"{clock}.{at}") for at, one in enumerate(ids)), clock=clock)
        newest |= {one: f"{clock}.{at}" for at, one in enumerate(ids)}
    assert read(catalog) == newest
    found = parts(catalog)
    schema = pa.schema([("id", pa.int64())])
    files = [KeyFile(part, 0, 1 << 60, once=False, wanted=True) for part in found]
    lost = superseded_rows(catalog.store, files, schema)
    assert sum(map(len, lost)) == sum(part.row_count for part in found) - len(newest)
