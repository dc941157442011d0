"""Statistics of files as JSON-ready records, a record a column, for `lakelog show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .values import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from ..catalog.wire import lakelog_transaction_pb2 as wire

Records = list[dict[str, Any]]


def of_add(add: wire.Add, schema: pa.Schema | None) -> Records | None:
    """Those of a whole file; None if they or the schema aren't known."""
    from ..catalog.format.segments import merge_row_groups

    if schema is None or not add.row_groups:
        return None
    merged = merge_row_groups(add.row_groups, schema)
    return [_column(item, schema) for item in merged if item.column < len(schema)]


def _column(item: wire.ColumnStatistics, schema: pa.Schema) -> dict[str, Any]:
    from ..catalog.format.statistics import bound_type, decode_bounds

    field = schema.field(item.column)
    kind = bound_type(field.type)
    low = high = None
    if kind is not None:
        raw = [getattr(item, name) if item.HasField(name) else None for name in ("min", "max")]
        low, high = plain(decode_bounds(raw, kind))
    return _record(
        field.name,
        item.null_count if item.HasField("null_count") else None,
        (low, item.min_exact),
        (high, item.max_exact),
    )


def of_batch(files: pa.Table) -> list[Records | None]:
    """Those of many files, from a table with statistics columns; None for a file without any."""
    from ..catalog.format.segments import MAX_EXACT, MIN_EXACT

    found: list[dict[str, dict[str, Any]]] = [{} for _ in range(files.num_rows)]
    columns: dict[tuple[str, str, str], list[Any]] = {}
    for name in files.schema.names:
        if name.count(":") >= 2:
            what, kind, column = name.split(":", 2)
            columns[what, kind, column] = plain(files.column(name))
    for (what, kind, column), values in columns.items():
        if what == "nulls":
            for records, nulls in zip(found, values, strict=True):
                if nulls is not None:
                    records.setdefault(column, _record(column))["nulls"] = nulls
        elif what in ("min", "max"):
            bit = MIN_EXACT if what == "min" else MAX_EXACT
            exactness = columns.get(("exact", kind, column), [0] * len(values))
            for records, value, bits in zip(found, values, exactness, strict=True):
                if value is not None:
                    record = records.setdefault(column, _record(column))
                    record |= {what: value, f"{what}_exact": bool((bits or 0) & bit)}
    return [list(records.values()) or None for records in found]


def _record(
    column: str,
    nulls: int | None = None,
    low: tuple[Any, bool] = (None, False),
    high: tuple[Any, bool] = (None, False),
) -> dict[str, Any]:
    return {
        "column": column,
        "nulls": nulls,
        "min": low[0],
        "max": high[0],
        "min_exact": None if low[0] is None else low[1],
        "max_exact": None if high[0] is None else high[1],
    }
