"""Statistics by column: a row for each file (or row group) and column of which something is known,
so that all tables share a segment and one column can be read alone. Pure.

Source: docs/format.md, sections 5.2 and 6.5.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..wire import lakelog_transaction_pb2 as wire
from . import compute as pc
from .bound_keys import MAX_KEPT_BYTES, key_function
from .columns import rows_to_table
from .segments import (
    MAX_EXACT,
    MAX_NUMBER,
    MIN_EXACT,
    NO_NAN,
    ROW_GROUPS_COLUMNS,
    STATISTICS_ROWS,
)
from .statistics import bound_type, decode_bounds, has_nan
from .wire_kinds import ROW_GROUP_STATISTICS, STATISTICS

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
