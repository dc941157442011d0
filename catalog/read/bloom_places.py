"""Where the bloom filters lie that can say more of files than their bounds do: those of columns
that must equal some value.

Source: docs/format.md, sections 5.2 and 6.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..data.file_part import BloomPlace
from ..format import compute as pc
from ..format.columns import array, is_null, numbers
from ..format.segments import MAX_NUMBER
from ..where.hashed import equalities

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from .column_facts import Units
    from .row_filter import RowFilter
    from .table_facts import Source, TableFacts


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
