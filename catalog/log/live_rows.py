"""The live files of a state as rows with their tables, and which of them another state has too.
Pure.

Source: docs/format.md, section 6.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import array, column
from ..format.run import CORE_COLUMNS, files_rows, original_revisions
from ..format.segments import FILES_COLUMNS

if TYPE_CHECKING:
    from .files import Files
    from .part import Part
    from .state import State

_NUL = "\0"  # no path holds it, so that the first one parts path and table


def live_files(state: State, only: str | None = None) -> Files:
    """The live files of a state, of which every table that is asked for can be used.

    Args:
        only: A table; None: all.
    Raises:
        CorruptObject: The files of a table can't be told.
    """
    if only is not None:
        return state.table_of(only)[0]
    files = state.files
    for error in (*files.broken.values(), *(error for _, error in files.broken_ranges)):
        raise error
    for table in files.tables():
        files.check(table)
    return files


def read_whole(state: State) -> State:
    """Returns a state after every part of it was read: nothing can turn out to be damaged later.

    Raises:
        CorruptObject: Names the damaged object.
    """
    live_files(state)
    _ = state.schemas, state.definitions, state.deletes
    _ = state.applications, state.history.table()
    return state


def live_rows(files: Files, only: str | None = None) -> pa.Table:
    """Live files, with the columns of `CORE_COLUMNS`, by table and path.

    Args:
        only: A table; None: all.
    """
    found = [_rows_of(part, only) for part in files.parts]
    added = [
        pair
        for table, there in files.added.items()
        if only in (None, table)
        for pair in there.values()
    ]
    rows = files_rows([add for add, _ in added], [revision for _, revision in added])
    found.append(rows.select(CORE_COLUMNS))
    return by_name(pa.concat_tables(found))


def by_name(rows: pa.Table) -> pa.Table:
    """Rows in the order of table and path."""
    keys = [("table", "ascending"), ("path", "ascending")]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)).combine_chunks()


def _rows_of(part: Part, only: str | None) -> pa.Table:
    run = part.run
    ranges = run.ranges if only is None else {t: r for t, r in run.ranges.items() if t == only}
    lengths = [end - start for start, end in ranges.values()]
    codes = np.repeat(np.arange(len(ranges), dtype=np.int32), lengths)
    tables = pc.take(column(list(ranges), pa.string()), array(codes))
    rows = part.rows(None if only is None else only)
    live = part.live(only)
    names = tables if live is None else pc.filter(tables, live)
    return rows.add_column(0, FILES_COLUMNS.field("table"), names)


def names_of(rows: pa.Table) -> pa.ChunkedArray:
    """What tells a file from every other of its log: path and table, as one text."""
    between = column([_NUL], pa.string())[0]
    return pc.binary_join_element_wise(rows.column("path"), rows.column("table"), between)


def without(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The files that others don't have, or have in another partition, with another schema or as
    first added by another revision: their rows may read otherwise there."""
    at = pc.index_in(names_of(rows), value_set=names_of(others).combine_chunks())
    same = pc.is_valid(at)
    for name in ("partition", "schema_fingerprint"):
        there = pc.take(others.column(name), at)
        same = pc.and_(same, pc.fill_null(pc.equal(rows.column(name), there), False))
    there = pc.take(original_revisions(others), at)
    same = pc.and_(same, pc.fill_null(pc.equal(original_revisions(rows), there), False))
    return pc.filter(rows, pc.invert(same))
