"""Runs of live files merged into one: rows sorted anew, dead ones left out, statistics carried
along. Also which runs are worth it. Pure.

Sizes of runs grow by a factor from the newest to the oldest, so that their number is logarithmic
and a file is rewritten a logarithmic number of times.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import array, column, empty_table, numbers
from ..format.run import at_revisions, original_revisions
from ..format.segments import (
    FILES,
    ORDER,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    ROW_GROUPS_COLUMNS,
    ROWS_PER_SEGMENT,
    STATISTICS,
    STATISTICS_ROWS,
    ascends,
    sorted_rows,
)
from ..format.statistics_rows import pack_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DESCRIBING: Final = (ROW_GROUPS, STATISTICS, ROW_GROUP_STATISTICS)
GROWTH: Final = 3
DEAD_PART: Final = 5  # a run of which more than one in so many is dead is rewritten


@dataclass(frozen=True, slots=True)
class Rows:
    """Files with what describes them.

    Attributes:
        files: Columns of FILES, any order.
        describing: Per kind of `DESCRIBING` a table whose `row` counts the rows of `files`.
        live: Mask over `files`; None: all are.
    """

    files: pa.Table
    describing: dict[int, pa.Table]
    live: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class RunSize:
    """How large a run is: all its rows, and how many of them are dead."""

    rows: int
    dead: int


def added_again(rows: Rows, revision: int) -> Rows:
    """The same files as added by a revision, with the one that first added them."""
    files = rows.files
    original = original_revisions(files)
    values = array(np.full(files.num_rows, revision, np.int64))
    null = column([None], pa.int64())[0]
    original = pc.if_else(pc.equal(original, values), null, original)
    return replace(rows, files=at_revisions(files, values, original))


def first_to_merge(runs: Sequence[RunSize], fresh: int) -> int:
    """The first run, of those from the oldest to the newest, that is merged with `fresh` new rows
    and all runs after it; the number of runs if none is."""
    start = len(runs)
    size = fresh
    while start > 0 and (size or runs[start - 1].rows == runs[start - 1].dead):
        live = runs[start - 1].rows - runs[start - 1].dead
        if live >= GROWTH * size and live:
            break
        size += live
        start -= 1
    for place, run in enumerate(runs[:start]):
        if run.dead * DEAD_PART > run.rows:
            return place
    return start


def merged(sources: Sequence[Rows]) -> Iterator[Rows]:
    """The live rows of all sources, sorted and cut into segments, each with what describes it."""
    if not sources:
        return
    files = pa.concat_tables([source.files for source in sources])
    live = np.concatenate(
        [np.ones(s.files.num_rows, np.bool_) if s.live is None else s.live for s in sources]
    )
    old = np.flatnonzero(live)
    numbered = files.append_column("at", array(np.arange(files.num_rows, dtype=np.int64)))
    kept = numbered if len(old) == len(live) else numbered.take(array(old))
    kept = sorted_rows(kept, FILES)
    place_of = np.full(len(live), -1, np.int64)
    place_of[numbers(kept.column("at"))] = np.arange(kept.num_rows)
    kept = kept.drop_columns(["at"])
    offsets = np.cumsum([0, *(source.files.num_rows for source in sources)])
    describing = {
        kind: _moved(kind, [s.describing.get(kind) for s in sources], offsets, place_of)
        for kind in DESCRIBING
    }
    for start in range(0, kept.num_rows, ROWS_PER_SEGMENT):
        piece = kept.slice(start, ROWS_PER_SEGMENT).combine_chunks()
        yield Rows(
            piece,
            {
                kind: _within(kind, table, start, start + piece.num_rows)
                for kind, table in describing.items()
            },
        )


def _moved(
    kind: int, tables: Sequence[pa.Table | None], offsets: np.ndarray, place_of: np.ndarray
) -> pa.Table:
    """Describing rows of all sources, with `row` as the place among the merged files (int64)."""
    parts = []
    for table, offset, end in zip(tables, offsets, offsets[1:], strict=False):
        if table is None or not table.num_rows:
            continue
        rows = numbers(table.column("row")).astype(np.int64)
        sane = rows < end - offset  # what describes no file of its own part describes none
        places = np.where(sane, place_of[np.minimum(rows + offset, len(place_of) - 1)], -1)
        index = table.schema.get_field_index("row")
        moved = table.set_column(index, pa.field("row", pa.int64(), False), array(places))
        if (places < 0).any():
            moved = moved.take(array(np.flatnonzero(places >= 0)))
        parts.append(moved)
    return pa.concat_tables(parts) if parts else empty_table(rows_schema(kind))


def _within(kind: int, table: pa.Table, start: int, end: int) -> pa.Table:
    """Those that describe some of the files, with `row` counted from the first of these."""
    rows = numbers(table.column("row")).astype(np.int64)
    here = (rows >= start) & (rows < end)
    if not here.all():
        table = table.take(array(np.flatnonzero(here)))
        rows = rows[here]
    index = table.schema.get_field_index("row")
    local = array((rows - start).astype(np.int32))
    table = table.set_column(index, rows_schema(kind).field("row"), local)
    return _without_twins(sorted_rows(table, kind), kind)


def _without_twins(table: pa.Table, kind: int) -> pa.Table:
    """What is said twice of one file, row group and column is unknown."""
    if ascends(table, kind):
        return table
    same = np.ones(table.num_rows - 1, np.bool_)
    for name in ORDER[kind]:
        values = table.column(name).combine_chunks()
        same &= pc.equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    twin = np.append(same, False) | np.concatenate([[False], same])
    return table.take(array(np.flatnonzero(~twin)))


def rows_schema(kind: int) -> pa.Schema:
    """The columns of describing rows, as they are worked with."""
    return ROW_GROUPS_COLUMNS if kind == ROW_GROUPS else STATISTICS_ROWS[kind]


def cut_by_column(table: pa.Table) -> Iterator[pa.Table]:
    """Statistics in pieces: one, or where they are many, pieces that end where a column ends, so
    that one column can be read alone."""
    if table.num_rows <= ROWS_PER_SEGMENT:
        if table.num_rows:
            yield table
        return
    from ..format.path_column import table_ranges

    first = last = 0
    for start, end in table_ranges(table.column("column")).values():
        if end - first > ROWS_PER_SEGMENT and start > first:
            yield table.slice(first, start - first)
            first = start
        last = end
    yield table.slice(first, last - first)


def pieces_of(kind: int, rows: pa.Table) -> Iterator[tuple[pa.Table, list[str]]]:
    """Describing rows cut into segments, each as it stands there, with the names of its columns."""
    if kind == ROW_GROUPS:
        for start in range(0, rows.num_rows, ROWS_PER_SEGMENT):
            yield rows.slice(start, ROWS_PER_SEGMENT), []
        return
    for part in cut_by_column(rows):
        names, packed = pack_statistics(kind, part)
        yield packed, names


def size_of_merge(sizes: Sequence[int], fresh: int) -> int:
    """As `first_to_merge`, for pieces without dead rows."""
    return first_to_merge([RunSize(size, 0) for size in sizes], fresh)
