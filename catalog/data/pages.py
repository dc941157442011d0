"""A Parquet file held against the log and against its own checksums, without decoding it: for
engines that read files themselves and verify neither.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject
from .scan import footer_of, reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...store import Store
    from .scan import FilePart

# Types of fields in Thrift's compact protocol.
_BOOLS, _BYTE, _NUMBERS, _DOUBLE, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, 12
_SIZE_FIELD: Final = 3  # compressed_page_size of a PageHeader
_CRC_FIELD: Final = 4


def check_pages(store: Store, part: FilePart, columns: Collection[str]) -> Any:
    """Hold a file of flat columns against the log (size, footer, rows), and each page of some
    columns against its checksum.

    Returns:
        Its metadata.
    Raises:
        ObjectNotFound: It is gone.
        CorruptObject: It is another one, or damaged.
    Requests: 1 GET for the footer, 1 for each column of a row group.
    """
    with reading(part), store.open_input(part.key, size_bytes=part.size_bytes) as source:
        metadata = footer_of(source, part)
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(column)
                if chunk.path_in_schema not in columns:
                    continue
                source.seek(_first_byte(chunk))
                body = source.read(chunk.total_compressed_size)
                if not _sound(body, chunk.total_compressed_size):
                    raise CorruptObject(
                        f"{part.key} is damaged: a page of column {chunk.path_in_schema!r} in row "
                        f"group {group} doesn't have its checksum",
                        key=part.key,
                        hint="Restore the file from a copy, or read a point in time without it",
                    )
    return metadata


def _first_byte(chunk: Any) -> int:
    first = int(chunk.data_page_offset)
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        first = min(first, int(chunk.dictionary_page_offset))
    return first


def _sound(body: bytes, size_bytes: int) -> bool:
    """Whether a column chunk is pages from its start to its end, each with its checksum."""
    if len(body) != size_bytes:
        return False
    try:
        return all(zlib.crc32(page) == crc for page, crc in _pages(memoryview(body)) if crc >= 0)
    except (IndexError, ValueError):  # no such header
        return False


def _pages(body: memoryview) -> Iterator[tuple[memoryview, int]]:
    """The pages of a column chunk with their checksums; -1 where there is none."""
    at = 0
    while at < len(body):
        at, size, crc = _header(body, at)
        if size < 0 or at + size > len(body):
            raise ValueError("a page beyond the end of its column")
        yield body[at : at + size], crc
        at += size


def _header(body: memoryview, at: int) -> tuple[int, int, int]:
    """Where a page begins, its size, and its checksum or -1, by the header that begins at `at`."""
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
    return at + 1, size, crc


def _field(body: memoryview, last: int, at: int) -> tuple[int, int, int]:
    """Number and type of the field at `at`, and where its value is."""
    step, kind = body[at] >> 4, body[at] & 15
    if step:
        return last + step, kind, at + 1
    field, at = _number(body, at + 1)
    return field, kind, at


def _passed(body: memoryview, kind: int, at: int) -> int:
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


def _number(body: memoryview, at: int) -> tuple[int, int]:
    number, at = _varint(body, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(body: memoryview, at: int) -> tuple[int, int]:
    byte = body[at]
    at += 1
    number, shift = byte & 127, 7
    while byte > 127:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    return number, at
