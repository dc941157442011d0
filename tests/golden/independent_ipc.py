"""The profile of Arrow IPC for the independent reader: docs/format.md, sections 5.3 and 6.4.

The flatbuffers are looked at here, as far as the profile says something; pyarrow decodes the rest.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import Any

import pyarrow as pa
from independent_wire import Damaged, need

V5, SCHEMA_HEADER, BATCH_HEADER, ZSTD = 4, 1, 3, 1
MAGIC = b"ARROW1"


class Flat:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.slots = at - self.number("<i", at)
        self.size = self.number("<H", self.slots)

    @classmethod
    def root(cls, data: bytes) -> Flat:
        need(len(data) >= 8, "flatbuffer")
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, form: str, at: int) -> int:
        need(at >= 0 and at + struct.calcsize(form) <= len(self.data), "flatbuffer")
        return int(struct.unpack_from(form, self.data, at)[0])

    def where(self, slot: int) -> int | None:
        """Where a field begins; None if it is not there."""
        place = 4 + 2 * slot
        offset = self.number("<H", self.slots + place) if place + 2 <= self.size else 0
        return self.at + offset if offset else None

    def scalar(self, slot: int, form: str) -> int:
        at = self.where(slot)
        return 0 if at is None else self.number(form, at)

    def table(self, slot: int) -> Flat | None:
        at = self.where(slot)
        return None if at is None else Flat(self.data, at + self.number("<I", at))

    def vector(self, slot: int, width: int) -> list[int]:
        """Where the items of a vector begin, each of so many bytes."""
        at = self.where(slot)
        if at is None:
            return []
        start = at + self.number("<I", at)
        count = self.number("<I", start)
        need(start + 4 + count * width <= len(self.data), "flatbuffer")
        return [start + 4 + index * width for index in range(count)]

    def tables(self, slot: int) -> list[Flat]:
        return [Flat(self.data, at + self.number("<I", at)) for at in self.vector(slot, 4)]

    def text(self, slot: int) -> bytes:
        items = self.vector(slot, 1)
        return self.data[items[0] : items[0] + len(items)] if items else b""


def check_no_dictionaries(field: Flat, depth: int = 0) -> None:
    need(field.where(4) is None and depth < 64, "a dictionary in a segment")
    for child in field.tables(5):
        check_no_dictionaries(child, depth + 1)


def count_nodes(field: Flat) -> int:
    return 1 + sum(map(count_nodes, field.tables(5)))


Node = tuple[int, int]  # length, null_count
Profile = tuple[list[str | None], list[list[Node]]]


def check_profile(data: bytes, rows: int, row_bytes: int) -> Profile:
    """Check a piece.

    Returns:
        The names of its top-level columns, None for one not UTF-8; their nodes, with those of
        their children.
    """
    need(len(data) >= 24 and data[:6] == MAGIC and data[-6:] == MAGIC, "no Arrow IPC file")
    length = struct.unpack_from("<i", data, len(data) - 10)[0]
    need(0 < length <= len(data) - 16, "length of an Arrow footer")
    footer = Flat.root(data[len(data) - 10 - length : len(data) - 10])
    need(footer.scalar(0, "<h") == V5, "metadata version of a footer")
    schema = footer.table(1)
    need(schema is not None and schema.scalar(0, "<h") == 0, "endianness")
    assert schema is not None
    need(not footer.vector(2, 24), "dictionaries")
    blocks = footer.vector(3, 24)
    need(len(blocks) == 1, "record batches of a segment")
    fields = schema.tables(1)
    for field in fields:
        check_no_dictionaries(field)
    nodes = check_batch(data, footer, blocks[0], rows, row_bytes)
    counts = [count_nodes(field) for field in fields]
    need(sum(counts) == len(nodes), "nodes of a record batch")
    starts = [sum(counts[:at]) for at in range(len(counts))]
    own = [nodes[start : start + count] for start, count in zip(starts, counts)]
    return [column_name(field.text(0)) for field in fields], own


def column_name(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def check_batch(data: bytes, footer: Flat, block: int, rows: int, row_bytes: int) -> list[Node]:
    """The message of the record batch, and the sizes of its buffers; gives its nodes."""
    start, meta = footer.number("<q", block), footer.number("<i", block + 8)
    need(start >= 8 and meta >= 16 and start + meta <= len(data), "block of a record batch")
    skip = 8 if data[start : start + 4] == b"\xff\xff\xff\xff" else 4
    message = Flat.root(data[start + skip : start + meta])
    need(message.scalar(0, "<h") == V5, "metadata version of a record batch")
    need(message.scalar(1, "<B") == BATCH_HEADER, "no record batch")
    size = message.scalar(3, "<q")
    need(size >= 0 and start + meta + size <= len(data), "body of a record batch")
    need(footer.number("<q", block + 16) == size, "length of the body of a record batch")
    batch = message.table(2)
    need(batch is not None, "no record batch")
    assert batch is not None
    need(rows >= 1 and batch.scalar(0, "<q") == rows, "row count of a segment")
    compression = batch.table(3)
    if compression is not None:
        right = compression.scalar(0, "<b") == ZSTD and compression.scalar(1, "<b") == 0
        need(right, "compression of a segment")
    total = 0
    buffers = batch.vector(2, 16)
    for at in buffers:
        offset, length = batch.number("<q", at), batch.number("<q", at + 8)
        need(offset >= 0 and length >= 0 and offset + length <= size, "buffer of a segment")
        need(offset % 8 == 0, "alignment of a buffer")
        total += decoded_length(data, start + meta + offset, length, compression is not None)
    limit = (1 << 20) + rows * (row_bytes + 128 * len(buffers))
    need(total <= min(limit, 2 << 30), "decoded size of a segment")
    places = batch.vector(1, 16)
    nodes = [(batch.number("<q", at), batch.number("<q", at + 8)) for at in places]
    need(all(0 <= nulls <= length for length, nulls in nodes), "null count of a column")
    return nodes


def decoded_length(data: bytes, at: int, length: int, compressed: bool) -> int:
    if not compressed or length == 0:
        return length
    need(length >= 8, "compressed buffer")
    told: int = struct.unpack_from("<q", data, at)[0]
    need(told >= -1, "compressed buffer")
    return length - 8 if told == -1 else told


class Piece:
    """A piece of Arrow IPC whose profile was checked; columns are decoded when asked for."""

    def __init__(self, data: bytes, rows: int, row_bytes: int) -> None:
        self.rows = rows
        self.data = data
        self.names, self.nodes = check_profile(data, rows, row_bytes)

    def columns(self, wanted: dict[str, tuple[pa.DataType, bool]]) -> dict[str, list[Any]]:
        """Columns by name, of these types, with nulls where they may be."""
        for name in wanted:
            need(self.names.count(name) == 1, f"column {name}")
        places = sorted(self.names.index(name) for name in wanted)
        try:
            options = pa.ipc.IpcReadOptions(included_fields=places)
            reader = pa.ipc.open_file(pa.py_buffer(self.data), options=options)
            need(reader.num_record_batches == 1, "record batches of a segment")
            batch = reader.get_batch(0)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Damaged(f"Arrow IPC: {error}") from None
        need(batch.num_rows == self.rows, "row count of a segment")
        found = {}
        for name, (kind, nulls) in wanted.items():
            found[name] = plain_values(batch.column(batch.schema.names.index(name)), kind, nulls)
        return found


def plain_values(column: pa.Array, kind: pa.DataType, nulls: bool) -> list[Any]:
    """The values of a column; times as numbers."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    need(same_type(column.type, kind), f"type {column.type} of a column")
    need(nulls or not column.null_count, "nulls in a column")
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    try:
        values = column.to_pylist()
    except (UnicodeDecodeError, pa.ArrowException) as error:
        raise Damaged(f"values of a column: {error}") from None
    if pa.types.is_list(kind):
        need(all(v is not None for items in values if items for v in items), "null in a list")
    return list(values)


def storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def same_type(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether two types are the same; the child field of a list may have any name."""
    if pa.types.is_list(kind):
        return pa.types.is_list(found) and storage(found.value_type).equals(kind.value_type)
    return bool(found.equals(kind))


@lru_cache(maxsize=4096)
def decode_schema(data: bytes) -> pa.Schema:
    """The schema of an encapsulated message (section 5.3)."""
    need(len(data) >= 16 and data[:4] == b"\xff\xff\xff\xff", "no schema message")
    length = struct.unpack_from("<I", data, 4)[0]
    need(length % 8 == 0 and len(data) == 8 + length, "length of a schema message")
    message = Flat.root(data[8:])
    need(message.scalar(0, "<h") == V5, "metadata version of a schema")
    need(message.scalar(1, "<B") == SCHEMA_HEADER, "no schema")
    header = message.table(2)
    need(header is not None and header.scalar(0, "<h") == 0, "endianness")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        names = schema.names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(f"schema: {error}") from None
    need(len(set(names)) == len(names), "two columns of one name")
    return schema


def decode_file_schema(data: bytes) -> tuple[pa.Schema, list[int]]:
    """The schema of files, and the ids of its columns (section 5.3)."""
    schema = decode_schema(data)
    texts = [(field.metadata or {}).get(b"PARQUET:field_id", b"") for field in schema]
    need(all(re.fullmatch(rb"[1-9][0-9]{0,9}", text) for text in texts), "a column without an id")
    ids = [int(text) for text in texts]
    need(all(number < 1 << 31 for number in ids), "an id that can't be")
    need(len(set(ids)) == len(ids), "two columns of one id")
    return schema, ids
