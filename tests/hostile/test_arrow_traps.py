"""What Arrow does with sound bytes that a reader may not expect: it runs the code of extension
types that anybody registered, and takes buffers that are longer than they need be."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from corpus import build_corpus
from lakelog.catalog.format.ipc_sizes import Table, _blocks, uint32
from lakelog.catalog.format.run import Run
from lakelog.catalog.format.schema import decode_schema
from lakelog.catalog.format.segments import APPLICATIONS, FILES, decode_segment, encode_ipc
from lakelog.catalog.log.applications import Applications
from lakelog.errors import CorruptObject

LOOSE = build_corpus().loose
SERIALIZED = {
    "pandas.period": ["{}", "[", '{"freq": 3}'],
    "pandas.interval": ["[]", '{"subtype": 3}', '{"subtype": "zz", "closed": 1}'],
    "arrow.uuid": ["x"], "arrow.fixed_shape_tensor": ["{}"], "hostile.raises": ["x"],
}  # fmt: skip
CASES = [(name, text) for name, texts in SERIALIZED.items() for text in texts]


class Hostile(pa.ExtensionType):
    """An extension type whose code fails in its own way."""

    def __init__(self):
        super().__init__(pa.int64(), "hostile.raises")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        raise LookupError("not an error of Arrow")


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The types that pandas registers when it is loaded, and one more."""
    pytest.importorskip("pandas.core.arrays.arrow.extension_types")
    pa.register_extension_type(Hostile())
    yield
    pa.unregister_extension_type("hostile.raises")


def extension(name, text, kind):
    said = {"ARROW:extension:name": name, "ARROW:extension:metadata": text}
    return pa.field("a", kind, metadata=said)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_schema_of_an_extension_type_that_fails_is_no_schema(name, text):
    failed = 0
    for kind in (pa.int64(), pa.binary(16), pa.string(), pa.list_(pa.int8(), 3)):
        message = pa.schema([extension(name, text, kind)]).serialize().to_pybytes()
        try:
            assert decode_schema(message).names == ["a"]
        except ValueError:
            failed += 1
    assert failed or name.startswith("pandas")


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_segment_with_a_column_of_such_a_type_is_refused_by_type(name, text):
    (piece, *_) = LOOSE.of_kind(FILES)
    table = piece.table()
    refused = 0
    for place, own in enumerate(table.schema):
        said = extension(name, text, own.type).with_name(own.name)
        data = encode_ipc(table.set_column(place, said, table.column(place)))
        try:
            decode_segment(data, FILES, table.num_rows, "k")
        except CorruptObject:
            refused += 1
    assert refused or name == "arrow.fixed_shape_tensor", "no column has such a storage"


def lengthened(data, buffer, by):
    """A segment of which one buffer is said to be longer than it was."""
    out = bytearray(data)
    ((offset, size, _),) = _blocks(memoryview(data))
    message = memoryview(data)[offset + 8 : offset + size]
    batch = Table(message, Table(message, uint32(message, 0)).indirect(2))
    at = offset + 8 + batch.vector(2)[0] + 16 * buffer + 8
    struct.pack_into("<q", out, at, struct.unpack_from("<q", out, at)[0] + by)
    return bytes(out)


@pytest.mark.parametrize("by", [1, 2, 3])
def test_an_offsets_buffer_that_is_longer_than_its_offsets(by):
    """A path and an application id are found in it all the same."""
    (piece, *_) = LOOSE.of_kind(FILES)
    rows = piece.table()
    for buffer in (1, 4, 7):  # the offsets of table, path and partition
        run = Run.of_segment(lengthened(piece.data, buffer, by), rows.num_rows, "k")
        for place in (0, rows.num_rows - 1):
            table, path = (rows.column(name)[place].as_py() for name in ("table", "path"))
            assert run.find(table, path) == place
    (piece, *_) = LOOSE.of_kind(APPLICATIONS)
    found = Applications()
    count = piece.row["row_count"]
    data = lengthened(piece.data, 1, by)
    found.load(decode_segment(data, APPLICATIONS, count, "k"), "k")
    assert found.version("app") == 3
