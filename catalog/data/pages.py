"""A Parquet file held against the log and against its own checksums, without decoding it: for
engines that read files themselves and verify neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import CorruptObject
from .file_checks import footer_of, reading
from .page_headers import page_header

try:
    from isal.isal_zlib import crc32
except ImportError:  # it comes with the extra `duckdb`, and is three times as fast
    from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...store import Store
    from .file_part import FilePart

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
                hint="Restore the file from a copy, or read a point in time without it",
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
