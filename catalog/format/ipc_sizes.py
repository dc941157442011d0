"""Refuses an Arrow IPC bomb before Arrow allocates for it. Pure.

A compressed IPC buffer declares its own decoded length, and Arrow believes it. This walks the
file's record batch headers (a few hundred bytes each) and adds those lengths up first.

Source: docs/format.md, section 6.4.
"""

from __future__ import annotations

import struct

from ...errors import CorruptObject

MAX_DECODED_BYTES = 2 << 30
ROW_BYTES = 16_384
BUFFER_BYTES = 128  # a row of a statistics column: two or three buffers, a bound of 64 bytes
SLACK_BYTES = 1 << 20
_V5 = 4


def check_ipc_sizes(
    data: memoryview | bytes, rows: int, key: str, *, row_bytes: int = ROW_BYTES
) -> None:
    """Raise unless the decoded size of an Arrow IPC file is in proportion to its rows.

    Args:
        data: Arrow IPC file bytes.
        rows: How many rows it is said to have.
        key: Named in errors.
        row_bytes: What one row may take, beside 128 bytes for each buffer of a record batch.
    Raises:
        CorruptObject: It would decode to more than that (and 1 MiB), or to more than 2 GiB; or
            isn't Arrow IPC.
    """
    view = memoryview(data)
    try:
        sizes = [_batch_bytes(view, *block) for block in _blocks(view)]
        if len(sizes) != 1:
            raise ValueError("not one record batch")
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptObject(f"{key} holds a segment that is not Arrow IPC", key=key) from error
    decoded = sum(size for size, _ in sizes)
    row_bytes += BUFFER_BYTES * max((buffers for _, buffers in sizes), default=0)
    if decoded > min(MAX_DECODED_BYTES, rows * row_bytes + SLACK_BYTES):
        raise CorruptObject(
            f"{key} holds a segment that would decode to {decoded} bytes for {rows} rows", key=key
        )


def check_schema_form(message: bytes) -> None:
    """Raise unless the bytes are exactly one encapsulated schema message of metadata V5.

    Raises:
        ValueError: Another form, though Arrow may take it.
    Source: docs/format.md, section 5.3.
    """
    try:
        marker, length = struct.unpack_from("<II", message)
        if marker != 0xFFFF_FFFF or length % 8 or len(message) != 8 + length:
            raise ValueError("not one encapsulated message")
        metadata = memoryview(message)[8:]
        top = Table(metadata, uint32(metadata, 0))
        version_at, kind_at, header = top.field(0), top.field(1), top.indirect(2)
        if not version_at or struct.unpack_from("<h", metadata, version_at)[0] != _V5:
            raise ValueError("not metadata V5")
        if not kind_at or metadata[kind_at] != 1 or not header:
            raise ValueError("not a schema")
        _check_little_endian(Table(metadata, header))
    except (struct.error, IndexError) as error:
        raise ValueError("not an Arrow message") from error


def _check_little_endian(schema: Table) -> None:
    at = schema.field(0)
    if at and struct.unpack_from("<h", schema.view, at)[0] != 0:
        raise ValueError("not little-endian")


def _blocks(view: memoryview) -> list[tuple[int, int, int]]:
    """Offset, metadata length and body length of every record batch, from the footer."""
    if len(view) < 18 or bytes(view[:6]) != b"ARROW1" or bytes(view[-6:]) != b"ARROW1":
        raise ValueError("no Arrow magic")
    size = int32(view, len(view) - 10)
    start = len(view) - 10 - size
    if size <= 0 or start < 8:
        raise ValueError("footer length")
    footer = view[start : len(view) - 10]
    table = Table(footer, uint32(footer, 0))
    version_at, schema_at = table.field(0), table.indirect(1)
    if not version_at or struct.unpack_from("<h", footer, version_at)[0] != _V5 or not schema_at:
        raise ValueError("not metadata V5")
    _check_little_endian(Table(footer, schema_at))
    if table.vector(2)[1]:
        raise ValueError("dictionaries")
    first, count = table.vector(3)
    if count * 24 > len(footer):
        raise ValueError("more blocks than fit")
    places = range(first, first + 24 * count, 24)
    return [struct.unpack_from("<qi4xq", footer, place) for place in places]


