"""A Parquet file held against the log and against its own checksums, without decoding it: for
engines that read files themselves and verify neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...errors import CorruptObject
from .file_part import footer_of, hint_of, reading

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...store import Store
    from .file_part import FilePart


# --- Headers --------------------------------------------------------------------------------------

Bytes: TypeAlias = bytes | bytearray | memoryview

# Types of fields.
_BOOLS, _BYTE, _NUMBERS, _DOUBLE, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, 12
_SIZE_FIELD: Final = 3  # compressed_page_size of a PageHeader
_CRC_FIELD: Final = 4

_LONGEST: Final = 48  # below it a bound in a header may be, to be taken in one step
_VARINT: Final = rb"[\x80-\xff]*+[\x00-\x7f]"


def page_header(body: Bytes, at: int) -> tuple[int, int, int]:
    """The header that begins at a byte.

    Returns:
        The byte behind it, where the page begins; the size of the page in bytes; its CRC-32, or -1
        if it has none.
    Raises:
        IndexError: It doesn't end within these bytes.
        ValueError: No such header.
    """
    found = _USUAL.match(body, at)
    if found is None:
        return page_header_by_fields(body, at)
    size, crc = map(_zigzag, found.groups())
    if size < 0:
        raise ValueError("a page of a negative size")
    return found.end(), size, crc & 0xFFFFFFFF


def _zigzag(raw: bytes) -> int:
    number = shift = 0
    for byte in raw:
        number |= (byte & 127) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1)


def _of(kinds: tuple[int, ...], value: bytes) -> bytes:
    """A field of one of some types."""
    heads = bytes(step << 4 | kind for kind in kinds for step in range(1, 16))
    return b"[" + re.escape(heads) + b"]" + value


def _struct(*fields: bytes) -> bytes:
    """A struct of numbers, booleans and some other fields to its end, in any order."""
    kinds = (_of(_NUMBERS, _VARINT), _of(_BOOLS, b""), *fields)
    return b"(?:" + b"|".join(kinds) + b")*+\x00"


_TEXTS: Final = b"|".join(
    re.escape(bytes([length])) + b".{%d}" % length for length in range(_LONGEST)
)
_STATISTICS: Final = _struct(_of((_BINARY,), b"(?:" + _TEXTS + b")"))
_REST: Final = _struct(_of((_STRUCT,), _struct(_of((_STRUCT,), _STATISTICS))))
# Type, both sizes and checksum of a page, and whatever stands behind.
_NEXT: Final = rb"\x15(?:" + _VARINT + b")"
_NEXT_TOLD: Final = rb"\x15(" + _VARINT + b")"
_USUAL: Final = re.compile(_NEXT * 2 + _NEXT_TOLD * 2 + _REST, re.DOTALL)


def page_header_by_fields(body: Bytes, at: int) -> tuple[int, int, int]:
    """The same, field by field."""
    field, size, crc = 0, -1, -1
    while kind := body[at]:
        field, kind, at = _field(body, field, at)
        if kind in _NUMBERS:
            number, at = _number(body, at)
            if field == _SIZE_FIELD:
                size = number
            elif field == _CRC_FIELD:
                crc = number & 0xFFFFFFFF
        else:
            at = _passed(body, kind, at)
    if size < 0:
        raise ValueError("a page without a size, or of a negative one")
    return at + 1, size, crc


def _field(body: Bytes, last: int, at: int) -> tuple[int, int, int]:
    """Number and type of the field at `at`, and where its value is."""
    step, kind = body[at] >> 4, body[at] & 15
    if step:
        return last + step, kind, at + 1
    field, at = _number(body, at + 1)
    return field, kind, at


def _passed(body: Bytes, kind: int, at: int) -> int:
    """Where the value of a type that begins at `at` ends."""
    if kind in _BOOLS:
        return at
    if kind in _NUMBERS:
        return _number(body, at)[1]
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _varint(body, at)
        return at + length
    if kind != _STRUCT:
        raise ValueError(f"no header of a page has a field of type {kind}")
    field = 0
    while body[at]:
        field, kind, at = _field(body, field, at)
        at = _passed(body, kind, at)
    return at + 1


def _number(body: Bytes, at: int) -> tuple[int, int]:
    number, at = _varint(body, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(body: Bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    at += 1
    number, shift = byte & 127, 7
    while byte > 127:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    return number, at


# --- Checks ---------------------------------------------------------------------------------------

try:
    from isal.isal_zlib import crc32
except ImportError:  # it comes with the extra `duckdb`, and is three times as fast
    from zlib import crc32


_BLOCK_BYTES: Final = 512 << 10  # read at a time: smaller ones have threads wait for each other


def check_pages(store: Store, part: FilePart, columns: Collection[str]) -> Any:
    """Hold a file of flat columns against the log (size, footer, rows), and each page of some
    columns against its checksum.

    Returns:
        Its metadata.
    Raises:
        ObjectNotFound: It is gone.
        CorruptObject: It is another one, or damaged.
    Requests: 1 GET for the footer, 1 for each 512 KiB of a column of a row group.
    """
    with reading(part), store.open_input(part.key, size_bytes=part.size_bytes) as source:
        metadata = footer_of(source, part)
        found = damaged_column(source, metadata, columns)
        if found is not None:
            raise CorruptObject(
                f"{part.key} is damaged: a page of column {found[0]!r} in row group {found[1]} "
                "doesn't have its checksum",
                key=part.key,
                hint=hint_of(part.key),
            )
    return metadata


def damaged_column(
    source: Any, metadata: Any, columns: Collection[str] | None = None
) -> tuple[str, int] | None:
    """The first column chunk of which a page doesn't have its checksum.

    Args:
        source: The open file.
        metadata: Its own.
        columns: Only these leaves, by their paths; None: all.
    Returns:
        The leaf and the row group; None: there is none.
    """
    block = memoryview(bytearray(_BLOCK_BYTES))
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            if columns is not None and chunk.path_in_schema not in columns:
                continue
            if not chunk.num_values:  # some writers leave pages out then, and their places
                continue
            first = _first_byte(chunk)
            if not _Chunk(source, first + chunk.total_compressed_size, block).is_sound(first):
                return chunk.path_in_schema, group
    return None


def _first_byte(chunk: Any) -> int:
    first = int(chunk.data_page_offset)
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        first = min(first, int(chunk.dictionary_page_offset))
    return first


class _Chunk:
    """The bytes of a column chunk, read block by block as they are asked for.

    Args:
        end: The byte of the file behind it.
        block: Memory to read into.
    """

    def __init__(self, source: Any, end: int, block: memoryview) -> None:
        self._source = source
        self._end = end
        self._block = block
        self._held, self._held_at = block[:0], 0

    def is_sound(self, at: int) -> bool:
        """Whether these are pages from a byte of the file on, each with its checksum."""
        while at < self._end:
            try:
                page, size, crc = page_header(self._held, at - self._held_at)
            except (IndexError, ValueError):
                if at == self._held_at and self._held:
                    return False
                self._read(at)
                if not self._held:
                    return False
                continue
            page += self._held_at
            at = page + size
            if at > self._end or (self._crc(page, at) != crc >= 0):
                return False
        return True

    def _crc(self, at: int, end: int) -> int:
        """The checksum of some bytes; -1 if the file ends before them."""
        crc = 0
        while at < end:
            part = self._held[at - self._held_at : end - self._held_at]
            if not part:
                self._read(at)
                part = self._held[: end - at]
                if not part:
                    return -1
            crc = crc32(part, crc)
            at += len(part)
        return crc

    def _read(self, at: int) -> None:
        """Read a block from a byte on; nothing if the file ends there."""
        self._source.seek(at)
        size = self._source.readinto(self._block[: self._end - at])
        self._held, self._held_at = self._block[:size], at
