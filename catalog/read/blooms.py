"""Asking the bloom filters of files, while they are about to be read: a row group that can't hold
a value which is asked for is left out.

A filter that is damaged, or of a kind that isn't known, leaves nothing out.

Source: docs/reading.md, "Bloom filters".
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from ...errors import ObjectNotFound
from ..data.file_part import BloomPlace
from ..format import compute as pc
from ..format.columns import array, is_null, numbers
from ..format.segments import MAX_NUMBER
from ..parallel import AT_ONCE, parallel
from ..where.outcomes import equalities, plain_forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from ...store import Store
    from ..data.file_part import FilePart
    from .row_filter import RowFilter
    from .table_facts import Source, TableFacts, Units


# --- The filters: blocks of 256 bits; a value's xxHash says which of them it has set --------------

_BLOCK_BYTES: Final = 32
_SALT: Final = np.array(
    [
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D,
        0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
    ],
    np.uint32,
)  # fmt: skip
# The header in Thrift's compact form: how many bytes (zigzag); split blocks, xxHash, uncompressed.
# These are all there are, and each has one form.
_HEADER: Final = re.compile(rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])(?:\x1c\x1c\x00\x00){3}\x00", re.S)


def decode_bloom_filter(data: bytes) -> np.ndarray | None:
    """The blocks of a filter.

    Args:
        data: Header and bits, nothing else.
    Returns:
        uint32, 8 a block; None: it isn't one that can be understood, or can't be whole. (Nothing in
        Parquet tells a bit that has flipped.)
    """
    found = _HEADER.match(data)
    if found is None:
        return None
    number = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(found[1]))
    bits = data[found.end() :]
    if number & 1 or len(bits) != number >> 1 or not bits or len(bits) % _BLOCK_BYTES:
        return None
    words = np.frombuffer(bits, "<u4").reshape(-1, len(_SALT))
    return words if words.any() else None  # of no value: nobody writes that


def bloom_hashes(values: Iterable[bytes]) -> np.ndarray:
    """The hashes of values in Parquet's plain encoding, without the length of texts."""
    import xxhash

    return np.array([xxhash.xxh64_intdigest(value) for value in values], np.uint64)


def may_hold(blocks: np.ndarray, hashes: np.ndarray) -> bool:
    """Whether one of some values may have been put into a filter; if not, none was.

    Args:
        blocks: Of `decode_bloom_filter`.
        hashes: Of `bloom_hashes`.
    """
    high, low = hashes >> np.uint64(32), hashes.astype(np.uint32)
    at = (high * np.uint64(len(blocks))) >> np.uint64(32)
    masks = np.uint32(1) << ((low[:, None] * _SALT) >> np.uint32(27))
    return bool(((blocks[at] & masks) == masks).all(axis=1).any())


# --- Asking them ----------------------------------------------------------------------------------

LEAST_BYTES: Final = 64 << 10  # of a row group: a smaller one is read as fast as a filter
MOST_BYTES: Final = 8 << 20  # of a filter; so many are held at a time as are asked at a time
_FILES: Final = 4 * AT_ONCE
_Wanted = dict[str, list["np.ndarray"]]  # by column of the file the hashes for each equality


def sifted(store: Store, parts: Iterable[FilePart], wanted: RowFilter) -> Iterator[FilePart]:
    """The files that are left, with the row groups that are left of them; asked as they are
    consumed, some files at a time.

    Requests: 1 GET for each filter that is worth it.
    """
    hashes = _Hashes(wanted)
    left = iter(parts)
    while some := list(islice(left, _FILES)):
        asked = [(part, place) for part in some for place in _worth_asking(part, hashes.of(part))]
        answers = parallel(lambda ask: _may_hold(store, ask, hashes.of(ask[0])), asked)
        ruled_out: dict[str, set[int]] = {}
        for (part, place), may in zip(asked, answers, strict=True):
            if not may:
                ruled_out.setdefault(part.key, set()).add(place.row_group)
        for part in some:
            groups = _groups(part)
            kept = tuple(n for n in groups if n not in ruled_out.get(part.key, ()))
            if len(kept) == len(groups):
                yield part
            elif kept:
                yield replace(part, row_groups=kept)


def to_be_asked(parts: Iterable[FilePart], wanted: RowFilter) -> dict[str, int]:
    """By key of how many row groups `sifted` would ask a filter."""
    hashes = _Hashes(wanted)
    groups = {
        part.key: {place.row_group for place in _worth_asking(part, hashes.of(part))}
        for part in parts
    }
    return {key: len(found) for key, found in groups.items() if found}


