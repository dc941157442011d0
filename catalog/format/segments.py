"""What stands in a segment of each kind: its columns, their types and their order. Pure.

Source: docs/format.md, section 6.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from . import compute as pc
from .columns import numbers
from .wire_kinds import (
    APPLICATIONS,
    DEFINITIONS,
    FILES,
    HISTORY,
    REFERENCES,
    ROW_DELETES,
    ROW_GROUP_STATISTICS,
    ROW_GROUPS,
    SCHEMAS,
    STATISTICS,
    TOMBSTONES,
)

MIN_EXACT, MAX_EXACT, NO_NAN = 1, 2, 4
ROWS_PER_SEGMENT: Final = 131_072
MAX_NUMBER: Final = 1 << 62  # counts and sizes are below this, so sums of a few fit 64 bits
MAX_TIME_US: Final = 1 << 55  # the year 3111: what datetime, and every engine, can hold


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Columns of these types, in order; those whose name ends in `_or_null` may hold nulls."""
    return pa.schema(
        [
            pa.field(name.removesuffix("_or_null"), kind, nullable=name.endswith("_or_null"))
            for name, kind in columns.items()
        ]
    )


FILES_COLUMNS: Final = _schema(
    table=pa.string(),
    path=pa.string(),
    partition=pa.string(),
    size_bytes=pa.int64(),
    row_count=pa.int64(),
    revision=pa.int64(),
    schema_fingerprint=pa.binary(16),
    first_clock=pa.int64(),
    last_clock=pa.int64(),
    footer_bytes=pa.int64(),
    footer_digest=pa.binary(8),
    row_groups=pa.int32(),
)
ROW_GROUPS_COLUMNS: Final = _schema(row=pa.int32(), row_group=pa.int32(), row_count=pa.int64())
_FACTS: Final = {
    "null_count_or_null": pa.int64(),
    "min_or_null": pa.int64(),
    "max_or_null": pa.int64(),
    "min_bytes_or_null": pa.binary(),
    "max_bytes_or_null": pa.binary(),
    "exact": pa.uint8(),
    "bloom_offset_or_null": pa.int64(),
    "bloom_bytes_or_null": pa.int64(),
}
_GROUP: Final = {"row_group": pa.int32()}
STATISTICS_COLUMNS: Final = _schema(column=pa.int32(), row_delta=pa.int32(), **_FACTS)
ROW_GROUP_STATISTICS_COLUMNS: Final = _schema(
    column=pa.int32(), row_delta=pa.int32(), **_GROUP, **_FACTS
)
# The same as they are worked with: by name and row (see `statistics_form`).
STATISTICS_ROWS: Final[dict[int, pa.Schema]] = {
    STATISTICS: _schema(column=pa.string(), row=pa.int32(), **_FACTS),
    ROW_GROUP_STATISTICS: _schema(column=pa.string(), row=pa.int32(), **_GROUP, **_FACTS),
}
SCHEMAS_COLUMNS: Final = _schema(
    table=pa.string(),
    fingerprint=pa.binary(16),
    arrow_schema=pa.binary(),
    key_or_null=pa.list_(pa.string()),
    sort_order_or_null=pa.list_(pa.string()),
    revision=pa.int64(),
)
APPLICATIONS_COLUMNS: Final = _schema(
    app_id=pa.string(), app_version=pa.int64(), committed_at_us=pa.int64()
)
DEFINITIONS_COLUMNS: Final = _schema(table=pa.string(), definition=pa.binary(), revision=pa.int64())
HISTORY_COLUMNS: Final = _schema(
    revision=pa.int64(),
    uuid=pa.binary(16),
    digest=pa.binary(32),
    committed_at=pa.timestamp("us", "UTC"),
    epoch=pa.int64(),
    guest=pa.bool_(),
    operation=pa.string(),
    transaction_ids=pa.list_(pa.binary(16)),
    files_added=pa.int64(),
    files_removed=pa.int64(),
    rows_added=pa.int64(),
    bytes_added=pa.int64(),
    summary_keys=pa.list_(pa.string()),
    summary_values=pa.list_(pa.string()),
)
REFERENCES_COLUMNS: Final = _schema(
    kind=pa.uint8(),
    part=pa.int32(),
    run=pa.int32(),
    digest_or_null=pa.binary(32),
    offset=pa.int64(),
    length=pa.int64(),
    row_count=pa.int64(),
    total_rows=pa.int64(),
    total_bytes=pa.int64(),
    first_table=pa.string(),
    first_path=pa.string(),
    last_table=pa.string(),
    last_path=pa.string(),
    min_partition=pa.string(),
    max_partition=pa.string(),
    columns=pa.list_(pa.string()),
    first_revision=pa.int64(),
    last_revision=pa.int64(),
    dead_or_null=pa.binary(),
)
ROW_DELETES_COLUMNS: Final = _schema(
    table=pa.string(),
    path=pa.string(),
    revision=pa.int64(),
    number=pa.int32(),
    object=pa.string(),
    offset=pa.int64(),
    length=pa.int64(),
    cardinality=pa.int64(),
    digest=pa.binary(32),
)
TOMBSTONES_COLUMNS: Final = _schema(
    table=pa.string(), revision=pa.int64(), number=pa.int32(), tombstone=pa.binary()
)

