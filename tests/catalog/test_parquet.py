"""Data in: any frame becomes Parquet files that hold just its rows, or is refused whole."""

from __future__ import annotations

import datetime as dt
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.data import parquet
from lakelog.catalog.data.dataframes import to_batches
from lakelog.catalog.data.parquet import encode_files
from lakelog.catalog.format.footer import FooterMetadata, decode_footer
from lakelog.errors import InvalidName, InvalidSchema, StorageError, UsageError
from lakelog.testing.doubles import FaultyStore

SIMPLE = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]})


def meta(schema):
    return FooterMetadata(
        writer="w", database="db", table="t", partition="p", transaction_id=b"\x07" * 16, number=5,
        base_revision=3, base_transaction_id=b"\x01" * 16, epoch=2, first_clock=10, last_clock=20,
        schema=schema, log_id=b"\x02" * 16, incarnation=1, slot_seed=b"\x03" * 16,
        replaces=(("t", "data/old"),),
    )  # fmt: skip


def files_of(data, **options):
    schema, batches = to_batches(data)
    return list(encode_files(batches, schema, meta(schema), **options))


def rows_of(files):
    return pa.concat_tables([pq.read_table(pa.BufferReader(file.body.read())) for file in files])


# --- Frames ---------------------------------------------------------------------------------------


FRAMES = {
    "table": SIMPLE,
    "chunked table": pa.concat_tables([SIMPLE.slice(0, 1), SIMPLE.slice(1)]),
    "batch": SIMPLE.to_batches()[0],
    "reader": lambda: SIMPLE.to_reader(max_chunksize=1),
    "pandas": SIMPLE.to_pandas(),
    "pandas with other row numbers": SIMPLE.to_pandas().set_index(pd.RangeIndex(7, 10)),
    "polars": pl.from_arrow(SIMPLE),
    "dictionary": SIMPLE.set_column(1, "s", SIMPLE.column("s").dictionary_encode()),
    "large": SIMPLE.cast(pa.schema([("a", pa.int64()), ("s", pa.large_string())])),
    "view": SIMPLE.cast(pa.schema([("a", pa.int64()), ("s", pa.string_view())])),
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_of_frame_holds_the_same_rows(name):
    data = FRAMES[name]() if callable(FRAMES[name]) else FRAMES[name]
    (file,) = files_of(data)
    assert rows_of([file]).to_pydict() == SIMPLE.to_pydict()
    assert rows_of([file]).schema.types == [pa.int64(), pa.string()]
    assert file.facts.row_count == 3
    assert file.facts.size_bytes == file.body.size


def test_a_frame_of_anything_that_speaks_arrow():
    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return SIMPLE.__arrow_c_stream__(requested_schema)

    assert rows_of(files_of(Frame())).equals(SIMPLE)


@pytest.mark.parametrize(
    "data",
    [
        None,
        7,
        "text",
        {"a": [1]},
        [{"a": 1}],
        np.zeros(3),
        pa.array([1, 2]),
        pa.chunked_array([[1, 2]]),
        pd.Series([1, 2]),
        pl.Series("a", [1, 2]),
        pl.DataFrame({"a": [1]}).lazy(),
        pd.DataFrame({"a": [1, "x"]}),
        pd.DataFrame({"a": [object()]}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(InvalidSchema) as caught:
        files_of(data)
    assert caught.value.hint
    assert caught.value.exit_code == 2


# --- Types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array(["a"], pa.large_string()), pa.string()),
        (pa.array(["a"], pa.string_view()), pa.string()),
        (pa.array([b"a"], pa.large_binary()), pa.binary()),
        (pa.array([b"a"], pa.binary_view()), pa.binary()),
        (pa.array(["a"]).dictionary_encode(), pa.string()),
        (pa.array([["a"]], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (
            pa.array([{"x": "a"}], pa.struct([("x", pa.dictionary(pa.int32(), pa.string()))])),
            pa.struct([("x", pa.string())]),
        ),
        (pa.array([["a"]], pa.list_(pa.large_string(), 1)), pa.list_(pa.string(), 1)),
        (
            pa.array([[("k", "v")]], pa.map_(pa.large_string(), pa.large_string())),
            pa.map_(pa.string(), pa.string()),
        ),
        (pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("s")), pa.timestamp("ms")),
        (pa.array([dt.time(1, 2, 3)], pa.time32("s")), pa.time32("ms")),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else str(value.type),
)
def test_a_type_becomes_what_every_engine_reads(column, kind):
    table = pa.table({"c": column})
    assert to_batches(table)[0].field("c").type == kind, "what the log says"
    (file,) = files_of(table)
    found = rows_of([file])
    assert found.schema.field("c").type == kind
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{}], pa.struct([])),
        pa.array([[{}]], pa.list_(pa.struct([]))),
        pa.UnionArray.from_dense(
            pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
        ),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([[1]], pa.list_view(pa.int8())),
        pa.array([[[1]]], pa.list_(pa.large_list_view(pa.int8()))),
        pa.RunEndEncodedArray.from_arrays([1], [1]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_type_that_parquet_has_not_is_refused(column):
    with pytest.raises(InvalidSchema):
        files_of(pa.table({"c": column}))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({}),
        pa.table([[1], [2]], names=["a", "a"]),
        pa.table([[1]], names=[""]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame(),
        pl.DataFrame(),
    ],
    ids=["no columns", "twice", "no name", "pandas twice", "empty pandas", "empty polars"],
)
def test_columns_that_no_reader_could_name_are_refused(table):
    with pytest.raises(InvalidSchema):
        files_of(table)


def test_a_null_in_a_column_that_has_none_is_refused():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(InvalidSchema):
        files_of(pa.Table.from_arrays([pa.array([1, None])], schema=schema))


@pytest.mark.parametrize("first", [True, False])
def test_a_value_that_no_common_unit_holds_is_refused(first):
    """Parquet has no seconds; a second so far away has no milliseconds."""
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))
    near = pa.array([1], pa.int64()).cast(pa.timestamp("s"))
    chunks = [far, near] if first else [near, far]
    with (
        pytest.raises(InvalidSchema),
        mock.patch.object(parquet, "ROW_GROUP_ROWS", 1),
    ):
        files_of(pa.table({"c": pa.chunked_array(chunks)}))


