"""Objects of a log written by hand: protobuf, frames, Arrow IPC. Follows docs/format.md, sections 3
and 6.4, and the tables of `independent_messages`; nothing of the package is used.
See `logs_by_hand`."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from independent_wire import BOOL, SINT, TEXT, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A message as a tree: [number, wire type, value] by field, in order; the value of wire type 2 is
# bytes, or such a list again.
Tree = list[list[Any]]


class Entry(bytes):
    """An entry of a map. Damage leaves it alone: parsers differ in what they make of an odd one."""


def tree(shape: Shape, values: Mapping[str, Any]) -> Tree:
    """A message as a tree, fields by number; None and values of the default are left out.

    A tuple of one value is written even if it is the default (`optional` fields).
    """
    found: Tree = []
    for number, field in sorted(shape.fields.items()):
        value = values.get(field.name)
        if field.often == "many":
            items: Sequence[Any] = value or []
        elif field.often == "map":
            pairs = [{"key": k, "value": v} for k, v in sorted((value or {}).items())]
            items = [Entry(encode(tree(cast("Shape", field.kind), pair))) for pair in pairs]
        elif isinstance(value, tuple):
            items = value
        else:
            items = [value] if value or isinstance(value, dict) else []
        found += [[number, field.wire(), raw_value(field.kind, item)] for item in items]
    return found


def raw_value(kind: str | Shape, value: Any) -> Any:
    if isinstance(kind, Shape):
        return value if isinstance(value, (list, Entry)) else tree(kind, value)
    if kind == SINT:
        return (value << 1) ^ (value >> 63)
    if kind == BOOL:
        return int(value)
    return value.encode() if kind == TEXT else value


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def encode(message: Tree) -> bytes:
    """The bytes of a message."""
    found = b""
    for number, wire, value in message:
        found += varint(number << 3 | wire)
        if wire == 0:
            found += varint(value)
            continue
        body = encode(value) if isinstance(value, list) else value
        found += (varint(len(body)) if wire == 2 else b"") + body
    return found


@dataclass
class Header:
    """All that a frame says before its digest; lengths that are None are right."""

    kind: int
    log_id: bytes
    incarnation: int = 1
    magic: bytes = b"LKLG"
    version: int = 1
    codec: int = 0
    zero: int = 0
    zeros: int = 0
    stored: int | None = None
    decoded: int | None = None
    attached: int | None = None


def frame(header: Header, message: bytes, attached: bytes = b"") -> bytes:
    """A frame with a right digest, whatever else is wrong with it."""
    stored = message
    if header.codec == 1:
        stored = pa.Codec("zstd").compress(message, asbytes=True)
    head = struct.pack(
        "<4s4BIIQ16sII",
        header.magic,
        header.version,
        header.kind,
        header.codec,
        header.zero,
        len(stored) if header.stored is None else header.stored,
        len(message) if header.decoded is None else header.decoded,
        len(attached) if header.attached is None else header.attached,
        header.log_id,
        header.incarnation,
        header.zeros,
    )
    body = stored + attached
    return head + hashlib.sha256(head + body).digest() + body


def digest_of(data: bytes) -> bytes:
    return data[48:80]


@dataclass
class Form:
    """How a table becomes a piece of Arrow IPC."""

    compression: str | None = None
    batches: int = 1
    stream: bool = False
    version: Any = pa.ipc.MetadataVersion.V5


def ipc(table: pa.Table, form: Form) -> bytes:
    """A piece of Arrow IPC."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=form.compression, metadata_version=form.version)
    new = pa.ipc.new_stream if form.stream else pa.ipc.new_file
    with new(sink, table.schema, options=options) as out:
        combined = table.combine_chunks()
        rows = max(1, -(-combined.num_rows // form.batches))
        for batch in combined.to_batches(max_chunksize=rows):
            out.write_batch(batch)
    return sink.getvalue().to_pybytes()


class Attachments:
    """The attachments of a frame; each piece begins at a multiple of 64."""

    def __init__(self) -> None:
        self.data = b""

    def put(self, piece: bytes) -> int:
        self.data += bytes(-len(self.data) % 64)
        at = len(self.data)
        self.data += piece
        return at
