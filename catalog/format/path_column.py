"""Columns of tables and paths, by array operations and raw bytes: the grammar over a whole column,
where each table's rows are, and finding one path among a million. Pure.

Source: docs/format.md, sections 2 and 6.1.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, InvalidPath
from . import compute as pc
from .columns import column, distinct
from .names import MAX_PATH_BYTES, MAX_SEGMENT_BYTES, check_path, fits_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_AT_ONCE = 8_192  # rows: what is computed of them stays in the processor's cache
_AT_A_PLACE = "^at/[0-9a-f]{16}/"  # what follows is not empty: no path ends in a slash
_SLASH, _DOT, _BACKSLASH, _DELETE = 0x2F, 0x2E, 0x5C, 0x7F


def check_paths(paths: pa.ChunkedArray, key: str) -> None:
    """Raises `CorruptObject` if a path of a column breaks the grammar.

    Args:
        paths: Strings without nulls.
        key: The object that holds them, named in errors.
    """
    for chunk in _pieces(paths):
        if not _surely_good(chunk):
            _check_each(chunk, key)


def check_tables(tables: pa.ChunkedArray, key: str) -> None:
    """Check the names of a column of tables.

    Raises:
        CorruptObject: One of them is empty, or too long once it is encoded.
    """
    for name in distinct(tables):
        if not name or not fits_name(name):
            raise CorruptObject(f"{key} names a table {name[:60]!r} that can't be", key=key)


def check_partitions(partitions: pa.ChunkedArray, key: str) -> None:
    """Check the names of a column of partitions.

    Raises:
        CorruptObject: One of them is too long once it is encoded.
    """
    for name in distinct(partitions):
        if not fits_name(name):
            raise CorruptObject(f"{key} names a partition {name[:60]!r} that can't be", key=key)


def table_ranges(tables: pa.ChunkedArray) -> dict[str, tuple[int, int]]:
    """Where the rows of each table are in a column that ascends: first row, and the one after the
    last."""
    column = tables.combine_chunks() if tables.num_chunks != 1 else tables.chunk(0)
    count = len(column)
    if not count:
        return {}
    if column[0].equals(column[count - 1]):
        return {column[0].as_py(): (0, count)}
    encoded = pc.run_end_encode(column)
    ends = encoded.run_ends.to_pylist()
    return {
        name: (start, end)
        for name, start, end in zip(encoded.values.to_pylist(), [0, *ends], ends, strict=False)
    }


def ascending_files(tables: pa.ChunkedArray, paths: pa.ChunkedArray) -> bool:
    """Whether rows ascend strictly by table, then path, in the order of UTF-8 bytes."""
    column = tables.combine_chunks() if tables.num_chunks != 1 else tables.chunk(0)
    if pc.all(pc.equal(column, column[0])).as_py():
        return _ascends(paths)
    if len(column) < 2:
        return True
    path = paths.combine_chunks() if paths.num_chunks != 1 else paths.chunk(0)
    same, later = pc.equal(column[:-1], column[1:]), pc.less(column[:-1], column[1:])
    ascends = pc.or_(later, pc.and_(same, pc.less(path[:-1], path[1:])))
    return bool(pc.all(ascends).as_py())


def _ascends(paths: pa.ChunkedArray) -> bool:
    last: str | None = None
    for chunk in _pieces(paths):
        if len(chunk) > 1 and not pc.all(pc.less(chunk[:-1], chunk[1:])).as_py():
            return False
        if last is not None and not last.encode() < chunk[0].as_py().encode():
            return False
        last = chunk[-1].as_py()
    return True


def _pieces(paths: pa.ChunkedArray) -> Iterator[pa.StringArray]:
    for chunk in paths.chunks:
        for start in range(0, len(chunk), _AT_ONCE):
            yield chunk.slice(start, _AT_ONCE)


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
    if pc.all(pc.starts_with(chunk, "data/")).as_py():
        return True
    placed = pc.or_(pc.starts_with(chunk, "data/"), pc.match_substring_regex(chunk, _AT_A_PLACE))
    return bool(pc.all(placed).as_py())


def _check_each(chunk: pa.StringArray, key: str) -> None:
    for path in chunk.to_pylist():
        try:
            check_path(path)
        except InvalidPath as error:
            raise CorruptObject(
                f"{key} names a path that no log may hold: {error.message}", key=key
            ) from error


class PathIndex:
    """Binary search in a column of strings of one chunk, without nulls; no column is copied.

    Args:
        column: `pa.string()`; it is looked at in place. What is searched ascends by UTF-8 bytes.
    """

    __slots__ = ("_ends", "_shift", "_text")

    def __init__(self, column: pa.StringArray) -> None:
        _, offsets, data = column.buffers()
        # A buffer may be longer than its offsets are.
        self._ends = (
            memoryview(offsets).cast("B")[: 4 * (column.offset + len(column) + 1)].cast("i")
        )
        self._text = memoryview(data if data is not None else b"").cast("B")
        self._shift = column.offset

    def find(self, path: str, start: int, end: int) -> int:
        """The row of a path between two rows, or -1."""
        wanted, ends, text = path.encode(), self._ends, self._text
        low, high = self._shift + start, self._shift + end
        stop = high
        while low < high:
            middle = (low + high) // 2
            if text[ends[middle] : ends[middle + 1]].tobytes() < wanted:
                low = middle + 1
            else:
                high = middle
        same = low < stop and text[ends[low] : ends[low + 1]] == wanted
        return low - self._shift if same else -1


assert (
    MAX_SEGMENT_BYTES < MAX_PATH_BYTES
)  # a path short enough for one segment is short enough as a whole


# --- Paths that a store may take for one: by case, normal form, dots at the end -------------------

FOLDED_AWAY: Final = ". "  # at the end of a segment
_ENDS: Final = r"[. ]+(/|$)"


def fold(path: str) -> str:
    """What is equal for all paths that some store may take for this one."""
    return "/".join(map(_segment, path.split("/")))


def _segment(text: str) -> str:
    if not text.isascii():  # folding case can undo a normal form
        text = unicodedata.normalize("NFD", text)
        text = unicodedata.normalize("NFD", text.casefold())
    return text.lower().rstrip(FOLDED_AWAY)


def last_segment(path: str) -> str:
    """The name of a file without its folders."""
    return path.rpartition("/")[2]


def folded_among(
    chunks: Iterable[pa.Array], wanted: Iterable[str], *, last_segments: bool = False
) -> set[str]:
    """Which folded texts some of these paths fold to.

    Args:
        chunks: Paths.
        wanted: Folded already.
        last_segments: Compare only the last segment of each path.
    """
    sought = set(wanted)
    if not sought:
        return set()
    values, found = column(sorted(sought), pa.string()), set()
    for chunk in chunks:
        paths = pc.replace_substring_regex(chunk, r"^.*/", "") if last_segments else chunk
        plain = pc.string_is_ascii(paths)
        simple = pc.replace_substring_regex(pc.ascii_lower(paths.filter(plain)), _ENDS, r"\1")
        found.update(_texts(simple.filter(pc.is_in(simple, values))))
        found.update(sought.intersection(map(fold, _texts(paths.filter(pc.invert(plain))))))
    return found


def _texts(paths: Any) -> list[str]:
    texts: list[str] = paths.to_pylist()
    return texts
