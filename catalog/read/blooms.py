"""Asking the bloom filters of files, while they are about to be read: a row group that can't hold
a value which is asked for is left out.

A filter that is damaged, or of a kind that isn't known, leaves nothing out.

Source: docs/reading.md, "Bloom filters".
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from ...errors import ObjectNotFound
from ..format.bloom import bloom_hashes, decode_bloom_filter, may_hold
from ..parallel import AT_ONCE, parallel
from ..where.hashed import equalities, plain_forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from ...store import Store
    from ..data.file_part import BloomPlace, FilePart
    from .row_filter import RowFilter

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
