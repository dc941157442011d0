"""Segments: the columnar form of files, row groups, schemas and history, and their Arrow IPC bytes.
Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ..wire import lakelog_transaction_pb2 as wire
from .statistics import bound_type, decode_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("schema_fingerprint", pa.binary(16), nullable=False),
        pa.field("first_clock", pa.int64(), nullable=False),
        pa.field("last_clock", pa.int64(), nullable=False),
        pa.field("footer_bytes", pa.int64(), nullable=False),
        pa.field("row_groups", pa.int32(), nullable=False),
    ]
)
ROW_GROUPS: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
    ]
)
SCHEMAS: Final = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("fingerprint", pa.binary(16), nullable=False),
        pa.field("arrow_schema", pa.binary(), nullable=False),
        pa.field("key", pa.list_(pa.string())),
        pa.field("sort_order", pa.list_(pa.string())),
        pa.field("revision", pa.int64(), nullable=False),
    ]
)
HISTORY: Final = pa.schema(
    [
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("uuid", pa.binary(16), nullable=False),
        pa.field("digest", pa.binary(32), nullable=False),
        pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("guest", pa.bool_(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("transaction_ids", pa.list_(pa.binary(16))),
        pa.field("files_added", pa.int64(), nullable=False),
        pa.field("files_removed", pa.int64(), nullable=False),
        pa.field("rows_added", pa.int64(), nullable=False),
        pa.field("bytes_added", pa.int64(), nullable=False),
        pa.field("summary", pa.string()),
    ]
)
MIN_EXACT, MAX_EXACT = 1, 2
ROWS_PER_SEGMENT: Final = 131_072
CELLS_PER_SEGMENT: Final = 1 << 24
MAX_BOUND_BYTES: Final = 128  # lakelog writes 64 and a few; a longer one is unknown
MAX_NUMBER: Final = 1 << 62  # counts and sizes are below this, so sums of a few fit 64 bits
_COUNTS: Final = {
    "nulls": "null_count",
    "bloom_offset": "bloom_offset",
    "bloom_bytes": "bloom_bytes",
}


def rows_per_segment(columns: int) -> int:
    """How many rows of so many columns go into one segment: it must decode in bounded memory."""
    return min(ROWS_PER_SEGMENT, max(1024, CELLS_PER_SEGMENT // max(1, columns)))


def total(table: pa.Table, column: str) -> int:
    """The sum of a column of 64-bit numbers, exact where Arrow's would wrap around."""
    values = table.column(column).to_numpy()
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())


def statistic_name(what: str, column: str, kind: pa.DataType | None = None) -> str:
    """The name of a statistics column: `nulls::temp`, `bloom_offset::temp`, `bloom_bytes::temp`,
    `min:double:temp`, `max:double:temp`, `exact:double:temp`.

    The type is part of the name, so files that disagree on a column's type never share a bound.
    """
    return f"{what}:{'' if kind is None else kind}:{column}"


def _sane(item: wire.ColumnStatistics, which: Literal["min", "max"]) -> bool:
    """Whether there is such a bound, and it is no longer than a segment has room for."""
    return item.HasField(which) and len(getattr(item, which)) <= MAX_BOUND_BYTES


