"""Rows by DuckDB, as docs/reading.md tells users to ask for them."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa

OPTIONS = "union_by_name = true, hive_partitioning = false, can_have_nan = true"


def by_name(urls: list[str], rest: str = "", options: str = OPTIONS) -> pa.Table:
    """By its own Parquet reader. `rest` is what follows `from` in a query."""
    names = [re.sub(r"([*?\[])", r"[\1]", url) for url in urls]
    query = f"from read_parquet($1, {options}) {rest}"
    return duckdb.sql(query, params=[names]).to_arrow_table()


def of_arrow(rows: pa.RecordBatchReader) -> pa.Table:
    """Of what `scan` gives; DuckDB takes no half floats from Arrow."""
    half = pa.float16()
    fields = [each.with_type(pa.float32()) if each.type == half else each for each in rows.schema]
    return duckdb.from_arrow(rows.cast(pa.schema(fields))).to_arrow_table()
