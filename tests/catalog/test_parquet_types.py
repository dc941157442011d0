"""How Parquet files hold the types of a table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from lakelog import open_catalog


def test_decimals_are_whole_numbers_as_spark_writes_them(tmp_path):
    """Of 128 bits each they would take half as long again to write."""
    kinds = [pa.decimal128(digits, 2) for digits in (9, 18, 19)]
    data = pa.table({str(kind.precision): pa.array([-1, None, 2], kind) for kind in kinds})
    catalog = open_catalog(str(tmp_path))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        (path,) = tx.write("t", data)
    schema = pq.ParquetFile(tmp_path / "w" / "db" / path).schema
    stored = [schema.column(leaf).physical_type for leaf in range(3)]
    assert stored == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    snapshot = catalog.snapshot("db")
    assert snapshot.to_arrow("t").equals(data)
    for name in data.column_names:
        assert snapshot.to_arrow("t", where=f'"{name}" = -1').num_rows == 1
        assert snapshot.explain("t", f'"{name}" = 5')["kept"].to_pylist() == [False]