class _Statistics:
    """Gathers column statistics of many rows into columns, row by row."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.counts: dict[tuple[str, str], list[int | None]] = {}
        self.bounds: dict[
            tuple[str, str], tuple[pa.DataType, list[Any], list[Any], list[int | None]]
        ] = {}

    def add(self, row: int, columns: Sequence[wire.ColumnStatistics], schema: pa.Schema) -> None:
        for item in columns:
            if item.column >= len(schema):
                continue
            field = schema.field(item.column)
            for what, attribute in _COUNTS.items():
                if item.HasField(attribute):
                    self._count(row, what, field.name, getattr(item, attribute))
            kind = bound_type(field.type)
            if kind is None or not (_sane(item, "min") or _sane(item, "max")):
                continue
            key = (field.name, str(kind))
            if key not in self.bounds:
                empty: list[Any] = [None] * self.rows
                self.bounds[key] = (kind, empty, list(empty), list(empty))
            _, low, high, exact = self.bounds[key]
            low[row] = item.min if _sane(item, "min") else None
            high[row] = item.max if _sane(item, "max") else None
            exact[row] = (MIN_EXACT if item.min_exact else 0) | (MAX_EXACT if item.max_exact else 0)

    def _count(self, row: int, what: str, name: str, value: int) -> None:
        if value >= MAX_NUMBER:
            return  # absurd: unknown
        if (what, name) not in self.counts:
            self.counts[what, name] = [None] * self.rows
        self.counts[what, name][row] = value

    def append_to(self, table: pa.Table) -> pa.Table:
        for what, name in sorted(self.counts):
            values = pa.array(self.counts[what, name], pa.int64())
            table = table.append_column(statistic_name(what, name), values)
        for name, _ in sorted(self.bounds):
            kind, low, high, exact = self.bounds[name, _]
            for what, column in (
                ("min", decode_bounds(low, kind)),
                ("max", decode_bounds(high, kind)),
                ("exact", pa.array(exact, pa.uint8())),
            ):
                table = table.append_column(statistic_name(what, name, kind), column)
        return table


def files_table(adds: Sequence[wire.Add], revisions: Sequence[int]) -> pa.Table:
    """Added files as a table without statistics.

    Returns:
        Columns of `FILES`, a row an add, in the order given.
    """
    return pa.Table.from_arrays(
        [
            pa.array([add.path for add in adds], pa.string()),
            pa.array([add.partition for add in adds], pa.string()),
            pa.array([add.size_bytes for add in adds], pa.int64()),
            pa.array([add.row_count for add in adds], pa.int64()),
            pa.array(revisions, pa.int64()),
            pa.array([add.schema_fingerprint for add in adds], pa.binary(16)),
            pa.array([add.first_clock for add in adds], pa.int64()),
            pa.array([add.last_clock for add in adds], pa.int64()),
            pa.array([add.footer_bytes for add in adds], pa.int64()),
            pa.array([len(add.row_groups) for add in adds], pa.int32()),
        ],
        schema=FILES,
    )


def with_statistics(
    table: pa.Table, adds: Sequence[wire.Add], schemas: dict[bytes, pa.Schema]
) -> pa.Table:
    """`files_table` with the statistics of whole files: those of the row group where there is only
    one, else merged.

    Returns:
        The table, and for each column with statistics `nulls::c`, `min:T:c`, `max:T:c`,
        `exact:T:c`.
    """
    gathered = _Statistics(len(adds))
    for row, add in enumerate(adds):
        schema = schemas.get(add.schema_fingerprint)
        if schema is not None and add.row_groups:
            gathered.add(row, merge_row_groups(add.row_groups, schema), schema)
    return gathered.append_to(table)


def row_groups_table(adds: Sequence[wire.Add], schemas: dict[bytes, pa.Schema]) -> pa.Table:
    """Row groups of the files that have more than one (a single one has its statistics in the
    file's row)."""
    rows = [
        (add, number, group)
        for add in adds
        if len(add.row_groups) > 1
        for number, group in enumerate(add.row_groups)
    ]
    gathered = _Statistics(len(rows))
    for row, (add, _, group) in enumerate(rows):
        schema = schemas.get(add.schema_fingerprint)
        if schema is not None:
            gathered.add(row, group.columns, schema)
    table = pa.Table.from_arrays(
        [
            pa.array([add.path for add, _, _ in rows], pa.string()),
            pa.array([number for _, number, _ in rows], pa.int32()),
            pa.array([group.row_count for _, _, group in rows], pa.int64()),
        ],
        schema=ROW_GROUPS,
    )
    return gathered.append_to(table)


def merge_row_groups(
    groups: Sequence[wire.RowGroup], schema: pa.Schema
) -> list[wire.ColumnStatistics]:
    """Statistics of a whole file from those of its row groups. A bound that one group lacks is
    unknown for the file, unless that group holds nothing but nulls in the column."""
    if len(groups) == 1:
        return list(groups[0].columns)
    merged = []
    for position in range(len(schema)):
        found = [
            (next((c for c in group.columns if c.column == position), None), group.row_count)
            for group in groups
        ]
        if any(item is None for item, _ in found):
            continue
        merged.append(_merge_column(position, found, bound_type(schema.field(position).type)))  # type: ignore[arg-type]
    return merged


def _merge_column(
    position: int, found: list[tuple[wire.ColumnStatistics, int]], kind: pa.DataType | None
) -> wire.ColumnStatistics:
    result = wire.ColumnStatistics(column=position)
    if all(item.HasField("null_count") for item, _ in found):
        result.null_count = sum(item.null_count for item, _ in found)
    if kind is None:
        return result
    filled = [
        item
        for item, rows in found
        if not (item.HasField("null_count") and item.null_count == rows)
    ]
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
