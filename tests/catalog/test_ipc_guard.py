"""Arrow IPC read without trust: honest segments of any type pass, forged sizes and damage don't."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import io
import struct
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.format import ipc_sizes, segments
from lakelog.catalog.format.ipc_sizes import check_ipc_sizes
from lakelog.catalog.format.segments import FILES, FILES_COLUMNS, decode_segment, encode_ipc
from lakelog.errors import CorruptObject, UnsupportedFeature

KEY = "w/db/transactions/x.checkpoint"
ROWS = 1000
HONEST = {
    "no columns": pa.table({}),
    "no rows": pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())}),
    "ints": pa.table({"a": pa.array(range(ROWS), pa.int64())}),
    "small ints": pa.table({"a": pa.array([i % 100 for i in range(ROWS)], pa.int8())}),
    "nulls": pa.table({"a": pa.nulls(ROWS), "b": pa.nulls(ROWS, pa.int32())}),
    "bools": pa.table({"a": [True, None, False] * 300}),
    "strings": pa.table({"s": [f"row {i}" for i in range(ROWS)]}),
    "wide strings": pa.table({"s": ["é" * 5_000] * ROWS}),
    "large strings": pa.table({"s": pa.array(["x"] * ROWS, pa.large_string())}),
    "string views": pa.table({"s": pa.array(["x" * 40, None] * 500, pa.string_view())}),
    "binary": pa.table({"b": pa.array([bytes(40)] * ROWS, pa.binary(40))}),
    "lists": pa.table({"l": pa.array([[1, 2], None, []] * 300, pa.list_(pa.int16()))}),
    "fixed lists": pa.table({"l": pa.array([[1, 2]] * ROWS, pa.list_(pa.int16(), 2))}),
    "structs": pa.table({"t": [{"a": 1, "b": "x"}] * ROWS}),
    "maps": pa.table({"m": pa.array([[("k", 1)]] * 9, pa.map_(pa.string(), pa.int64()))}),
    "decimals": pa.table({"d": pa.array([decimal.Decimal("1.20")] * 9, pa.decimal128(38, 2))}),
    "times": pa.table({"t": pa.array([dt.datetime(2024, 1, 1)] * 9, pa.timestamp("ns", "UTC"))}),
    "many columns": pa.table({f"c{i}": pa.array([i] * 20, pa.float64()) for i in range(3000)}),
    "many rows": pa.table({"a": pa.array([0] * 200_000, pa.int64())}),
}


def read_guarded(data, table, key=KEY):
    """The columns of `table` in an Arrow IPC file that the guard lets pass, each buffer checked."""
    check_ipc_sizes(data, table.num_rows, key)
    found = segments._read(data, table.schema, key, "ANY")
    segments._check_columns(found, found.schema, table.num_rows, key)
    return found


def plain_ipc(table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(one_batch(table))
    return sink.getvalue()


def one_batch(table):
    arrays = [segments._whole(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("encode", [encode_ipc, plain_ipc])
def test_honest_tables_pass(name, encode):
    table = HONEST[name]
    data = encode(table)
    check_ipc_sizes(data, table.num_rows, KEY)
    check_ipc_sizes(memoryview(data), table.num_rows, KEY)
    found = read_guarded(data, table)
    assert found.equals(table)


def test_a_segment_is_encoded_alike_whatever_its_chunks():
    table = HONEST["strings"]
    parts = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert encode_ipc(parts) == encode_ipc(table)


def forged(table, honest, lie):
    """The file with every declared length of `honest` bytes replaced by `lie`."""
    with mock.patch.object(segments, "PLAIN_BYTES", 0):
        data = encode_ipc(table)
    length = struct.pack("<q", honest)
    assert data.count(length) >= 1
    return data.replace(length, struct.pack("<q", lie))


@pytest.mark.parametrize("lie", [2**25, 2**31, 2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize(
    ("name", "honest"),
    [
        ("ints", 8 * ROWS),
        ("strings", 4 * (ROWS + 1)),
        ("fixed lists", 4000),
    ],
)
def test_a_bomb_is_refused_before_arrow_allocates(name, honest, lie):
    data = forged(HONEST[name], honest, lie)
    gc.collect()
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptObject, match="would decode to") as caught:
        check_ipc_sizes(data, HONEST[name].num_rows, KEY)
    assert caught.value.key == KEY
    with pytest.raises(CorruptObject):
        read_guarded(data, HONEST[name])
    assert pa.total_allocated_bytes() <= before  # what tests before left may go meanwhile


def test_a_bomb_of_many_buffers_is_refused():
    """Each alone is modest; together they are not."""
    table = pa.table({f"c{i}": pa.array(range(997), pa.int64()) for i in range(64)})
    assert read_guarded(encode_ipc(table), table).equals(table)
    with pytest.raises(CorruptObject, match="would decode to"):
        check_ipc_sizes(forged(table, 8 * 997, 2 << 20), 997, KEY)


def test_a_real_bomb_is_refused():
    """Not forged: 1 GiB of zeros in a few rows, which zstd makes small."""
    big = pa.array([bytes(32 << 20)] * 4, pa.binary())
    table = pa.table({"b": big})
    data = encode_ipc(table)
    assert len(data) < 100_000
    with pytest.raises(CorruptObject, match="would decode to"):
        read_guarded(data, table)


@pytest.mark.parametrize("lie", [0, -1, -2, -(2**62), 7999, 8001])
def test_a_small_lie_about_a_length_is_found_by_arrow(lie):
    with pytest.raises(CorruptObject):
        read_guarded(forged(HONEST["ints"], 8 * ROWS, lie), HONEST["ints"])


SMALL = pa.table(
    {
        "path": ["data/a", "data/b", "data/c"],
        "n": pa.array([1, None, 3]),
        "l": pa.array([["x"], None, []], pa.list_(pa.string())),
    }
)


def test_every_truncation_is_refused_by_type():
    data = encode_ipc(SMALL)
    for length in range(len(data)):
        with pytest.raises(CorruptObject):
            read_guarded(data[:length], SMALL)


def test_damage_behind_the_digest_is_refused_by_type_or_harmless():
    """A flipped bit is found by the frame's digest. A hostile writer could still mean it."""
    data = encode_ipc(SMALL)
    for position in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[position] ^= 1 << bit
            try:
                table = read_guarded(bytes(broken), SMALL)
            except CorruptObject:
                continue
            table.validate(full=True)
            table.to_pylist()


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"ARROW1\0\0" * 20, bytes(100), b"x" * 1000])
def test_what_is_not_arrow_is_refused(data):
    with pytest.raises(CorruptObject, match="not Arrow IPC"):
        check_ipc_sizes(data, 1, KEY)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_there_is_exactly_one_record_batch(count):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, files().schema) as writer:
        for _ in range(count):
            writer.write_batch(one_batch(files()))
    with pytest.raises(CorruptObject, match="not Arrow IPC"):
        check_ipc_sizes(sink.getvalue(), 2 * count, KEY)
    with pytest.raises(CorruptObject):
        decode_segment(sink.getvalue(), FILES, 2 * count, KEY)


