"""Statistics of files as JSON-ready records, one a column, for `lakelog show` and `files`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .values import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from ..catalog.wire import lakelog_transaction_pb2 as wire

Records = list[dict[str, Any]]
_BOUNDS: Final = ("min", "max")


def of_add(add: wire.Add, schema: pa.Schema | None) -> Records | None:
    """The statistics of a whole file; None if they or the schema aren't known."""
    from ..catalog.format.statistics_rows import merge_row_groups

    if schema is None or not add.row_groups:
        return None
    merged = merge_row_groups(add.row_groups, schema)
    return [_column(item, schema) for item in merged if item.column < len(schema)]


def _column(item: wire.ColumnStatistics, schema: pa.Schema) -> dict[str, Any]:
    from ..catalog.format.statistics import bound_type, decode_bounds, has_nan

    field = schema.field(item.column)
    kind = bound_type(field.type)
    low = high = None
    if kind is not None:
        raw = [getattr(item, name) if item.HasField(name) else None for name in _BOUNDS]
        low, high = plain(decode_bounds(raw, kind))
    return _record(
        {
            "column": field.name,
            "null_count": item.null_count if item.HasField("null_count") else None,
            **{"min": low, "max": high, "min_exact": item.min_exact, "max_exact": item.max_exact},
            "no_nan": item.no_nan and has_nan(field.type),
        }
    )


def of_batch(
    files: pa.Table, statistics: Sequence[pa.Table], schemas: Mapping[bytes, pa.Schema]
) -> dict[tuple[str, str], Records]:
    """The statistics of many files, by table and path, without files that have none.

    Args:
        files: All columns of FILES.
        statistics: Segments of STATISTICS, decoded.
        schemas: Schemas by fingerprint.
    """
    import pyarrow as pa

    from ..catalog.format.columns import column
    from ..catalog.read.statistics import statistics_of_batch

    if not statistics:
        return {}
    found: dict[tuple[str, str], Records] = {}
    # A path can be in two tables: each is read by itself, its rows keep their numbers.
    tables = files.column("table").to_pylist()
    rows = pa.concat_tables(statistics)
    places = rows.column("row").to_pylist()
    for table in dict.fromkeys(tables):
        own = [at < len(tables) and tables[at] == table for at in places]
        of_table = column(own, pa.bool_())
        known = decoded(statistics_of_batch(files, rows.filter(of_table), schemas))
        for item in known:
            found.setdefault((table, item["path"]), []).append(_record(item))
    return found


def decoded(statistics: pa.Table) -> Records:
    """Rows of `Snapshot.statistics` with bounds as values, in their order."""
    from ..catalog.format.statistics import decode_bounds, parse_bound_type

    kinds = statistics.column("bound_type").to_pylist()
    columns = {
        name: statistics.column(name).to_pylist()
        for name in statistics.schema.names
        if name not in _BOUNDS
    }
    for name in _BOUNDS:
        raw = statistics.column(name).to_pylist()
        columns[name] = [None] * len(raw)
        for text in set(kinds):
            kind = parse_bound_type(text)
            at = [place for place, other in enumerate(kinds) if other == text]
            if kind is not None:
                values = plain(decode_bounds([raw[place] for place in at], kind))
                for place, value in zip(at, values, strict=True):
                    columns[name][place] = value
    return [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]


def _record(item: Mapping[str, Any]) -> dict[str, Any]:
    exact = {f"{n}_exact": None if item[n] is None else item[f"{n}_exact"] for n in _BOUNDS}
    record = {"column": item["column"], "nulls": item["null_count"]}
    return {**record, **{n: item[n] for n in _BOUNDS}, **exact, "no_nan": item["no_nan"]}
