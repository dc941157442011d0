"""Statistics by column: a row for each file (or row group) and column of which something is known,
so that all tables share a segment and one column can be read alone. Pure.

Source: docs/format.md, sections 5.2 and 6.5.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject
from ..wire import lakelog_transaction_pb2 as wire
from . import compute as pc
from .columns import array, column, is_null, numbers, rows_to_table
from .segments import (
    COLUMNS,
    MAX_EXACT,
    MAX_NUMBER,
    MIN_EXACT,
    NO_NAN,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS_COLUMNS,
    STATISTICS,
    STATISTICS_ROWS,
    decode_segment,
)
from .statistics import MAX_KEPT_BYTES, bound_type, byte_forms, decode_bounds, has_nan, key_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


# Name, how bounds become keys, whether NaN can be a value.
_Columns = list[tuple[str, "Callable[[bytes], Any] | None", bool]]
_COUNTS = ("null_count", "bloom_offset", "bloom_bytes")


@dataclass(frozen=True, slots=True)
class StatisticsRows:
    """What is known of the files of one FILES segment beside their own columns.

    Attributes:
        row_groups: Columns of `segments.ROW_GROUPS_COLUMNS`.
        files, groups: Columns of `segments.STATISTICS_ROWS`.
    """

    row_groups: pa.Table
    files: pa.Table
    groups: pa.Table


@dataclass(slots=True)
class _Gathered:
    """Rows by column name; within one name they come in the order they are added."""

    schema: pa.Schema
    by_column: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def add(
        self,
        place: tuple[int, ...],
        item: wire.ColumnStatistics,
        name: str,
        key: Any,
        may_be_nan: bool,
    ) -> None:
        counts = [
            getattr(item, what)
            if item.HasField(what) and getattr(item, what) < MAX_NUMBER
            else None
            for what in _COUNTS
        ]
        low = key(item.min) if key is not None and item.HasField("min") else None
        high = key(item.max) if key is not None and item.HasField("max") else None
        exact = (
            (MIN_EXACT if low and item.min_exact else 0)
            | (MAX_EXACT if high and item.max_exact else 0)
            | (NO_NAN if may_be_nan and item.no_nan else 0)
        )
        if low is None and high is None and counts == [None, None, None] and not exact:
            return
        bounds = (
            low and low[0], high and high[0], low and low[1], high and high[1],
        )  # fmt: skip
        self.by_column.setdefault(name, []).append(
            (*place, counts[0], *bounds, exact, counts[1], counts[2])
        )

    def table(self) -> pa.Table:
        names = sorted(self.by_column, key=str.encode)
        rows = [(name, *row) for name in names for row in self.by_column[name]]
        return rows_to_table(rows, self.schema)


def statistics_rows(
    adds: Sequence[wire.Add], schemas: Mapping[tuple[str, bytes], pa.Schema]
) -> StatisticsRows:
    """The statistics of files, in the order of the rows that they have in a FILES segment.

    Args:
        schemas: By table and fingerprint; of a file whose schema is missing nothing is known.
    """
    files, groups = (
        _Gathered(STATISTICS_ROWS[kind]) for kind in (STATISTICS, ROW_GROUP_STATISTICS)
    )
    numbers: list[tuple[int, int, int]] = []
    known: dict[tuple[str, bytes], _Columns] = {}
    for row, add in enumerate(adds):
        several = len(add.row_groups) > 1
        if several:
            counts = [min(group.row_count, MAX_NUMBER - 1) for group in add.row_groups]
            numbers += [(row, number, count) for number, count in enumerate(counts)]
        identity = (add.table, add.schema_fingerprint)
        schema = schemas.get(identity)
        if schema is None or not add.row_groups:
            continue
        columns = known.get(identity) or known.setdefault(
            identity, [(f.name, _key(f.type), has_nan(f.type)) for f in schema]
        )
        _gather(files, (row,), merge_row_groups(add.row_groups, schema), columns)
        for number, group in enumerate(add.row_groups if several else ()):
            _gather(groups, (row, number), _by_position(group).values(), columns)
    row_groups = rows_to_table(numbers, ROW_GROUPS_COLUMNS)
    return StatisticsRows(row_groups, files.table(), groups.table())


def _gather(
    rows: _Gathered,
    place: tuple[int, ...],
    items: Iterable[wire.ColumnStatistics],
    columns: _Columns,
) -> None:
    for item in items:
        if item.column < len(columns):
            rows.add(place, item, *columns[item.column])


def _key(kind: pa.DataType) -> Callable[[bytes], Any] | None:
    bounds = bound_type(kind)
    if bounds is None:
        return None
    key = key_function(bounds)
    return lambda value: key(value) if len(value) <= MAX_KEPT_BYTES else None


def merge_row_groups(
    groups: Sequence[wire.RowGroup], schema: pa.Schema
) -> list[wire.ColumnStatistics]:
    """Statistics of a whole file from those of its row groups. A bound that one group lacks is
    unknown for the file, and so is whether there is NaN, unless that group holds nothing but nulls
    in the column."""
    by_position = [_by_position(group) for group in groups]
    if len(groups) == 1:
        return list(by_position[0].values())
    merged = []
    for position in range(len(schema)):
        if not all(position in items for items in by_position):
            continue
        found = [
            (items[position], group.row_count)
            for items, group in zip(by_position, groups, strict=True)
        ]
        merged.append(_merge_column(position, found, bound_type(schema.field(position).type)))
    return merged


def _by_position(group: wire.RowGroup) -> dict[int, wire.ColumnStatistics]:
    """What is said of the columns of a row group; nothing of one that is named twice."""
    found = {item.column: item for item in group.columns}
    if len(found) < len(group.columns):
        often = Counter(item.column for item in group.columns)
        found = {column: item for column, item in found.items() if often[column] == 1}
    return found


def _merge_column(
    position: int, found: list[tuple[wire.ColumnStatistics, int]], kind: pa.DataType | None
) -> wire.ColumnStatistics:
    result = wire.ColumnStatistics(column=position)
    if all(item.HasField("null_count") for item, _ in found):
        result.null_count = min(sum(item.null_count for item, _ in found), MAX_NUMBER)
    if kind is None:
        return result
    filled = [
        item
        for item, rows in found
        if not (item.HasField("null_count") and item.null_count == rows)
    ]
    result.no_nan = pa.types.is_float64(kind) and all(item.no_nan for item in filled)
    for which, place in (("min", 0), ("max", -1)):
        if not filled or not all(item.HasField(which) for item in filled):
            continue
        raw = [getattr(item, which) for item in filled]
        values = decode_bounds(raw, kind)
        if values.null_count:
            continue
        # By Arrow: Python has no nanoseconds and no years after 9999.
        best = pc.array_sort_indices(values)[place].as_py()
        setattr(result, which, raw[best])
        setattr(result, f"{which}_exact", getattr(filled[best], f"{which}_exact"))
    return result


# --- Their form in a segment: columns by number, rows by their distance ---------------------------

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
    """Returns the same without copies, by the name of a column: which rows of FILES have
    statistics, and the columns of `segments.STATISTICS_ROWS` behind `row`. Raises
    `CorruptObject`."""
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


# --- Keys of bounds, back to values: by array operations ------------------------------------------

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INFINITY: Final[int] = struct.unpack("<q", struct.pack("<d", float("inf")))[0]
_KEY_BYTES: Final = 8


def is_text_kind(kind: pa.DataType) -> bool:
    """Whether bounds of a bound type are compared as bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def known_keys(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Which keys of a bound type that is no text are known bounds, and give them back. (Bounds that
    stand beside their keys, decimals beyond 64 bits, are none of these.)"""
    found = ~is_null(keys) & is_null(whole)
    least, greatest = _range(kind)
    values = numbers(keys)
    if least is not None:
        found &= (values >= least) & (values <= greatest)
    return found  # type: ignore[no-any-return]


def _range(kind: pa.DataType) -> tuple[int | None, int]:
    types = pa.types
    if types.is_boolean(kind):
        return 0, 1
    if types.is_float64(kind):
        return -_INFINITY - 1, _INFINITY
    if types.is_date32(kind):
        return -(1 << 31), (1 << 31) - 1
    if types.is_time(kind):
        return 0, 86_400 * _PER_SECOND[kind.unit] - 1
    return None, 0


def text_bounds(keys: pa.Array, whole: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bounds of text or binary columns in full, as binary; null where unknown."""
    known, beside = ~is_null(keys), ~is_null(whole)
    short = known & ~beside
    bounds = _of_keys(numbers(keys), short) if short.any() or not known.any() else whole
    if beside.any():
        taken = bounds if bounds is whole else pc.coalesce(whole, bounds)
        sound = known & (short | _begin_with(whole, numbers(keys)))
        bounds = taken if sound.all() else pc.if_else(array(sound), taken, _NULL)
    if pa.types.is_string(kind) and not _is_utf8(bounds):
        return column(byte_forms(keys, whole, kind), pa.binary())
    return bounds


_NULL: Final = column([None], pa.binary())[0]


def _of_keys(keys: np.ndarray, wanted: np.ndarray) -> pa.Array:
    """The texts that keys give back, null where none is wanted: their 8 bytes without zeros at the
    end."""
    raw = _big_endian(keys)
    filled = raw != 0
    lengths = _KEY_BYTES - np.argmax(filled[:, ::-1], axis=1)
    lengths[~filled.any(axis=1) | ~wanted] = 0
    data = raw[np.arange(_KEY_BYTES) < lengths[:, None]]
    offsets = np.zeros(len(keys) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    there = pa.py_buffer(np.packbits(wanted, bitorder="little"))
    buffers = [there, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(keys), buffers)


def _big_endian(keys: np.ndarray) -> np.ndarray:
    """The 8 bytes that each key stands for."""
    return _unsigned(keys).astype(">u8").view(np.uint8).reshape(-1, _KEY_BYTES)


def _unsigned(keys: np.ndarray) -> np.ndarray:
    """The same as numbers."""
    return keys.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)


def _begin_with(whole: pa.Array, keys: np.ndarray) -> np.ndarray:
    """Whether each whole bound has the key that stands beside it."""
    _, offsets, data = whole.buffers()
    starts = np.frombuffer(offsets, np.int32, len(whole) + 1, whole.offset * 4)
    starts, lengths = starts[:-1], np.diff(starts)
    body = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    is_long = lengths >= _KEY_BYTES
    words = np.ndarray(max(0, len(body) - _KEY_BYTES + 1), ">u8", body, strides=(1,))
    if is_long.all():
        return words[starts] == _unsigned(keys)  # type: ignore[no-any-return]
    found = np.zeros(len(whole), np.bool_)
    found[is_long] = words[starts[is_long]] == _unsigned(keys[is_long])
    rest = np.flatnonzero(~is_long)
    places = starts[rest, None] + np.arange(_KEY_BYTES)
    inside = np.arange(_KEY_BYTES) < lengths[rest, None]
    padded = np.append(body, np.uint8(0))
    first = np.where(inside, padded[np.where(inside, places, -1)], 0)
    found[rest] = (first == _big_endian(keys[rest])).all(axis=1)
    return found


def _is_utf8(bounds: pa.Array) -> bool:
    try:
        bounds.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
