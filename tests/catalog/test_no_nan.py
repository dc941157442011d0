"""That a column holds no NaN: said where it is so in files that lakelog writes, and of no other."""

from __future__ import annotations

import math
import struct
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data import parquet
from lakelog.catalog.data.footers.parse import parse_footer
from lakelog.catalog.data.parquet import encode_files
from lakelog.catalog.format.footer import FooterMetadata
from lakelog.catalog.format.segments import NO_NAN
from lakelog.catalog.format.statistics import float_statistics
from lakelog.catalog.format.statistics_rows import merge_row_groups
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.store.memory import MemoryStore
from own_files import add_own
from statistics_cases import of_files

NAN = math.nan
VALUES = st.one_of(
    st.none(), st.floats(width=32), st.sampled_from([NAN, -0.0, 0.0, math.inf, -math.inf])
)


def said(catalog, *, row_groups=False):
    """Whether there is no NaN, by column and row group."""
    rows = catalog.snapshot("db").statistics("t", row_groups=row_groups).to_pylist()
    return {(row["column"], row["row_group"]): row["no_nan"] for row in rows}


def write(catalog, *tables):
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for table in tables:
            with writer.transaction() as tx:
                tx.write("t", table)


@given(
    values=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=9),
    rows=st.integers(1, 4),
    is_spilled=st.booleans(),
)
def test_it_is_said_where_it_is_so(values, rows, is_spilled):
    store = MemoryStore("test")
    catalog = Catalog(store)
    doubles, floats = (list(column) for column in zip(*values, strict=True))
    table = pa.table({"d": pa.array(doubles, pa.float64()), "f": pa.array(floats, pa.float32())})
    with mock.patch.object(parquet, "ROW_GROUP_ROWS", rows):
        write(catalog, table)
    for _ in range(2):  # from the transaction, and from a checkpoint
        of_file, of_groups = said(catalog), said(catalog, row_groups=True)
        assert len(of_groups) == (0 if len(values) <= rows else 2 * -(-len(values) // rows))
        for name, column in (("d", doubles), ("f", floats)):
            assert of_file[name, None] == without_nan(column)
            for (own, group), no_nan in of_groups.items():
                if own == name:
                    assert no_nan == without_nan(column[group * rows : (group + 1) * rows])
        catalog.writer("w", "db").checkpoint()
        store.delete([i.key for i in store.list("w/db/") if i.key.endswith(".transaction")])


def without_nan(values):
    return not any(value is not None and math.isnan(value) for value in values)


@pytest.mark.parametrize(
    ("bits", "kind"),
    [
        (0x7FF8000000000000, np.uint64),
        (0x7FF0000000000001, np.uint64),  # a signaling one
        (0xFFFFFFFFFFFFFFFF, np.uint64),
        (0x7FC00000, np.uint32),
        (0xFF800001, np.uint32),
    ],
)
def test_every_pattern_of_nan_is_one(bits, kind):
    """Also as the only one, behind nulls and in another chunk, and not where a null hides it."""
    floats = np.array([bits], kind).view(np.float64 if kind is np.uint64 else np.float32)
    bad = pa.array(floats)
    good = pa.array([1.0, None], bad.type)
    hidden = pa.Array.from_buffers(bad.type, 1, [pa.py_buffer(b"\0"), bad.buffers()[1]])
    assert not float_statistics(pa.chunked_array([bad]), 0).no_nan
    assert not float_statistics(pa.chunked_array([good, bad]), 0).no_nan
    assert float_statistics(pa.chunked_array([good, hidden]), 0).no_nan
    assert float_statistics(pa.chunked_array([hidden]), 0).no_nan


def test_other_columns_say_nothing(catalog):
    columns = {
        "i": pa.array([1]),
        "h": pa.array([1.0], pa.float16()),
        "s": pa.array(["x"]),
        "n": pa.array([[1.0]]),
        "d": pa.array([1.0]),
    }
    write(catalog, pa.table(columns))
    assert said(catalog) == {
        ("i", None): False,
        ("h", None): False,
        ("s", None): False,
        ("d", None): True,
    }


def test_of_a_dictionary_it_is_not_known():
    """Its values may hold NaN that no row has, and the other way round nobody looks."""
    values = pa.chunked_array([pa.DictionaryArray.from_arrays([0], [1.0, NAN])])
    assert not float_statistics(values, 0).no_nan


# --- Files that somebody else may have written ----------------------------------------------------


def add_file(catalog, store, body, path="data/in/x.parquet"):
    store.put(f"w/db/{path}", body)
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", path)


def only_path(catalog):
    (path,) = catalog.snapshot("db").files("t").column("path").to_pylist()
    return path


def as_parquet(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("value", [1.0, NAN])
def test_of_a_file_that_is_added_it_is_not_known(catalog, store, value):
    """Parquet's bounds are those of the other values."""
    add_file(catalog, store, as_parquet(pa.table({"d": [value, 2.0]})))
    (row,) = catalog.snapshot("db").statistics("t").to_pylist()
    assert row["max"] == struct.pack("<d", 2.0)
    assert row["no_nan"] is False


def test_a_copied_footer_proves_nothing(catalog, store):
    """Who writes a file anew may keep its keys."""
    write(catalog, pa.table({"d": [1.0, 2.0]}))
    path = only_path(catalog)
    body = store.get(f"w/db/{path}")
    metadata = pq.read_metadata(pa.BufferReader(body)).metadata
    changed = pa.table({"d": [1.0, NAN]}).replace_schema_metadata(metadata)
    assert b"lakelog.floats" in metadata
    for number, one in enumerate(
        [body, as_parquet(changed), as_parquet(changed, write_statistics=False)]
    ):
        add_file(catalog, store, one, f"data/in/{number}.parquet")
    rows = catalog.snapshot("db").statistics("t").to_pylist()
    assert [row["path"] for row in rows if row["no_nan"]] == [path]


def test_a_file_of_our_own_that_is_added_again_is_as_any_other(catalog, store):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", pa.table({"d": [1.0]}))
        with writer.transaction() as tx:
            tx.remove(path)
        assert said(catalog) == {}
        with writer.transaction() as tx:
            add_own(tx, "t", path)
    assert not any(said(catalog).values())


# --- What a footer keeps --------------------------------------------------------------------------

TABLE = pa.table({"i": [1, 2, 3], "d": [1.0, NAN, 2.0], "f": pa.array([0.0, 1.0, None], "f4")})


def encoded(table=TABLE, rows=2):
    meta = FooterMetadata(
        "w", "db", "t", "", b"\1" * 16, 0, -1, b"", 1, 0, 0, table.schema, b"\2" * 16, 1, b"\3" * 16
    )
    with mock.patch.object(parquet, "ROW_GROUP_ROWS", rows):
        (file,) = encode_files(iter(table.to_batches()), table.schema, meta)
    return file.body.read()


def floats_of(body):
    return parse_footer(body, len(body)).meta.floats


def rewritten(body, change=lambda table: table, keys=None, **options):
    """The file written anew by pyarrow, with its keys or others of them."""
    table = change(pq.read_table(pa.BufferReader(body)))
    metadata = pq.read_metadata(pa.BufferReader(body)).metadata
    metadata = {key: value for key, value in metadata.items() if key.startswith(b"lakelog.")}
    metadata |= keys or {}
    options = {"row_group_size": 2, "write_statistics": ["i"]} | options
    return as_parquet(table.replace_schema_metadata(metadata), **options)


def floats_key(*groups):
    import base64

    return {b"lakelog.floats": base64.b64encode(wire.Add(row_groups=groups).SerializeToString())}


def group(rows, *columns):
    known = [wire.ColumnStatistics(column=column, no_nan=True) for column in columns]
    return wire.RowGroup(row_count=rows, columns=known)


def test_a_footer_keeps_what_the_log_knows_of_floats():
    body = encoded()
    told = wire.Add.FromString(floats_of(body))
    assert [(g.row_count, [(c.column, c.no_nan) for c in g.columns]) for g in told.row_groups] == [
        (2, [(1, False), (2, True)]),
        (1, [(1, True), (2, True)]),
    ]
    assert not parse_footer(body, len(body)).facts.row_groups[0].columns[1].HasField("max")
    assert floats_of(encoded(TABLE.select(["i"]))) == b""
    assert floats_of(rewritten(body)) == floats_of(body), "the tests below change what tells"


OTHERS = {
    "statistics of floats": lambda body: rewritten(body, write_statistics=True),
    "statistics of one": lambda body: rewritten(body, write_statistics=["i", "f"]),
    "other row groups": lambda body: rewritten(body, row_group_size=3),
    "fewer rows": lambda body: rewritten(body, lambda table: table.slice(1)),
    "another library": lambda body: body.replace(b"parquet-cpp-arrow", b"parquet-mr-arrow0"),
    "no base64": lambda body: rewritten(body, keys={b"lakelog.floats": b"\xc3\xa9"}),
    "no message": lambda body: rewritten(body, keys={b"lakelog.floats": b"AAAA"}),
    "no row groups": lambda body: rewritten(body, keys=floats_key()),
    "a row group less": lambda body: rewritten(body, keys=floats_key(group(2, 1))),
    "an integer": lambda body: rewritten(body, keys=floats_key(group(2, 0), group(1, 0))),
    "twice": lambda body: rewritten(body, keys=floats_key(group(2, 1, 1), group(1, 1))),
    "beyond": lambda body: rewritten(body, keys=floats_key(group(2, 3), group(1, 3))),
}


@pytest.mark.parametrize("how", OTHERS)
def test_what_cannot_be_its_own_is_not_believed(how):
    body = encoded()
    assert floats_of(body)
    other = OTHERS[how](body)
    assert other != body
    parsed = parse_footer(other, len(other))
    assert parsed.problem == ""
    assert parsed.meta.floats == b""


# --- Several row groups, and other types ----------------------------------------------------------


def of_groups(*groups, kind="f8"):
    """What a file says that has row groups of so many rows, nulls, and this fact."""
    made = [
        wire.RowGroup(
            row_count=rows,
            columns=[wire.ColumnStatistics(column=0, null_count=nulls, no_nan=no_nan)],
        )
        for rows, nulls, no_nan in groups
    ]
    (merged,) = merge_row_groups(made, pa.schema([("c", kind)]))
    return merged.no_nan


def test_row_groups_add_up():
    assert of_groups((2, 0, True), (2, 1, True))
    assert not of_groups((2, 0, True), (2, 1, False))
    assert not of_groups((2, 0, False), (2, 1, True))
    assert of_groups((2, 0, True), (2, 2, False)), "nulls are not NaN"
    assert of_groups((1, 1, False), (2, 2, False))
    assert not of_groups((2, 0, True), (2, 2, True), kind="i8")
    assert not of_groups((2, 0, True), (2, 2, True), kind="f2")


def test_a_row_group_that_says_it_twice_says_nothing():
    one = wire.ColumnStatistics(column=0, no_nan=True)
    twice = wire.RowGroup(row_count=1, columns=[one, one])
    schema = pa.schema([("c", "f8")])
    assert merge_row_groups([twice], schema) == []
    assert merge_row_groups([twice, wire.RowGroup(row_count=1, columns=[one])], schema) == []


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "f2", "string"])
def test_it_stands_beside_doubles_alone(kind):
    """Alone it is worth a row; of another type it is nothing."""
    known = wire.ColumnStatistics(column=0, no_nan=True)
    add = wire.Add(path="data/x", row_groups=[wire.RowGroup(row_count=1, columns=[known])] * 2)
    schema = pa.schema([("c", pa.type_for_alias(kind))])
    found = of_files([add], schema)
    expected = [NO_NAN] if kind in ("f8", "f4") else []
    assert found.files.column("exact").to_pylist() == expected
    assert found.groups.column("exact").to_pylist() == expected * 2
