"""Decimals go to Python workers as whole numbers, and are there what they were."""

from __future__ import annotations

import decimal
from decimal import Decimal

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.spark.row_batches import BYTES_SETTING, as_longs, must_be_weighed, with_decimals
from pyspark.sql import functions

KINDS = [(1, 0), (1, 1), (9, 2), (10, 9), (15, 2), (18, 0), (18, 18), (19, 2), (38, 10)]


def bounds(precision, scale):
    most = Decimal(10**precision - 1).scaleb(-scale, decimal.Context(40))
    return [most, most.copy_negate(), Decimal(0).scaleb(-scale), Decimal(1).scaleb(-scale), None]


def written(frame, url):
    lakelog.spark.write(frame, url, "db", "t", writer="w")
    return lakelog.open_catalog(url).snapshot("db").to_arrow("t")


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "lake")


@pytest.mark.parametrize("weighed", [False, True])
def test_every_kind_comes_back_as_spark_itself_writes_it(spark, url, tmp_path, settings, weighed):
    """The largest and the smallest of each, beside a text whose column another one follows."""
    if weighed:
        settings(BYTES_SETTING, 1 << 26)
    rows = [("text", *each) for each in zip(*(bounds(*kind) for kind in KINDS), strict=True)]
    columns = ", ".join(f"d{p}_{s} decimal({p}, {s})" for p, s in KINDS)
    frame = spark.createDataFrame(rows, f"name string, {columns}").coalesce(1)
    assert must_be_weighed(frame) == weighed
    found = written(frame, url)
    assert found.schema.types[1:] == [pa.decimal128(*kind) for kind in KINDS]
    assert [tuple(row.values()) for row in found.to_pylist()] == rows
    frame.write.parquet(str(tmp_path / "plain"))
    plain = spark.read.parquet(str(tmp_path / "plain")).collect()
    assert lakelog.spark.read(spark, url, "db", "t").collect() == plain


def test_those_of_64_bits_are_numbers_on_the_way(spark):
    frame = spark.range(1).selectExpr(
        "id", "1.25bd a", "cast(2 as decimal(18, 3)) b", "cast(3 as decimal(19, 3)) c",
        "array(1.5bd) d",
    )  # fmt: skip
    longs, decimals = as_longs(frame)
    assert decimals == {1: pa.decimal128(3, 2), 2: pa.decimal128(18, 3)}
    types = [kind for _, kind in longs.dtypes]
    assert types == ["bigint", "bigint", "bigint", "decimal(19,3)", "array<decimal(2,1)>"]
    assert longs.drop("d").collect()[0][:3] == (0, 125, 2000)
    none = spark.range(1)
    assert as_longs(none) == (none, {})


def test_a_decimal_of_another_scale_than_its_column_is_put_right(spark, url):
    """As a careless source may hand it over; too large a one is null, as in Spark's own batches."""
    from pyspark.sql.classic.column import Column

    sql = spark._jvm.org.apache.spark.sql

    def careless(text, precision, scale):
        value = sql.types.Decimal.apply(text)
        kind = sql.types.DecimalType(precision, scale)
        made = sql.catalyst.expressions.Literal(value, kind)
        column = Column(sql.classic.ExpressionUtils.column(made))
        return functions.when(functions.col("id") >= 0, column)  # which may be null, for Spark

    frame = spark.range(2).coalesce(1)
    frame = frame.withColumn("a", careless("1.5", 10, 3)).withColumn("b", careless("1000", 3, 0))
    found = written(frame, url)
    assert found.to_pylist() == frame.toArrow().to_pylist()
    assert found["a"].to_pylist() == [Decimal("1.500")] * 2
    assert found["b"].to_pylist() == [None] * 2


def test_slices_and_nulls_of_a_batch_stay_where_they_are():
    numbers = pa.array([7, None, -5, -(10**18) + 1, 10**18 - 1, None])
    batch = pa.record_batch([numbers, numbers], names=["n", "d"])
    for part in (batch, batch.slice(1, 4), batch.slice(3, 0)):
        found = with_decimals(part, {1: pa.decimal128(18, 2)})
        found.validate(full=True)
        assert found["n"].equals(part["n"])
        wanted = [None if n is None else Decimal(n).scaleb(-2) for n in part["n"].to_pylist()]
        assert found["d"].to_pylist() == wanted
