"""Statistics as they stand in a segment and as they are worked with: there columns by number and
rows by their distance, so that what is regular takes no room; here names and row numbers. Pure.

Source: docs/format.md, section 6.5.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject
from . import compute as pc
from .columns import array, column, numbers
from .segment_bytes import decode_segment
from .segments import COLUMNS, STATISTICS_ROWS
from .wire_kinds import ROW_GROUP_STATISTICS

_MAX_ROW = 1 << 31


def pack_statistics(kind: int, rows: pa.Table) -> tuple[list[str], pa.Table]:
    """The names of columns, and the rows as they stand in a segment.

    Args:
        rows: Columns of `segments.STATISTICS_ROWS`, in their order.
    """
    names = rows.column("column").combine_chunks()
    starts = _starts(names)
    found = [names[int(start)].as_py() for start in starts]
    lengths = np.diff(np.append(starts, rows.num_rows))
    places = numbers(rows.column("row")).astype(np.int32)
    deltas = np.diff(places, prepend=np.int32(0)).astype(np.int32)
    deltas[starts] = places[starts]
    codes = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)
    packed = {"column": array(codes), "row_delta": array(deltas)}
    schema = COLUMNS[kind]
    arrays = [
        packed.get(name, rows.column(name) if name not in packed else None) for name in schema.names
    ]
    return found, pa.Table.from_arrays(arrays, schema=schema)


def unpack_statistics(
    data: memoryview | bytes,
    kind: int,
    rows: int,
    names: list[str],
    key: str,
    *,
    exact: bool = False,
) -> pa.Table:
    """A segment of statistics, decoded and checked.

    Args:
        names: The names of columns that its reference says.
        exact: Refuse columns of a later version.
    Returns:
        Columns of `segments.STATISTICS_ROWS`, in their order.
    Raises:
        CorruptObject: Not sound.
    """
    packed, starts, places = _decoded(data, kind, rows, names, key, exact=exact)
    lengths = np.diff(np.append(starts, rows))
    codes = np.repeat(np.arange(len(names), dtype=np.int32), lengths)
    values = {
        "column": column(names, pa.string()).take(array(codes)),
        "row": array(places.astype(np.int32)),
    }
    schema = STATISTICS_ROWS[kind]
    arrays = [values[name] if name in values else packed.column(name) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)


def statistics_by_column(
    data: memoryview | bytes, kind: int, rows: int, names: list[str], key: str
) -> dict[str, tuple[np.ndarray, pa.Table]]:
    """The same, column by column, without copies.

    Returns:
        By the name of a column which rows of FILES are spoken of, and what is said of each: the
        columns of `segments.STATISTICS_ROWS` behind `row`.
    Raises:
        CorruptObject: Not sound.
    """
    packed, starts, places = _decoded(data, kind, rows, names, key)
    facts = packed.drop_columns(["column", "row_delta"])
    ends = [*starts[1:].tolist(), rows]
    return {
        name: (places[start:end], facts.slice(start, end - start))
        for name, start, end in zip(names, starts.tolist(), ends, strict=True)
    }


def _decoded(
    data: memoryview | bytes,
    kind: int,
    rows: int,
    names: list[str],
    key: str,
    *,
    exact: bool = False,
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """A segment as it stands, where each column begins in it, and which row of FILES each of its
    rows is of."""
    packed = decode_segment(data, kind, rows, key, exact=exact)
    codes = numbers(packed.column("column"))
    deltas = numbers(packed.column("row_delta")).astype(np.int64)
    steps = np.diff(codes)
    fits = codes[0] == 0 and codes[-1] == len(names) - 1 and ((steps == 0) | (steps == 1)).all()
    if not fits:
        raise CorruptObject(f"{key} holds statistics of other columns than it says", key=key)
    starts = np.flatnonzero(np.concatenate([[True], steps != 0]))
    places = np.cumsum(deltas)
    if len(starts) > 1:
        lengths = np.diff(np.append(starts, rows))
        places -= np.repeat(places[starts] - deltas[starts], lengths)
    inner = np.ones(rows, np.bool_)
    inner[starts] = False
    ascending = deltas.min() >= 0 and _ascends(kind, packed, deltas, inner)
    if not ascending or places.max() >= _MAX_ROW:
        raise CorruptObject(f"{key} holds statistics that do not ascend", key=key)
    return packed, starts, places


def _ascends(kind: int, packed: pa.Table, deltas: np.ndarray, inner: np.ndarray) -> bool:
    """Whether rows of one column ascend strictly, for row groups by row and row group."""
    if kind != ROW_GROUP_STATISTICS:
        return bool((deltas[inner] > 0).all())
    groups = numbers(packed.column("row_group"))
    higher = np.concatenate([[True], groups[1:] > groups[:-1]])
    return bool(((deltas > 0) | higher)[inner].all())


def _starts(names: pa.Array) -> np.ndarray:
    """Where each name begins in a column of names that ascends."""
    if not len(names):
        return np.zeros(0, np.int64)
    other = numbers(pc.not_equal(names[1:], names[:-1]))
    return np.flatnonzero(np.concatenate([[True], other]))
