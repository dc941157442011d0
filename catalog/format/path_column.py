"""Columns of paths, by array operations and raw bytes: the path grammar over a whole column, and
finding one path among a million. Pure.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import CorruptObject, InvalidPath
from .names import MAX_PATH_BYTES, MAX_SEGMENT_BYTES, check_path

_AT_ONCE = 8_192  # rows: what is computed of them stays in the processor's cache
_SLASH, _DOT, _BACKSLASH, _DELETE = 0x2F, 0x2E, 0x5C, 0x7F


def check_paths(paths: pa.ChunkedArray, key: str) -> None:
    """Check every path of a column against the grammar, and that they ascend strictly.

    Args:
        paths: Strings without nulls.
        key: The object they stand in, named in errors.
    Raises:
        CorruptObject: A path breaks the grammar, or the order is wrong.
    """
    last: str | None = None
    pieces = (
        chunk.slice(start, _AT_ONCE)
        for chunk in paths.chunks
        for start in range(0, len(chunk), _AT_ONCE)
    )
    for chunk in pieces:
        if not _surely_good(chunk):
            _check_each(chunk, key)
        ascending = len(chunk) == 1 or pc.all(pc.less(chunk[:-1], chunk[1:])).as_py()
        first = chunk[0].as_py()
        if not ascending or (last is not None and not last.encode() < first.encode()):
            raise CorruptObject(f"{key} holds paths that do not ascend", key=key)
        last = chunk[-1].as_py()


def _surely_good(chunk: pa.StringArray) -> bool:
    """True only if no path of the chunk can break the grammar; False sends them to the exact check,
    one by one."""
    _, offsets_buffer, data = chunk.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(chunk) + 1, 4 * chunk.offset)
    lengths = np.diff(offsets)
    if lengths.min() < 6 or lengths.max() > MAX_SEGMENT_BYTES:
        return False
    raw = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    if raw.min() < 0x20 or (raw == _BACKSLASH).any() or (raw == _DELETE).any():
        return False
    ends = raw[offsets[1:] - offsets[0] - 1]
    if (ends == _SLASH).any() or (ends == _DOT).any():
        return False
    slash = raw == _SLASH
    after = raw[1:]
    if (slash[:-1] & ((after == _SLASH) | (after == _DOT))).any():
        return False
    return bool(pc.all(pc.starts_with(chunk, "data/")).as_py())


def _check_each(chunk: pa.StringArray, key: str) -> None:
    for path in chunk.to_pylist():
        try:
            check_path(path)
        except InvalidPath as error:
            raise CorruptObject(
                f"{key} names a path that no log may hold: {error.message}", key=key
            ) from error


assert (
    MAX_SEGMENT_BYTES < MAX_PATH_BYTES
)  # a path short enough for one segment is short enough as a whole


class PathIndex:
    """Binary search in a column of strings that ascends by UTF-8 bytes, without nulls.

    Args:
        column: `pa.string()`; it is looked at in place.
    """

    __slots__ = ("_chunks",)

    def __init__(self, column: pa.ChunkedArray) -> None:
        start = 0
        self._chunks: list[tuple[int, int, int, memoryview, memoryview, bytes]] = []
        for chunk in column.chunks:
            if len(chunk):
                _, offsets, data = chunk.buffers()
                ends = memoryview(offsets).cast("B").cast("i")
                text = memoryview(data if data is not None else b"").cast("B")
                last = chunk[-1].as_py().encode()
                self._chunks.append((start, chunk.offset, len(chunk), ends, text, last))
            start += len(chunk)

    def find(self, path: str) -> int:
        """The row of a path, or -1."""
        wanted = path.encode()
        for start, shift, count, ends, text, last in self._chunks:
            if wanted > last:
                continue
            low, high = shift, shift + count
            while low < high:
                middle = (low + high) // 2
                if text[ends[middle] : ends[middle + 1]].tobytes() < wanted:
                    low = middle + 1
                else:
                    high = middle
            same = text[ends[low] : ends[low + 1]] == wanted
            return start + low - shift if same else -1
        return -1