def test_an_error_of_the_users_own_reader_reaches_the_user():
    def batches():
        yield SIMPLE.to_batches()[0]
        raise KeyError("the source broke off")

    reader = pa.RecordBatchReader.from_batches(SIMPLE.schema, batches())
    with pytest.raises(KeyError, match="broke off"):
        files_of(reader)


# --- Files and row groups -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        SIMPLE.slice(0, 0),
        SIMPLE.schema.empty_table(),
        pa.RecordBatchReader.from_batches(SIMPLE.schema, []),
        pd.DataFrame({"a": pd.Series([], dtype="int64")}),
        pl.DataFrame({"a": []}, schema={"a": pl.Int64}),
    ],
    ids=["slice", "table", "reader", "pandas", "polars"],
)
def test_no_rows_make_no_file(data):
    assert files_of(data) == []


def test_files_roll_over_at_about_the_size_asked_for():
    table = pa.table({"a": np.random.default_rng(0).integers(0, 2**62, 400_000)})
    with mock.patch.object(parquet, "ROW_GROUP_ROWS", 20_000):
        files = files_of(table, file_bytes=500_000)
    assert len(files) > 3
    assert all(400_000 < file.body.size < 900_000 for file in files[:-1])
    assert rows_of(files).equals(table)
    footers = [pq.read_metadata(pa.BufferReader(file.body.read())).metadata for file in files]
    assert [decode_footer(footer).number for footer in footers] == list(range(5, 5 + len(files)))


def test_a_large_file_is_on_the_disk_while_it_is_made(monkeypatch):
    table = pa.table({"a": np.random.default_rng(0).integers(0, 2**62, 10_000)})
    (small,) = files_of(table)
    monkeypatch.setattr(parquet, "_IN_MEMORY_BYTES", 10_000)
    (large,) = files_of(table)
    assert small.body.file is None
    assert large.body.file is not None
    assert large.body.read() == small.body.read()
    assert large.facts == small.facts


