"""Finding one path in a sorted column of paths, by its raw bytes: some ten microseconds in a
million rows, and no column is copied. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


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
