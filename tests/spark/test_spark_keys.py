"""Tables with a key, by Spark's own reader and by the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import open_catalog
from lakelog.spark import read
from lakelog.spark.session import register

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose keys meet and one that meets none, rows without a key, and a deleted row."""
    folder = tmp_path_factory.mktemp("keyed") / "lake"
    catalog = open_catalog(str(folder))
    u, v = catalog.writer("u", "db"), catalog.writer("v", "db")

    def write(writer: Any, ids: list[int | None], text: str, clock: int) -> None:
        table = pa.table({"id": pa.array(ids, pa.int64()), "x": [text] * len(ids)})
        with writer.transaction() as tx:
            tx.write("t", table, clock=(clock, clock))

    write(u, [1, 2, 3, None], "old", 1)
    write(v, [2, 2, 4, None], "new", 3)
    write(u, [4, 3], "between", 2)
    with u.transaction() as tx:
        tx.evolve("t", key=["id"])
    write(u, [100, 101], "alone", 1)
    with v.transaction() as tx:
        tx.delete("t", "id = 4")
    return folder


@pytest.mark.parametrize("where", [None, "x = 'old'", "x = 'between'", "id < 3"])
def test_spark_reads_the_newest_row_of_each_key(
    spark: SparkSession, lake: Path, where: str | None
) -> None:
    snapshot = open_catalog(str(lake)).snapshot("db")
    expected = sorted(map(repr, snapshot.to_arrow("t", where=where).to_pylist()))
    if where is None:
        assert len(expected) == 7  # 1, 2, 3, 100, 101 and two without a key
    register(spark)
    options = {"database": "db", "table": "t"} | ({"where": where} if where else {})
    source = spark.read.format("lakelog").options(**options)
    for frame in (
        read(spark, str(lake), "db", "t", where=where),
        source.load(str(lake)),
        source.option("native", "false").load(str(lake)),
    ):
        assert sorted(repr(row.asDict()) for row in frame.collect()) == expected
        assert frame.count() == len(expected)


def test_files_whose_keys_meet_no_other_are_read_by_spark_itself(lake: Path) -> None:
    parts = open_catalog(str(lake)).snapshot("db").file_parts("t")
    assert [part.hidden is None for part in parts].count(True) == 1