class _Hashes:
    """What filters are asked for, by the form of files."""

    def __init__(self, wanted: RowFilter) -> None:
        self._target = wanted.target
        self._equalities = list(equalities(wanted.predicate))
        self._known: dict[tuple[bytes, bytes], _Wanted] = {}

    def of(self, part: FilePart) -> _Wanted:
        if part.form not in self._known:
            self._known[part.form] = self._of_form(part)
        return self._known[part.form]

    def _of_form(self, part: FilePart) -> _Wanted:
        stored = part.found(self._target).stored
        found: _Wanted = {}
        for equality in self._equalities:
            name = stored.get(equality.column.name)
            forms = None
            if name is not None:
                forms = plain_forms(equality, part.schema.field(name).type)
            if name is not None and forms:
                found.setdefault(name, []).append(bloom_hashes(forms))
        return found


def _groups(part: FilePart) -> tuple[int, ...]:
    """The row groups that are to be read so far."""
    return tuple(range(part.row_group_count)) if part.row_groups is None else part.row_groups


def _worth_asking(part: FilePart, wanted: _Wanted) -> list[BloomPlace]:
    """The filters that cost less than to read what they may rule out."""
    if not part.blooms or not wanted:
        return []
    group_bytes = part.size_bytes // max(1, part.row_group_count)
    if group_bytes < LEAST_BYTES:
        return []
    groups = set(_groups(part))
    found = []
    for place in part.blooms:
        if place.row_group in groups and place.column in wanted and place.end <= part.size_bytes:
            size = place.end - place.start
            if size <= min(MOST_BYTES, group_bytes, _column_bytes(part, place.column)):
                found.append(place)
    return found


def _column_bytes(part: FilePart, name: str) -> int:
    """About what a column of a row group takes, which the log doesn't know."""
    rows = part.row_count // max(1, part.row_group_count)
    kind = part.schema.field(name).type
    try:
        return rows * max(1, int(kind.bit_width) // 8)
    except ValueError:  # texts: each has its length in 4 bytes
        share = part.size_bytes // max(1, part.row_group_count) // len(part.schema.names)
        return max(share, 4 * rows)


def _may_hold(store: Store, ask: tuple[FilePart, BloomPlace], wanted: _Wanted) -> bool:
    part, place = ask
    try:
        data = store.get(part.key, start=place.start, end=place.end)
    except ObjectNotFound:
        return True  # the scan says so
    blocks = decode_bloom_filter(data)
    if blocks is None:
        return True
    return all(may_hold(blocks, hashes) for hashes in wanted[place.column])


# --- Where the filters of the columns that must equal some value are stored -----------------------


def bloom_places(
    facts: TableFacts, wanted: RowFilter, rows: pa.Table
) -> dict[str, tuple[BloomPlace, ...]]:
    """The filters to be asked of some files.

    Args:
        rows: The files, with path and row_groups.
    Returns:
        By path.
    Requests: as `TableFacts.of_row_groups`.
    """
    columns = sorted({part.column.name for part in equalities(wanted.predicate)})
    stored = facts.stored(columns) if columns else []
    found: dict[str, list[BloomPlace]] = {}
    if columns and rows.num_rows:
        for source in facts.of_row_groups(wanted.target.names):
            for path, place in _of_source(source, stored, rows):
                found.setdefault(path, []).append(place)
    return {path: tuple(places) for path, places in found.items()}


def _of_source(
    source: Source, columns: list[str], rows: pa.Table
) -> Iterator[tuple[str, BloomPlace]]:
    paths = source.files.column("path")
    alone = rows.filter(array(numbers(rows.column("row_groups")) == 1)).column("path")
    in_one = source.live & numbers(pc.is_in(paths, alone))  # a file's filter is its row group's
    files = np.arange(len(in_one))
    yield from _known(source.units, columns, in_one, (paths, files, np.zeros_like(files)))
    groups = source.row_groups
    if groups is not None and len(groups.places):
        in_some = source.live & numbers(pc.is_in(paths, rows.column("path")))
        named = (paths, groups.places, groups.numbers)
        yield from _known(groups.units, columns, in_some[groups.places], named)


def _known(
    units: Units,
    columns: list[str],
    chosen: np.ndarray,
    named: tuple[pa.ChunkedArray, np.ndarray, np.ndarray],
) -> Iterator[tuple[str, BloomPlace]]:
    """The filters of some units, by path.

    Args:
        chosen: Per unit whether it is asked about.
        named: Paths; per unit which of them is its file's, and which row group it is.
    """
    paths, places, order = named
    for column in columns:
        found = units.row_of(column)
        if found is None:
            continue
        said, row_of = found
        at = np.flatnonzero(chosen & (row_of >= 0))
        told = said.select(["bloom_offset", "bloom_bytes"]).take(array(row_of[at]))
        known = np.ones(len(at), np.bool_)
        ends = []
        for values in (each.combine_chunks() for each in told.columns):
            counts = numbers(values).astype(np.int64)
            known &= ~is_null(values) & (counts >= 0) & (counts < MAX_NUMBER)
            ends.append(counts)
        at, start, size = at[known], ends[0][known], ends[1][known]
        files = paths.take(array(places[at])).to_pylist()
        spans = (order[at].tolist(), start.tolist(), (start + size).tolist())
        for path, number, first, last in zip(files, *spans, strict=True):
            yield path, BloomPlace(number, column, first, last)
