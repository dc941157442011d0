"""Columns whose names Spark gives to columns of its own: they are read as they are, or refused."""

from __future__ import annotations

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest


def fill(folder, *tables: pa.Table) -> lakelog.Catalog:
    catalog = lakelog.open_catalog(str(folder))
    with catalog.writer("w", "db") as writer:
        for table in tables:
            with writer.transaction() as tx:
                tx.write("t", table)
    return catalog


@pytest.mark.parametrize("vectorized", [True, False])
def test_the_numbers_of_rows(spark, settings, tmp_path, vectorized):
    settings("spark.sql.parquet.enableVectorizedReader", vectorized)
    name = "_tmp_metadata_row_index"
    fill(
        tmp_path,
        pa.table({"a": [1, 2], name: pa.array([10, 20], pa.int32())}),
        pa.table({"a": [3]}),
        pa.table({"a": [4], name: pa.array([1 << 40])}),
    )
    with pytest.warns(RuntimeWarning, match="numbers of rows"):
        frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    rows = sorted(tuple(row) for row in frame.collect())
    assert rows == [(1, 10), (2, 20), (3, None), (4, 1 << 40)]
    others = lakelog.spark.read(spark, str(tmp_path), "db", "t", columns=["a"])
    assert sorted(row.a for row in others.collect()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "name",
    [
        "__lakelog_file",
        "__Lakelog_Place",
        "__Row_Operation",
        "__row_from_source",
        "__original_row_id_a",
    ],
)
def test_names_of_a_change_of_rows(spark, tmp_path, name):
    catalog = fill(tmp_path, pa.table({"a": [1, 2], name: pa.array([10, 20], pa.int32())}))
    lakelog.spark.attach(spark, "reserved", str(tmp_path), writer="sql")
    try:
        rows = spark.sql(f"SELECT a, `{name}` FROM reserved.db.t ORDER BY a").collect()
        assert [tuple(row) for row in rows] == [(1, 10), (2, 20)]
        before = catalog.snapshot("db").token
        for statement in (
            f"UPDATE reserved.db.t SET `{name}` = 11 WHERE a + 0 = 1",
            "DELETE FROM reserved.db.t WHERE a * a = 4",
            "MERGE INTO reserved.db.t USING reserved.db.t s ON t.a = s.a "
            "WHEN MATCHED THEN UPDATE SET a = s.a + 1",
        ):
            with pytest.raises(Exception, match="a name that Spark gives to its own"):
                spark.sql(statement)
        assert catalog.snapshot("db").token == before
    finally:
        lakelog.spark.detach(spark, "reserved")
