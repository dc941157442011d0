"""Partitioned tables in Spark: as its own reader and the data source have them."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.data.partitioned import texts_of
from lakelog.catalog.format.names import partition_name
from own_files import add_own

SUMMER = dt.datetime(2026, 7, 1, 6, tzinfo=dt.UTC)
VALUES = {
    "i": pa.array([2026, None, -1], pa.int16()),
    "u": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "s": pa.array(["a/b", "", "__HIVE_DEFAULT_PARTITION__"]),
    "b": pa.array([True, False, None]),
    "d": pa.array([dt.date(2026, 11, 20), None, dt.date(1970, 1, 1)]),
    "at": pa.array([dt.datetime(2026, 11, 20, 6, 0, 0, 250), None, None], pa.timestamp("us")),
    "z": pa.array([SUMMER] * 3, pa.timestamp("us", "Europe/Oslo")),
    "m": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
}  # fmt: skip
TABLE = pa.table({"n": [0, 1, 2], **VALUES})


def by_number(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """One table whose files have the columns, and one of the same rows whose files lack them."""
    root = tmp_path_factory.mktemp("partitions")
    catalog = lakelog.open_catalog(str(root))
    kinds = {name: values.type for name, values in VALUES.items()}
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("written", TABLE, partition_by=list(VALUES))
        for number in range(3):
            texts = [texts_of(TABLE[name].slice(number, 1))[0] for name in VALUES]
            path = f"data/hive/{number}.parquet"
            (root / "w/db/data/hive").mkdir(parents=True, exist_ok=True)
            pq.write_table(TABLE.select(["n"]).slice(number, 1), root / f"w/db/{path}")
            name = partition_name(zip(VALUES, texts, strict=True))
            add_own(tx, "told", path, name, partition_by=kinds)
    return str(root)


@pytest.mark.parametrize("road", ["own reader", "format", "no file index", "data source"])
def test_told_and_written_columns_are_the_same_rows(spark, lake, road, request):
    if road == "no file index":
        request.getfixturevalue("no_file_index")

    def read(table):
        if road not in ("data source", "format"):
            return lakelog.spark.read(spark, lake, "db", table)
        options = {"database": "db", "table": table, "native": road == "format"}
        return spark.read.format("lakelog").options(**options).load(lake)

    told, written = read("told"), read("written")
    assert dict(told.dtypes) == dict(written.dtypes)
    rows = by_number(written)
    assert by_number(told.select(written.columns)) == rows
    assert [row[1] for row in rows] == [2026, None, -1]
    assert told.where("i = 2026").select("n").collect() == [(0,)]
    assert told.where("d IS NULL").select("n").collect() == [(1,)]
    assert told.select("s").distinct().count() == 3


def test_predicates_rule_files_out_before_spark_plans(spark, lake):
    for table in ("told", "written"):
        frame = lakelog.spark.read(spark, lake, "db", table, where="i = -1 AND b IS NULL")
        assert len(frame.inputFiles()) == 1
        assert [row.n for row in frame.collect()] == [2]


def test_columns_that_are_not_wanted_part_nothing(spark, lake):
    frame = lakelog.spark.read(spark, lake, "db", "told", columns=["n"])
    assert frame._jdf.queryExecution().analyzed().toString().count("Relation") == 1
    assert sorted(row.n for row in frame.collect()) == [0, 1, 2]


def test_more_partitions_than_a_union_bears_are_read_by_the_data_source(
    spark, lake, monkeypatch, no_file_index
):
    monkeypatch.setattr(sys.modules["lakelog.spark.file_groups"], "MAX_GROUPS", 2)
    with pytest.warns(RuntimeWarning, match="3 partitions"):
        frame = lakelog.spark.read(spark, lake, "db", "told")
    assert by_number(frame.select("n", "i")) == [(0, 2026), (1, None), (2, -1)]
