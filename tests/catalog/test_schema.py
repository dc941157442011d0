"""Schemas: their fingerprints, and what can be written."""

from __future__ import annotations

import hashlib
import struct

import pyarrow as pa
import pytest
from lakelog.catalog.format.schema import (
    GENERATION,
    check_writable,
    decode_schema,
    encode_schema,
    fingerprint,
    generation,
    pack_schema,
    unpack_schema,
)
from lakelog.errors import InvalidSchema
from schema_types import TYPES

# --- Fingerprints ---------------------------------------------------------------------------------


def test_schemas_round_trip_with_their_generations():
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.string(), metadata={GENERATION: "2", "other": "x"}),
            pa.field("日本", pa.list_(pa.struct([("x", pa.decimal128(9, 2))]))),
        ],
        metadata={"pandas": "{}"},
    )
    encoded = encode_schema(schema)
    found = decode_schema(encoded.message, encoded.generations)
    assert len(encoded.fingerprint) == 16
    assert encoded.generations == (("b", 2),)
    assert found.metadata is None
    assert [generation(field) for field in found] == [0, 2, 0]
    assert found.field("b").metadata == {GENERATION: b"2"}
    assert [field.type for field in found] == [field.type for field in schema]
    assert encode_schema(found) == encoded
    assert generation(decode_schema(encoded.message).field("b")) == 0
    packed = unpack_schema(pack_schema(found))
    assert packed.equals(found, check_metadata=True)


def test_generations_ascend_by_bytes_and_those_of_no_column_are_ignored():
    names = ["z", "ü", "a", "🦆", "\uffff"]
    first = {GENERATION: "1"}
    schema = pa.schema([pa.field(name, pa.int8(), metadata=first) for name in names])
    found = encode_schema(schema).generations
    assert [name for name, _ in found] == sorted(names, key=str.encode)
    plain = encode_schema(pa.schema([("a", pa.int8())])).message
    assert [generation(f) for f in decode_schema(plain, [("gone", 7)])] == [0]


def test_a_fingerprint_knows_name_type_order_and_generation_but_no_metadata():
    base = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    fingerprint = encode_schema(base).fingerprint
    assert encode_schema(base.with_metadata({"x": "y"})).fingerprint == fingerprint
    others = [
        base.set(0, pa.field("c", pa.int64())),
        base.set(0, pa.field("a", pa.int32())),
        base.set(0, pa.field("a", pa.int64(), nullable=False)),
        base.set(0, pa.field("a", pa.int64(), metadata={GENERATION: "1"})),
        pa.schema(list(base)[::-1]),
    ]
    assert len({fingerprint, *(encode_schema(other).fingerprint for other in others)}) == 6


def test_a_fingerprint_is_that_of_the_text():
    message, generations = b"any bytes", [("ü", 3), ("🦆", 999_999_999)]
    body = struct.pack("<I", 9) + message
    body += struct.pack("<I", 2) + "ü".encode() + struct.pack("<I", 3)
    body += struct.pack("<I", 4) + "🦆".encode() + struct.pack("<I", 999_999_999)
    assert fingerprint(message, generations) == hashlib.sha256(body).digest()[:16]
    plain = hashlib.sha256(struct.pack("<I", 9) + message).digest()[:16]
    assert fingerprint(message) == plain


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