@pytest.mark.parametrize("encode", [encode_ipc, plain_ipc])
def test_dictionaries_are_refused(encode):
    """In a known column and in one of a later version."""
    words = pa.array(["a", "b"]).dictionary_encode()
    for table in (files(partition=words), files().append_column("later", words)):
        with pytest.raises(CorruptObject, match="not Arrow IPC"):
            check_ipc_sizes(encode(table), 2, KEY)
        with pytest.raises(CorruptObject):
            decode_segment(encode(table), FILES, 2, KEY)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_another_compression_than_zstd_is_refused(codec):
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, files().schema, options=options) as writer:
        writer.write_batch(one_batch(files()))
    if codec == "zstd":
        assert decode_segment(sink.getvalue(), FILES, 2, KEY).equals(files())
        return
    with pytest.raises(CorruptObject):
        decode_segment(sink.getvalue(), FILES, 2, KEY)


def test_salt_gives_other_bytes_of_the_same_rows():
    bodies = [encode_ipc(files(), salt) for salt in (b"", b"one", b"two")]
    assert len(set(bodies)) == 3
    for body in bodies:
        assert decode_segment(body, FILES, 2, KEY).equals(files())


# --- What a segment must be ---------------------------------------------------------------------


def files(**changes):
    columns = {
        "table": ["t", "t"],
        "path": ["data/a", "data/b"],
        "partition": ["", ""],
        "size_bytes": [1, 2],
        "row_count": [1, 2],
        "revision": [0, 0],
        "schema_fingerprint": [bytes(16)] * 2,
        "first_clock": [0, 0],
        "last_clock": [0, 0],
        "footer_bytes": [8, 8],
        "footer_digest": [bytes(8)] * 2,
        "row_groups": [1, 1],
        "original_revision": [None, None],
    }
    columns.update(changes)
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, FILES_COLUMNS.field(name).type)
        for name, column in columns.items()
    ]
    fields = [
        FILES_COLUMNS.field(name).with_type(array.type).with_nullable(bool(array.null_count))
        for name, array in zip(columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def test_a_sound_segment_decodes():
    found = decode_segment(encode_ipc(files()), FILES, 2, KEY)
    assert found.column("path").to_pylist() == ["data/a", "data/b"]


def test_columns_of_later_versions_are_ignored_but_not_lost():
    """Who would write the rows anew is told."""
    table = files().append_column("later", pa.array([1, None]))
    assert decode_segment(encode_ipc(table), FILES, 2, KEY).equals(files())
    with pytest.raises(UnsupportedFeature, match="columns that this lakelog doesn't know"):
        decode_segment(encode_ipc(table), FILES, 2, KEY, exact=True)


@pytest.mark.parametrize("kind", ["plain", "in a list", "of an extension type"])
def test_a_dictionary_in_a_column_of_a_later_version_is_refused(kind):
    """Also where the footer lists none."""
    words = pa.array(["x", "y"]).dictionary_encode()
    later = {
        "plain": words,
        "in a list": pa.ListArray.from_arrays([0, 1, 2], words),
        "of an extension type": pa.ExtensionArray.from_storage(
            pa.opaque(words.type, "kind", "vendor"), words
        ),
    }[kind]
    data = bytearray(encode_ipc(files().append_column("later", later)))
    size = int.from_bytes(data[-10:-6], "little")
    start = len(data) - 10 - size
    footer = memoryview(data)[start : start + size]
    listed = ipc_sizes.Table(footer, int.from_bytes(footer[:4], "little")).indirect(2)
    footer[listed : listed + 4] = bytes(4)
    with pytest.raises(CorruptObject, match="dictionary"):
        decode_segment(bytes(data), FILES, 2, KEY)


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        pytest.param(files(), 1, id="fewer rows declared"),
        pytest.param(files(), 3, id="more rows declared"),
        pytest.param(files().drop_columns(["size_bytes"]), 2, id="column missing"),
        pytest.param(files().append_column("path", files()["path"]), 2, id="column twice"),
        pytest.param(
            files().drop_columns(["size_bytes"]).append_column("path", files()["path"]),
            2,
            id="one column missing and another twice",
        ),
        pytest.param(files(size_bytes=pa.array([1, 2], pa.int32())), 2, id="other type"),
        pytest.param(files(path=pa.array(["data/a", None])), 2, id="null"),
        pytest.param(files(path=["data/b", "data/a"]), 2, id="not sorted"),
        pytest.param(files(table=["u", "t"]), 2, id="tables not sorted"),
        pytest.param(files(table=["", "t"]), 2, id="no table"),
        pytest.param(files(table=["t", "ü" * 200]), 2, id="long table"),
        pytest.param(files(size_bytes=[1, 1 << 62]), 2, id="absurd size"),
        pytest.param(files(path=["data/a", "data/a"]), 2, id="twice"),
        pytest.param(files(path=["data/a", "data/../../w2"]), 2, id="bad path"),
        pytest.param(files(size_bytes=[1, -2]), 2, id="negative size"),
        pytest.param(files(row_count=[-1, 2]), 2, id="negative rows"),
    ],
)
def test_a_segment_that_breaks_a_rule_is_refused(table, rows):
    with pytest.raises(CorruptObject) as caught:
        decode_segment(encode_ipc(table), FILES, rows, KEY)
    assert caught.value.key == KEY


def test_text_that_is_not_utf8_is_refused():
    offsets = pa.py_buffer(struct.pack("<iii", 0, 6, 12))
    paths = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"data/\xffdata/\xfe"))
    with pytest.raises(CorruptObject):
        decode_segment(encode_ipc(files(path=paths)), FILES, 2, KEY)


@pytest.mark.parametrize("bounds", [(0, 6, 1 << 20), (0, 7, 6), (-5, 6, 12), (0, -6, 12)])
def test_offsets_outside_their_buffer_are_refused(bounds):
    data = plain_ipc(files())
    honest = struct.pack("<iii", 0, 6, 12)
    assert data.count(honest) == 1
    lie = data.replace(honest, struct.pack("<iii", *bounds))
    with pytest.raises(CorruptObject):
        decode_segment(lie, FILES, 2, KEY)