def _batch_bytes(view: memoryview, offset: int, size: int, length: int) -> tuple[int, int]:
    """Decoded size of a batch, and its number of buffers."""
    if offset < 0 or size < 8 or offset + size > len(view):
        raise ValueError("block outside the file")
    message = view[offset + 8 : offset + size]
    top = Table(message, uint32(message, 0))
    version_at, kind_at, header = top.field(0), top.field(1), top.indirect(2)
    if not kind_at or not header:
        raise ValueError("message without header")
    if not version_at or struct.unpack_from("<h", message, version_at)[0] != _V5:
        raise ValueError("not metadata V5: V4 can hide compression from this check")
    batch = Table(message, header)
    if message[kind_at] != 3:
        raise ValueError("block is no record batch")
    compressed = batch.field(3) != 0
    if compressed and not _is_zstd(Table(message, batch.indirect(3))):
        raise ValueError("compressed with another codec than zstd")
    first, count = batch.vector(2)
    if count * 16 > len(message):
        raise ValueError("more buffers than fit")
    _check_nodes(batch, message)
    body, total = offset + size, 0
    long_at = top.field(3)
    end = struct.unpack_from("<q", message, long_at)[0] if long_at else 0
    if end < 0 or end != length or body + end > len(view):
        raise ValueError("body outside the file, or of two lengths")
    places = struct.unpack_from(f"<{2 * count}q", message, first)
    for at, held in zip(places[::2], places[1::2], strict=True):
        if held < 0 or at < 0 or at % 8 or at + held > end:
            raise ValueError("buffer outside the body")
        total += _decoded_bytes(view, body + at, held) if compressed else held
    return total, count


def _decoded_bytes(view: memoryview, at: int, length: int) -> int:
    """What a buffer of a compressed batch says that it decodes to."""
    if length == 0:
        return 0
    if length < 8:
        raise ValueError("buffer without its length")
    declared = int(struct.unpack_from("<q", view, at)[0])
    if declared < -1:
        raise ValueError("buffer of a negative length")
    return length - 8 if declared == -1 else declared


def _check_nodes(batch: Table, message: memoryview) -> None:
    """No column has a negative number of rows, or of nulls, or more nulls than rows."""
    first, count = batch.vector(1)
    if count * 16 > len(message):
        raise ValueError("more columns than fit")
    numbers = struct.unpack_from(f"<{2 * count}q", message, first)
    for rows, nulls in zip(numbers[::2], numbers[1::2], strict=True):
        if not 0 <= nulls <= rows:
            raise ValueError("column of a wrong number of nulls")


def _is_zstd(compression: Table) -> bool:
    codec, method = compression.field(0), compression.field(1)
    by_buffer = not method or compression.view[method] == 0
    return bool(codec) and compression.view[codec] == 1 and by_buffer


# --- Tables of flatbuffers, the form of Arrow's headers -------------------------------------------


class Table:
    """A flatbuffer table: reads fields by their slot."""

    def __init__(self, view: memoryview, position: int) -> None:
        self.view, self.position = view, position
        self.vtable = position - int32(view, position)
        if self.vtable < 0:
            raise ValueError("vtable before the buffer")
        self.length = uint16(view, self.vtable)

    def field(self, slot: int) -> int:
        """Absolute position of a field, 0 if absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self.length:
            return 0
        offset = uint16(self.view, self.vtable + entry)
        return self.position + offset if offset else 0

    def indirect(self, slot: int) -> int:
        """Absolute position of what a field points to, 0 if absent."""
        at = self.field(slot)
        return at + uint32(self.view, at) if at else 0

    def vector(self, slot: int) -> tuple[int, int]:
        """Position of the first element and number of elements."""
        at = self.indirect(slot)
        return (at + 4, uint32(self.view, at)) if at else (0, 0)


def uint16(view: memoryview, at: int) -> int:
    return int(struct.unpack_from("<H", view, at)[0])


def int32(view: memoryview, at: int) -> int:
    return int(struct.unpack_from("<i", view, at)[0])


def uint32(view: memoryview, at: int) -> int:
    return int(struct.unpack_from("<I", view, at)[0])