@pytest.mark.parametrize("count", [500, 40_000])
def test_values_that_never_come_again_get_no_dictionary(count):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": np.arange(count),
            "few": np.arange(count) % 5,
            "value": rng.random(count),
            "of.few": rng.integers(0, 100, count).astype(float),
            "text": [str(n) for n in range(count)],
            "day": pa.array([n // 5 for n in range(count)], pa.date32()),
        }
    )
    (file,) = files_of(table)
    group = pq.read_metadata(pa.BufferReader(file.body.read())).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    assert [c.path_in_schema for c in columns if c.has_dictionary_page] == [
        "few", "of.few", "day",
    ]  # fmt: skip
    assert rows_of([file]).equals(table)


@given(st.lists(st.integers(0, 7), max_size=8), st.integers(1, 5), st.integers(1, 4000))
def test_no_row_is_lost_or_moved_whatever_the_batches(sizes, group_rows, file_bytes):
    start, batches = 0, []
    for size in sizes:
        batches.append(pa.RecordBatch.from_pydict({"a": pa.array(range(start, start + size))}))
        start += size
    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches)
    with mock.patch.object(parquet, "ROW_GROUP_ROWS", group_rows):
        files = files_of(reader, file_bytes=file_bytes)
    found = [value for file in files for value in rows_of([file]).column("a").to_pylist()]
    assert found == list(range(start))
    for file in files:
        data = pq.ParquetFile(pa.BufferReader(file.body.read())).metadata
        groups = [data.row_group(i).num_rows for i in range(data.num_row_groups)]
        assert max(groups) <= group_rows
        assert [group.row_count for group in file.facts.row_groups] == groups
        assert file.facts.row_count == sum(groups) > 0


def test_row_groups_are_bounded_in_bytes_too():
    batch = pa.RecordBatch.from_pydict({"s": ["x" * 1000] * 100})
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch] * 20)
    with mock.patch.object(parquet, "ROW_GROUP_BYTES", 250_000):
        (file,) = files_of(reader)
    assert [group.row_count for group in file.facts.row_groups] == [300] * 6 + [200]


def test_the_footer_says_where_the_file_belongs():
    (file,) = files_of(SIMPLE)
    found = decode_footer(pq.read_metadata(pa.BufferReader(file.body.read())).metadata)
    assert found == meta(SIMPLE.schema)


def test_the_facts_agree_with_the_file():
    (file,) = files_of(SIMPLE)
    footer = pq.read_metadata(pa.BufferReader(file.body.read()))
    assert file.facts.footer_bytes == footer.serialized_size + 8
    assert footer.row_group(0).column(0).compression == "ZSTD"


def test_the_same_data_makes_the_same_bytes():
    assert files_of(SIMPLE)[0].body.read() == files_of(SIMPLE)[0].body.read()


# --- Through a transaction ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 300])
def test_a_bad_table_or_partition_name_is_refused_before_anything_is_written(catalog, store, name):
    with catalog.writer("w", "db") as writer:
        before = list(store.list(""))
        tx = writer.transaction()
        with pytest.raises(InvalidName):
            tx.write(name, SIMPLE)
        if name:
            with pytest.raises(InvalidName):
                tx.write("t", SIMPLE, partition=name)
        assert tx.commit() is None
        assert list(store.list("")) == before


def test_refused_data_leaves_nothing_behind_in_the_transaction(catalog):
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    bad = pa.Table.from_arrays([pa.array([1, None])], schema=schema)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        with pytest.raises(InvalidSchema):
            tx.write("bad", bad)
        tx.write("good", SIMPLE)
    assert catalog.snapshot("db").tables() == ["good"]


