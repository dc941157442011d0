"""Schemas: their fingerprints, and what can be written."""

from __future__ import annotations

import hashlib
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.format.schema import (
    COLUMN_ID,
    check_writable,
    column_id,
    column_of,
    decode_log_schema,
    decode_schema,
    encode_schema,
    fingerprint,
    pack_schema,
    unpack_schema,
    with_column_id,
)
from lakelog.errors import InvalidSchema
from schema_types import TYPES

# --- Fingerprints ---------------------------------------------------------------------------------


def test_schemas_round_trip_with_the_ids_of_their_columns():
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.string(), metadata={COLUMN_ID: "2", "other": "x"}),
            pa.field("日本", pa.list_(pa.struct([("x", pa.decimal128(9, 2))]))),
        ],
        metadata={"pandas": "{}"},
    )
    encoded = encode_schema(schema)
    found = decode_schema(encoded.message)
    assert len(encoded.fingerprint) == 16
    assert found.metadata is None
    assert [column_id(field) for field in found] == [0, 2, 0]
    assert found.field("b").metadata == {COLUMN_ID: b"2"}
    assert [field.type for field in found] == [field.type for field in schema]
    assert encode_schema(found) == encoded
    packed = unpack_schema(pack_schema(found))
    assert packed.equals(found, check_metadata=True)


@pytest.mark.parametrize("text", ["", "0", "-1", "01", "1.5", "²", "2147483648", "x", "1" * 5000])
def test_what_is_no_id_is_none(text):
    assert column_id(pa.field("a", pa.int8(), metadata={COLUMN_ID: text})) == 0
    assert column_id(pa.field("a", pa.int8(), metadata={COLUMN_ID: "2147483647"})) == (1 << 31) - 1


def test_a_schema_of_a_log_has_an_id_for_each_column_and_none_twice():
    def message(*ids):
        fields = [column_of(name, pa.int8(), number) for name, number in zip("ab", ids)]
        return pa.schema(fields).serialize().to_pybytes()

    assert [column_id(field) for field in decode_log_schema(message(7, 3))] == [7, 3]
    with pytest.raises(ValueError, match="without an id"):
        decode_log_schema(message(7, 0))
    with pytest.raises(ValueError, match="one id"):
        decode_log_schema(message(7, 7))


def test_ids_inside_of_a_column_are_left_out():
    """They are another's, and would be told beside those of the log's columns."""
    inner = pa.field("x", pa.int8(), metadata={COLUMN_ID: "1"})
    kinds = [
        pa.struct([inner]), pa.list_(inner), pa.large_list(inner), pa.list_(inner, 2),
        pa.map_(pa.string(), pa.field("value", pa.struct([inner]))), pa.list_(pa.struct([inner])),
    ]  # fmt: skip
    for kind in kinds:
        given = pa.field("a", kind, metadata={COLUMN_ID: "4"})
        for found in (
            decode_schema(encode_schema(pa.schema([given])).message).field(0),
            with_column_id(given, 5),
        ):
            sink = pa.BufferOutputStream()
            pq.ParquetWriter(sink, pa.schema([found])).close()
            assert found.type == kind
            written = str(pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema)
            assert written.count("field_id=1 ") == 0, written
            assert written.count(f"field_id={column_id(found)} ") == 1


def test_a_fingerprint_knows_name_type_order_and_id_but_no_other_metadata():
    base = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    fingerprint = encode_schema(base).fingerprint
    assert encode_schema(base.with_metadata({"x": "y"})).fingerprint == fingerprint
    others = [
        base.set(0, pa.field("c", pa.int64())),
        base.set(0, pa.field("a", pa.int32())),
        base.set(0, pa.field("a", pa.int64(), nullable=False)),
        base.set(0, pa.field("a", pa.int64(), metadata={COLUMN_ID: "1"})),
        pa.schema(list(base)[::-1]),
    ]
    assert len({fingerprint, *(encode_schema(other).fingerprint for other in others)}) == 6


def test_a_fingerprint_is_that_of_the_text():
    assert fingerprint(b"any bytes") == hashlib.sha256(b"any bytes").digest()[:16]


@pytest.mark.parametrize("bad", [b"", b"x", bytes(100), b"\xff" * 50])
def test_what_is_no_schema_is_refused(bad):
    with pytest.raises(ValueError):
        decode_schema(bad)


MESSAGE = encode_schema(pa.schema([("a", pa.int64())])).message


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(MESSAGE[4:], id="without the marker"),
        pytest.param(MESSAGE + b"\xff\xff\xff\xff\0\0\0\0", id="end of stream behind"),
        pytest.param(MESSAGE + bytes(8), id="zeros behind"),
        pytest.param(MESSAGE + b"x", id="a byte behind"),
        pytest.param(MESSAGE[:-8], id="cut short"),
        pytest.param(pa.record_batch({"a": [1]}).serialize().to_pybytes(), id="a record batch"),
        pytest.param(
            pa.schema([("a", pa.int64()), ("a", pa.int8())]).serialize().to_pybytes(),
            id="a name twice",
        ),
    ],
)
def test_other_forms_of_a_schema_are_refused(bad):
    """Arrow takes some of them."""
    assert decode_schema(MESSAGE).names == ["a"]
    with pytest.raises(ValueError):
        decode_schema(bad)


def test_a_schema_of_metadata_version_4_is_refused():
    at = MESSAGE.index(b"\x04\x00", 12)
    root = 8 + struct.unpack_from("<I", MESSAGE, 8)[0]
    table = root - struct.unpack_from("<i", MESSAGE, root)[0]
    version = root + struct.unpack_from("<H", MESSAGE, table + 4)[0]
    assert at <= version
    assert MESSAGE[version : version + 2] == b"\x04\x00"
    with pytest.raises(ValueError):
        decode_schema(MESSAGE[:version] + b"\x03\x00" + MESSAGE[version + 2 :])


# --- What can be written --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*TYPES, pa.list_(pa.list_(pa.int8())), pa.list_(pa.int8(), 3)])
def test_ordinary_types_can_be_written(kind):
    check_writable(pa.schema([pa.field("c", kind)]))


EMPTY = pa.struct([])

UNION = pa.union([pa.field("x", pa.int8())], mode="dense")


@pytest.mark.parametrize(
    "kind",
    [
        EMPTY,
        pa.list_(EMPTY),
        pa.struct([("inner", EMPTY)]),
        pa.map_(pa.string(), EMPTY),
        UNION,
        pa.list_(UNION),
        pa.month_day_nano_interval(),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_types_without_a_parquet_form_are_refused(kind):
    with pytest.raises(InvalidSchema, match="'c'") as caught:
        check_writable(pa.schema([pa.field("c", kind)]))
    assert caught.value.hint


@pytest.mark.parametrize("names", [[], [""], ["a", "a"], ["a", "b", "a"]], ids=str)
def test_columns_that_no_reader_could_name_are_refused(names):
    with pytest.raises(InvalidSchema):
        check_writable(pa.schema([pa.field(name, pa.int64()) for name in names]))


def test_names_that_differ_in_case_alone_are_two():
    check_writable(pa.schema([pa.field("a", pa.int64()), pa.field("A", pa.int64())]))
