"""What the tests of statistics share: a file of one column, and what its bounds must hold."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.data.parquet import file_facts
from lakelog.catalog.format.schema import encode_schema
from lakelog.catalog.format.statistics import (
    bound_type,
    byte_forms,
    decode_bounds,
)
from lakelog.catalog.format.statistics_rows import statistics_rows


def keys(column):
    """The values of a column or of bounds in a form that compares; nulls and NaN left out."""
    column = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    found = [value for value in column.to_pylist() if value is not None]
    found = [value for value in found if not (isinstance(value, float) and math.isnan(value))]
    return [value.encode() if isinstance(value, str) else value for value in found]


def facts_of(table, **options):
    """What the log keeps of this table as a Parquet file."""
    sink = pa.BufferOutputStream()
    collected = []
    with pq.ParquetWriter(sink, table.schema, metadata_collector=collected, **options) as writer:
        size = max(1, -(-table.num_rows // 3))
        for start in range(0, max(1, table.num_rows), size):
            writer.write_table(table.slice(start, size))
    add = file_facts(
        collected[0],
        table.schema,
        sink.getvalue().size,
        fingerprint=encode_schema(table.schema).fingerprint,
    )
    add.path, add.table = "data/x", "t"
    return add


def statistic_name(what, column, kind):
    return f"{what}:{kind}:{column}"


def facts(rows, schema):
    """Statistics of one file or row group as one dict of one-element arrays."""
    found = {}
    for place, column in enumerate(rows.column("column").to_pylist()):
        one = rows.slice(place, 1).combine_chunks()
        if one["null_count"][0].is_valid:
            found[f"nulls::{column}"] = one["null_count"]
        kind = bound_type(schema.field(column).type)
        if kind is None:
            assert one["min"].null_count == one["max"].null_count == 1
            continue
        for which in ("min", "max"):
            keys, whole = (one[name].chunk(0) for name in (which, f"{which}_bytes"))
            found[statistic_name(which, column, kind)] = decode_bounds(
                byte_forms(keys, whole, kind), kind
            )
        found[statistic_name("exact", column, kind)] = one["exact"]
    return found


def of_files(adds, schema):
    """The statistics of files, all of one schema."""
    for add in adds:
        add.table, add.schema_fingerprint = "t", encode_schema(schema).fingerprint
    return statistics_rows(adds, {("t", encode_schema(schema).fingerprint): schema})


def file_row(add, schema):
    """What is known of a file."""
    return facts(of_files([add], schema).files, schema)
