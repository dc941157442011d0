"""Headers of the pages of a Parquet file, as far as checksums need them: how long a page is, and
which checksum it has. Pure.

They are structs in Thrift's compact protocol, with the pages between them, so that whoever wants
the next must have read the one before. A file has thousands: those that are spelled as writers
spell them are taken in one step, by a regular expression; all others field by field.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

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