COLUMNS: Final[dict[int, pa.Schema]] = {
    FILES: FILES_COLUMNS,
    ROW_GROUPS: ROW_GROUPS_COLUMNS,
    STATISTICS: STATISTICS_COLUMNS,
    ROW_GROUP_STATISTICS: ROW_GROUP_STATISTICS_COLUMNS,
    SCHEMAS: SCHEMAS_COLUMNS,
    APPLICATIONS: APPLICATIONS_COLUMNS,
    HISTORY: HISTORY_COLUMNS,
    REFERENCES: REFERENCES_COLUMNS,
    DEFINITIONS: DEFINITIONS_COLUMNS,
    ROW_DELETES: ROW_DELETES_COLUMNS,
    TOMBSTONES: TOMBSTONES_COLUMNS,
}
# Columns of numbers that count something: never negative, always below 2^62.
COUNTS: Final[dict[int, frozenset[str]]] = {
    FILES: frozenset({"size_bytes", "row_count", "revision", "footer_bytes", "row_groups"}),
    ROW_GROUPS: frozenset({"row", "row_group", "row_count"}),
    STATISTICS: frozenset({"column", "row_delta"}),
    ROW_GROUP_STATISTICS: frozenset({"column", "row_delta", "row_group"}),
    SCHEMAS: frozenset({"revision"}),
    APPLICATIONS: frozenset({"app_version"}),
    DEFINITIONS: frozenset({"revision"}),
    HISTORY: frozenset(
        {"revision", "epoch", "files_added", "files_removed", "rows_added", "bytes_added"}
    ),
    REFERENCES: frozenset(
        {
            "offset",
            "length",
            "row_count",
            "total_rows",
            "total_bytes",
            "first_revision",
            "last_revision",
        }
    ),
    ROW_DELETES: frozenset({"revision", "number", "offset", "length", "cardinality"}),
    TOMBSTONES: frozenset({"revision", "number"}),
}
# What the rows of a kind ascend by, strictly, in the order of strings by their UTF-8 bytes.
ORDER: Final[dict[int, tuple[str, ...]]] = {
    FILES: ("table", "path"),
    ROW_GROUPS: ("row", "row_group"),
    STATISTICS: ("column", "row"),
    ROW_GROUP_STATISTICS: ("column", "row", "row_group"),
    SCHEMAS: ("table", "fingerprint"),
    APPLICATIONS: ("app_id",),
    HISTORY: ("revision",),
    DEFINITIONS: ("table",),
    ROW_DELETES: ("table", "path", "revision", "number"),
    TOMBSTONES: ("table", "revision", "number"),
}


def total(table: pa.Table, column: str) -> int:
    """The sum of a column of 64-bit numbers, exact where Arrow's would wrap around."""
    values = numbers(table.column(column))
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())


def sorted_rows(table: pa.Table, kind: int) -> pa.Table:
    """The rows of a segment in the order of its kind; the same table if they are so already."""
    if ascends(table, kind):
        return table
    keys = [(name, "ascending") for name in ORDER[kind]]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def ascends(table: pa.Table, kind: int) -> bool:
    """Whether the rows ascend strictly, as those of the kind must."""
    if table.num_rows < 2:
        return True
    greater = None  # per neighbouring pair: the later one is greater, by the last columns so far
    for name in reversed(ORDER[kind]):
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        low, high = column[:-1], column[1:]
        above = pc.less(low, high)
        greater = above if greater is None else pc.or_(above, pc.and_(pc.equal(low, high), greater))
    return greater is None or pc.all(greater).as_py() is not False
