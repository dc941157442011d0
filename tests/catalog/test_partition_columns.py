"""Files in folders like `year=2026/month=11` that lack these columns: `tx.add(partition_by=...)`
gives them, with their types, to every reader."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakelog.catalog.data.partitioned import infer_types, texts_of, told_by_partition
from lakelog.catalog.format.names import NULL, partition_name
from lakelog.catalog.format.schema import PARTITION, encode_schema, features_of
from lakelog.errors import (
    CorruptObject,
    InvalidPartition,
    InvalidSchema,
    SchemaConflict,
    UnsupportedFeature,
    UsageError,
)
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from own_files import add_own
from test_partition_by import KINDS

TYPES = {"year": pa.int32(), "month": pa.int8()}
ROWS = pa.table({"n": [1.5, 2.5]})


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def add(catalog, partition, table=ROWS, *, by=TYPES, name="", **options):
    path = f"data/{name}{len(list(catalog.store.list('w/db/data/')))}.parquet"
    catalog.store.put(f"w/db/{path}", parquet(table))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", path, partition, partition_by=by, **options)
    return path


@pytest.fixture
def months(catalog):
    for partition in ("year=2026/month=11", "year=2026/month=012", f"year=2025/month={NULL}"):
        add(catalog, partition)
    return catalog


def test_they_are_columns_like_others(months):
    snapshot = months.snapshot("db")
    days = [(2026, 11), (2026, 12), (2025, None)]
    expected = [(n, *day) for day in days for n in (1.5, 2.5)]
    wanted = pa.schema([("n", pa.float64()), *TYPES.items()])
    assert snapshot.schema("t").equals(wanted, check_metadata=True)
    assert [tuple(row.values()) for row in snapshot.to_arrow("t").to_pylist()] == expected
    assert snapshot.to_pandas("t")["year"].tolist() == [row[1] for row in expected]
    assert snapshot.to_polars("t").collect().rows() == expected
    assert snapshot.to_duckdb().sql("FROM t").fetchall() == expected
    assert snapshot.dataset("t").to_table(columns=["month"])["month"].to_pylist() == [
        row[2] for row in expected
    ]
    assert snapshot.to_arrow("t", ["month", "year"]).column_names == ["month", "year"]
    assert {part.partition for part in snapshot.file_parts("t")} == {
        "year=2026/month=11", "year=2026/month=012", f"year=2025/month={NULL}",
    }  # fmt: skip


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("year = 2026", [True, True, False]),
        ("month = 11", [True, False, False]),
        ("NOT (month = 11)", [False, True, False]),
        ("month IS NULL", [False, False, True]),
        ("month IS NULL OR month > 11", [False, True, True]),
        ("year < 2026 AND n > 2", [False, False, True]),
        ("n > 2 AND year IN (2025, 2027)", [False, False, True]),
    ],
)
def test_predicates_skip_whole_files_and_keep_the_right_rows(months, where, kept, checkpoint):
    if checkpoint:
        with months.writer("w", "db") as writer:
            writer.checkpoint()
    snapshot = months.snapshot("db")
    told = snapshot.explain("t", where).to_pylist()
    order = {"year=2026/month=11": 0, "year=2026/month=012": 1, f"year=2025/month={NULL}": 2}
    told.sort(key=lambda row: order[row["partition"]])
    assert [row["kept"] for row in told] == kept
    rows = snapshot.to_arrow("t").to_pylist()
    found = snapshot.to_arrow("t", where=where).to_pylist()
    both = snapshot.to_duckdb().sql(f"FROM t WHERE {where}").to_arrow_table().to_pylist()
    assert found == both == [row for row in rows if row in found]


def test_explain_names_the_partition(months):
    told = months.snapshot("db").explain("t", "year > 2025").to_pylist()
    (reason,) = [row["reason"] for row in told if not row["kept"]]
    assert reason == "not year > 2025: year is 2025 by its partition"


@st.composite
def values(draw):
    kind = draw(st.sampled_from(list(KINDS)))
    return pa.array([draw(st.none() | KINDS[kind])], kind)


@settings(max_examples=200, deadline=None)
@given(values())
def test_what_a_write_names_is_what_a_reader_is_told(value):
    """Names and values are two ways to say the same, for all types."""
    name = partition_name([("c", texts_of(pa.chunked_array([value]))[0])])
    schema = pa.schema([pa.field("c", value.type, metadata=PARTITION)])
    (found,) = told_by_partition(schema, name).values()
    assert found.equals(value[0])


@settings(max_examples=25, deadline=None)
@given(values())
def test_every_type_is_read_and_skips(value):
    catalog = lakelog.Catalog(MemoryStore("told"))
    name = partition_name([("c =", texts_of(pa.chunked_array([value]))[0])])
    add(catalog, name, by={"c =": value.type})
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t")["c ="].to_pylist() == value.to_pylist() * 2
    rows = snapshot.statistics("t").to_pylist()
    (known,) = [row for row in rows if row["column"] == "c ="]
    assert known["null_count"] == (0 if value[0].is_valid else 2)
    held = snapshot.explain("t", '"c =" IS NULL').to_pylist()
    assert [row["kept"] for row in held] == [not value[0].is_valid]
    same = pa.compute.field("c =") == value[0]
    assert snapshot.to_arrow("t", where=same).num_rows == (2 if value[0].is_valid else 0)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int8(), "300"), (pa.int8(), "x"), (pa.int8(), ""), (pa.int8(), "1.0"),
        (pa.int32(), "٣"), (pa.uint8(), "-1"), (pa.bool_(), "True"), (pa.bool_(), "1"),
        (pa.date32(), "2026-13-01"), (pa.date32(), "20261101"), (pa.date32(), "2026-1-1"),
        (pa.timestamp("us", "UTC"), "2026-11-01 00:00:00"),
        (pa.timestamp("us"), "2026-11-01 00:00:00Z"), (pa.timestamp("s"), "2026-11-01 00:00:00.1"),
        (pa.decimal128(4, 2), "1.234"), (pa.decimal128(4, 2), "123.4"), (pa.decimal128(4, 2), "1e"),
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_its_type_is_refused_and_nothing_is_added(catalog, kind, text):
    with pytest.raises(InvalidPartition, match="'c'") as caught:
        add(catalog, partition_name([("c", text)]), by={"c": kind})
    assert caught.value.key == "c"
    assert caught.value.hint
    assert not list(catalog.store.list("w/db/transactions/"))


@pytest.mark.parametrize("partition", ["", "2026", "month=11", "year=2026/year=2026", "Year=1"])
def test_a_partition_that_does_not_tell_the_column_is_refused(catalog, partition):
    with pytest.raises(InvalidPartition, match="'year'"):
        add(catalog, partition, by={"year": pa.int32()})


@pytest.mark.parametrize(
    ("by", "error"),
    [
        ("year", UsageError),
        ({"year": "int32"}, UsageError),
        ({7: pa.int32()}, UsageError),
        ({"year": pa.timestamp("ns")}, UsageError),
        ({"year": pa.float64()}, InvalidSchema),
        ({"year": pa.binary()}, InvalidSchema),
        (["year", "year"], UsageError),
    ],
)
def test_what_is_no_columns_and_types_is_refused(catalog, by, error):
    with pytest.raises(error) as caught:
        add(catalog, "year=2026", by=by)
    assert caught.value.hint


def test_a_column_in_the_file_counts_as_it_is_there(catalog):
    own = pa.table({"n": [1.0], "year": pa.array([7], pa.int64())})
    add(catalog, "year=2026/month=11", own)
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t").to_pylist() == [{"n": 1.0, "year": 7, "month": 11}]
    assert not snapshot.explain("t", "year = 2026")["kept"].to_pylist()[0]


def test_no_partition_by_is_no_column_and_no_feature(catalog):
    add(catalog, "year=2026/month=11", by=None)
    snapshot = catalog.snapshot("db")
    assert snapshot.schema("t").names == ["n"]
    assert not snapshot._states[0].reader_features


def test_marks_that_a_file_brings_along_mean_nothing(catalog):
    """Only `tx.add` says which columns a file lacks."""
    field = pa.field("year", pa.int64(), metadata=PARTITION)
    own = pa.table({"year": [7, 8]}).cast(pa.schema([field]))
    add(catalog, "year=2026", own, by=None)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", own, partition="year=2026")
    assert catalog.snapshot("db").to_arrow("t")["year"].to_pylist() == [7, 8, 7, 8]


def test_beside_files_that_have_the_columns(catalog):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"year": [2024], "n": [0.5]}), partition_by=["year"])
    add(catalog, "year=2026/month=11")
    rows = catalog.snapshot("db").to_arrow("t", where="year > 2000").to_pylist()
    assert [(row["year"], row["month"], row["n"]) for row in rows] == [
        (2024, None, 0.5), (2026, 11, 1.5), (2026, 11, 2.5),
    ]  # fmt: skip
    with pytest.raises(SchemaConflict):
        add(catalog, "year=unknown", by=["year"])


def test_types_are_found_strictly():
    def kinds(*texts):
        return infer_types([partition_name([("c", text)]) for text in texts], ["c"])["c"]

    assert kinds("0", "-7", None, str(2**63 - 1)) == pa.int64()
    assert kinds("2026-11-20", None) == pa.date32()
    assert kinds(None) == pa.null()
    for texts in (["01"], ["1", "x"], ["-0"], ["+1"], [str(2**63)], ["2026-11-31"], [""], ["1.5"]):
        assert kinds(*texts) == pa.string(), texts
    with pytest.raises(InvalidPartition):
        infer_types(["a=1", "b=1"], ["a"])


def test_a_null_alone_has_no_type_until_another_file_has_one(catalog):
    add(catalog, f"c={NULL}", by=["c"])
    assert catalog.snapshot("db").to_arrow("t")["c"].type == pa.null()
    add(catalog, "c=2026-11-20", by=["c"])
    rows = catalog.snapshot("db").to_arrow("t")["c"]
    assert rows.type == pa.date32()
    assert rows.to_pylist() == [None, None, *[dt.date(2026, 11, 20)] * 2]


def test_the_log_requires_the_feature_and_older_readers_refuse_it(months, monkeypatch):
    from lakelog.catalog.format import objects

    (state,) = months.snapshot("db")._states
    assert state.reader_features == state.writer_features == {"partition_columns"}
    monkeypatch.setattr(objects, "READER_FEATURES", frozenset())
    with pytest.raises(UnsupportedFeature, match="partition_columns"):
        lakelog.Catalog(months.store).snapshot("db").files("t")


def test_the_schema_names_its_feature_and_has_a_fingerprint_of_its_own():
    schema = pa.schema([("n", pa.float64()), ("year", pa.int32())])
    plain, told = encode_schema(schema), encode_schema(schema, by_partition=["year"])
    assert plain.fingerprint != told.fingerprint
    assert not features_of(plain.message)
    assert features_of(told.message) == ("partition_columns",)


@pytest.mark.parametrize("lose", [False, True])
def test_a_rebuild_that_finds_the_old_log_keeps_them(months, lose):
    """With a damaged transaction at the end: what is left of the old log tells them."""
    before = months.snapshot("db")
    store = months.store
    with months.writer("w", "db") as writer:
        writer.checkpoint()
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [9.0]}))
    if lose:
        newest = min(info.key for info in store.list("w/db/transactions/"))
        store.delete([newest])
        store.put(newest, b"damaged")
    execute_rebuild(store, plan_rebuild(store, "w", "db"))
    after = lakelog.Catalog(store).snapshot("db")
    assert after.to_arrow("t", where="year > 0") == before.to_arrow("t", where="year > 0")
    assert after._states[0].reader_features == {"partition_columns"}
    told = [cut.explain("t", "month = 11").select(["path", "kept"]) for cut in (before, after)]
    for row in told[0].to_pylist():
        assert row in told[1].to_pylist()


def test_a_log_that_tells_nothing_of_a_column_gives_no_rows(built_told):
    with pytest.raises(CorruptObject, match="doesn't tell the value of column 'year'"):
        built_told.to_arrow("t")
    assert built_told.to_arrow("t", ["n"]).num_rows == 2


@pytest.fixture
def built_told(catalog, monkeypatch):
    """A log whose writer named a partition that doesn't tell the column."""
    from lakelog.catalog.data import partitioned

    def told(schema, *_):
        whole = pa.schema([*schema, pa.field("year", pa.int32())])
        return encode_schema(whole, by_partition=["year"])

    with monkeypatch.context() as patched:
        patched.setattr(partitioned, "with_partition", told)
        patched.setattr(partitioned, "tell_values", lambda *_: None)
        add(catalog, "y=2026")
    return catalog.snapshot("db")


def test_decimals_of_all_digits_are_exact(catalog):
    kind, text = pa.decimal128(38, 3), "12345678901234567890123456789012345.678"
    add(catalog, f"c={text}", by={"c": kind})
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t")["c"].to_pylist() == [Decimal(text)] * 2
    assert snapshot.explain("t", f"c = {text}")["kept"].to_pylist() == [True]
    (known,) = [row for row in snapshot.statistics("t").to_pylist() if row["column"] == "c"]
    assert known["min"] == known["max"] == int(text.replace(".", "")).to_bytes(16, "little")
    assert known["min_exact"]
    assert not snapshot.to_arrow("t", where=f"c > {text}").num_rows
