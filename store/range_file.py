"""A file made of ranged reads: what a Parquet reader needs of an object."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Store

_BLOCK_SIZE_BYTES = 1 << 18


class RangeFile(io.RawIOBase):
    """Seekable reading of one object, through `Store.get`.

    Parquet readers seek to the footer and then to column chunks, so nothing is read ahead beyond
    one block: a small read fetches the block around it, a large one exactly itself. An object no
    larger than a block comes whole. Like any file, one object is for one thread at a time.

    Args:
        store: Where the object is.
        key: Its name.
        size_bytes: Its exact size.
    Requests: 1 GET per read that the last block doesn't answer.
    """

    def __init__(self, store: Store, key: str, size_bytes: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size_bytes = size_bytes
        self._position = 0
        self._block = b""
        self._block_start = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def size(self) -> int:
        """The size of the object in bytes."""
        return self._size_bytes

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position; no request."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}
        position = bases[whence] + offset
        if position < 0:
            raise ValueError(f"seek before the start of the object: {position}")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """The next `size` bytes, or all that is left; less only at the end."""
        if self.closed:
            raise ValueError("read of a closed file")
        end = self._size_bytes
        if size is not None and size >= 0:
            end = min(end, self._position + size)
        start = self._position
        if start >= end:
            return b""
        body = self._fetch(start, end)
        self._position = start + len(body)
        return body

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; returns how many bytes."""
        body = self.read(len(buffer))
        buffer[: len(body)] = body
        return len(body)

    def _fetch(self, start: int, end: int) -> bytes:
        held_end = self._block_start + len(self._block)
        if self._block_start <= start and end <= held_end:
            return self._block[start - self._block_start : end - self._block_start]
        if end - start >= _BLOCK_SIZE_BYTES:
            return self._store.get(self._key, start=start, end=end)
        first = 0 if self._size_bytes <= _BLOCK_SIZE_BYTES else start
        if start >= self._size_bytes - _BLOCK_SIZE_BYTES:
            # A read near the end is a footer: readers come back for the part before it.
            first = max(0, self._size_bytes - _BLOCK_SIZE_BYTES)
        last = min(first + _BLOCK_SIZE_BYTES, self._size_bytes)
        self._block = self._store.get(self._key, start=first, end=last)
        self._block_start = first
        return self._block[start - first : end - first]
