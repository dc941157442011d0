"""Files that DuckDB could read by its own reader, of tables whose columns were changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from evolution_cases import INT, LONG, Lake, evolve
from lakelog.catalog.engines.bare import LEAST_ROWS

if TYPE_CHECKING:
    from pathlib import Path

ROWS = LEAST_ROWS


@pytest.mark.parametrize(
    ("change", "column", "total"),
    [
        ({"rename": {"a": "b", "b": "a"}}, "a", 2 * ROWS),
        ({"drop": ["a"], "add": {"a": INT}, "default": {"a": 5}}, "a", 5 * ROWS),
        ({"drop": ["a"]}, "b", 2 * ROWS),
        ({"widen": {"a": LONG}}, "a", ROWS),
        ({"order": ["b"]}, "b", 2 * ROWS),
    ],
    ids=str,
)
def test_duckdb_reads_what_the_log_shows(tmp_path: Path, change, column, total) -> None:
    lake = Lake(tmp_path / "lake")
    data = pa.table({"a": pa.array([1] * ROWS, INT), "b": pa.array([2] * ROWS, INT)})
    lake.do(lambda tx: tx.write("t", data))
    query = f"SELECT sum({column}) FROM t"
    assert lake.now._source("t").bare() is not None  # as long as nothing is changed
    lake.do(evolve(**change))
    assert lake.now.to_duckdb().sql(query).fetchall() == [(total,)]
    assert lake.now._source("t").bare() is None