def test_a_write_that_broke_off_takes_its_transaction_with_it(store, fake):
    """Two of its three files were stored: none of them may become visible alone, and a rebuild
    would count them as the transaction's."""
    from lakelog.catalog.catalog import Catalog

    lossy = FaultyStore(store, ["ok", "ok", "lost request"], match=".parquet")
    catalog = Catalog(lossy, ambient=fake.ambient)
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    with catalog.writer("w", "db") as writer:
        tx = writer.transaction()
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch] * 3)
        with mock.patch.object(parquet, "ROW_GROUP_ROWS", 1), pytest.raises(StorageError):
            tx.write("t", reader, file_bytes=1)
        for call in (lambda: tx.write("t", pa.table({"a": [7]})), tx.commit):
            with pytest.raises(UsageError, match=r"write of table 't' broke off.*request was lost"):
                call()
        with writer.transaction() as tx:
            (path,) = tx.write("t", pa.table({"a": [7]}))
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t").to_pylist() == [{"a": 7}]
    assert snapshot.files("t").column("path").to_pylist() == [path]
    assert len(lossy.script.puts) == 4
    assert len({key for key, _ in lossy.script.puts}) == 4, "a name was used twice"


# --- Found by a tester with fresh eyes ------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (pd.date_range("2020", periods=3, name="time"), ["time"]),
        (pd.MultiIndex.from_tuples([(1, "x"), (1, "y"), (2, "x")], names=["n", "m"]), ["n", "m"]),
        (pd.RangeIndex(3, name="row"), ["row"]),
        (pd.Index([7, 8, 9]), ["__index_level_0__"]),
        (pd.RangeIndex(3), []),
    ],
)
def test_a_pandas_index_becomes_columns(index, expected):
    frame = SIMPLE.to_pandas().set_index(index)
    rows = rows_of(files_of(frame))
    assert rows.column_names == ["a", "s", *expected]
    for level, name in enumerate(expected):
        assert rows.column(name).to_pandas().tolist() == index.get_level_values(level).tolist()


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "z"])])
def test_polars_categories_become_their_values(kind):
    frame = pl.DataFrame({"a": [1, 2, 3], "s": pl.Series(["x", None, "z"], dtype=kind)})
    assert rows_of(files_of(frame)).equals(SIMPLE)
    assert rows_of(files_of(frame.slice(1))).equals(SIMPLE.slice(1))


def test_a_dictionary_of_lists_becomes_lists():
    values = pa.array([[1], [2, 3]])
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), values)
    assert rows_of(files_of(pa.table({"l": column}))).to_pydict() == {"l": [[2, 3], None, [1]]}


def test_polars_objects_are_refused_by_name():
    frame = pl.DataFrame({"a": [1], "thing": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(InvalidSchema, match="'thing'"):
        to_batches(frame)


def test_a_cast_that_arrow_does_not_have_names_the_column():
    frame = pl.DataFrame({"deep": [["x"]]}, schema={"deep": pl.List(pl.Categorical)})
    with pytest.raises(InvalidSchema, match="'deep'"):
        files_of(frame)


@pytest.mark.parametrize("second", [pa.table({"a": ["x"], "s": ["y"]}), pa.table({"b": [1]})])
def test_batches_of_another_schema_are_refused(second):
    batches = SIMPLE.to_batches() + second.to_batches()
    with pytest.raises(InvalidSchema, match="Batch 1 of the data has another schema"):
        files_of(pa.RecordBatchReader.from_batches(SIMPLE.schema, iter(batches)))


@pytest.mark.parametrize("kind", [pa.binary(0), pa.list_(pa.binary(0))])
def test_binary_of_no_bytes_is_refused(kind):
    with pytest.raises(InvalidSchema, match=r"'b'.*0 bytes"):
        to_batches(pa.table({"b": pa.array([None], kind)}))


@pytest.mark.parametrize("zone", ["Nowhere/X", "Europe", "../x", "+1:00"])
def test_a_zone_that_does_not_exist_is_refused(zone):
    kind = pa.struct([("at", pa.timestamp("us", zone))])
    with pytest.raises(InvalidSchema, match=r"'t'.*no time zone"):
        to_batches(pa.table({"t": pa.array([None], kind)}))


@pytest.mark.parametrize("zone", ["UTC", "utc", "Z", "+02:00", "-0330", "Europe/Oslo", "Etc/GMT+3"])
def test_zones_that_exist(zone):
    assert rows_of(files_of(pa.table({"t": pa.array([0], pa.timestamp("us", zone))}))).num_rows == 1
