"""Predicates told to Spark select the rows that pyarrow's mask selects."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.where.emit import mask, to_sql
from lakelog.catalog.where.parse import parse_where

NAN, INF = float("nan"), float("inf")
STAMPS = [0, 1577836800123456, None, -5]
TABLE = pa.table(
    {
        "i8": pa.array([1, -128, None, 127], pa.int8()),
        "i": pa.array([1, 5, None, -7], pa.int32()),
        "u64": pa.array([1, 2**64 - 1, None, 0], pa.uint64()),
        "f": pa.array([NAN, 1.5, None, -0.0]),
        "g": pa.array([NAN, 0.1, None, INF], pa.float32()),
        "s": ["abc", "", None, 'é\\"\n\0'],
        "b": [True, False, None, True],
        "ts": pa.array(STAMPS, pa.timestamp("us")),
        "tz": pa.array(STAMPS, pa.timestamp("us", "Europe/Oslo")),
        "d": pa.array([Decimal("1.00"), Decimal("1.01"), None, Decimal("-5")], pa.decimal128(5, 2)),
        "day": pa.array([0, 18262, None, -1], pa.date32()),
        "x": [b"", b"\0\xff", None, b"\xff"],
        "odd `name\\": [1, 2, None, 3],
    }
)
PREDICATES = [
    "i > 1.5", "i = 5.5", "i <> 5.5", "i IN (1, 5, NULL)", "i NOT IN (1, 5)", "i8 >= -128.5",
    "i BETWEEN -7 AND 1", "u64 = 18446744073709551615", "u64 > 0", "f > 1", "f >= 'inf'",
    "f <> 1.5", "f IN (0, 1.5)", "NOT f IN (0, 1.5)", "f = -0.0", "g = 0.1", "g > 1e39",
    "g <= 'inf'", "g IN (0.1, 'inf')", "s LIKE 'ab%'", "s LIKE '%'", "s NOT LIKE 'é\\%' ESCAPE '$'",
    "s = ''", "s < 'é'", "s IN ('abc', 'é\\\"\n\0')", "s = 'é\\\"\n\0'", "b", "NOT b", "b IS NULL",
    "ts = TIMESTAMP '2020-01-01 00:00:00.123456'", "ts < TIMESTAMP '2020-01-01 00:00:00.1234565'",
    "ts IN ('1970-01-01', '2020-01-01 00:00:00.123456')", "ts < '1970-01-01'",
    "tz >= '2020-01-01 01:00:00.123456+01:00'", "tz IN ('1970-01-01 00:00:00Z')",
    "tz < TIMESTAMPTZ '1969-12-31 23:59:59.999996Z'", "d <= 1.005", "d = 1.005", "d IN (1, 1.01)",
    "day > TIMESTAMP '2019-12-31 12:00:00'", "day IN ('2020-01-01', '1970-01-01')",
    "x >= X'00ff'", "x IN (X'', X'ff')", '"odd `name\\" > 1', "TRUE", "NULL", "i = 1 AND NULL",
    "i = 5 OR f > 1 AND NOT (b OR d IS NULL)",
    " OR ".join(f"(i > {n} AND f < {n})" for n in range(300)),
]  # fmt: skip


@pytest.mark.slow("Spark's session")
def test_spark_agrees_with_pyarrow(spark, tmp_path, settings):
    settings("spark.sql.session.timeZone", "America/New_York")
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (batch,) = TABLE.to_batches()
    trees = [parse_where(text, TABLE.schema, "t") for text in PREDICATES]
    for escaped in (False, True):
        settings("spark.sql.parser.escapedStringLiterals", escaped)
        frame = spark.read.parquet(str(tmp_path / "t.parquet")).coalesce(1)
        made = [f"({to_sql(tree, 'spark')}) AS q{at}" for at, tree in enumerate(trees)]
        rows = frame.selectExpr(*made).collect()
        for at, (tree, text) in enumerate(zip(trees, PREDICATES, strict=True)):
            assert [row[at] for row in rows] == mask(tree, batch).to_pylist(), text
    for tree, text in list(zip(trees, PREDICATES, strict=True))[::4]:  # as Parquet filters
        kept = frame.where(to_sql(tree, "spark")).count()
        assert kept == mask(tree, batch).to_pylist().count(True), text
