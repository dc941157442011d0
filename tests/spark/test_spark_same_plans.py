"""A query costs what it costs over the same files without a log: Spark plans it alike, cuts the
files alike, and runs the very code that it has compiled for them.
"""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakelog
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

SALES = 20_000
# By what stands in its plan.
QUERIES = {
    "HashAggregate": """
        select kind, sum(price * (1 - discount)), avg(price), count(*) from sales
        where day <= date '2020-06-01' group by kind order by kind""",
    "BroadcastHashJoin": """
        select name, sum(price) from sales, shops
        where sales.shop = shops.shop and day between date '2020-02-01' and date '2020-03-01'
            and name like 'shop 1%' group by name order by name""",
    "SortMergeJoin": """
        select sum(a.price) from sales a join sales b on a.id = b.id where b.kind = 'x'""",
    "ReusedExchange": """
        select sum(a.price), sum(b.price) from sales a join opened_again b on a.id = b.id
        where a.kind = 'x' and b.kind = 'x'""",
    "LeftSemi": """
        select name from shops where exists (
            select * from sales where sales.shop = shops.shop and price > 97)
        and shop < (select max(shop) from sales) order by name""",
}


@pytest.fixture(scope="module")
def roads(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Callable[[str], DataFrame]]:
    """The same files as tables of a lake, and as a folder that Spark reads by itself."""
    root = tmp_path_factory.mktemp("plans")
    url = str(root / "lake")
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        numbers = range(50)
        shops = {"shop": list(numbers), "name": [f"shop {each}" for each in numbers]}
        for start in range(0, SALES, SALES // 4):
            with writer.transaction() as tx:
                tx.write("sales", sales(start, SALES // 4))
        with writer.transaction() as tx:
            tx.write("shops", pa.table(shops))
    snapshot = lakelog.open_catalog(url).snapshot("db")
    for table in ("sales", "shops"):
        (root / table).mkdir()
        for at, part in enumerate(snapshot.file_parts(table)):
            os.link(Path(url, part.key), root / table / f"{at}.parquet")
    return {
        "files": lambda table: spark.read.parquet(str(root / table)),
        "lakelog": lambda table: lakelog.spark.read(spark, url, "db", table),
    }


def sales(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table(
        {
            "id": list(ids),
            "shop": [each % 50 for each in ids],
            "kind": ["xyz"[each % 3] for each in ids],
            "price": pa.array([Decimal(each % 100) for each in ids], pa.decimal128(15, 2)),
            "discount": pa.array([Decimal("0.05")] * count, pa.decimal128(15, 2)),
            "day": [date(2020, 1, 1) + timedelta(each % 300) for each in ids],
        }
    )


def plan_of(frame: DataFrame) -> str:
    """What Spark has run, but for the numbers of its columns and for where the files lie."""
    utils = frame.sparkSession._jvm.PythonSQLUtils
    text = utils.explainString(frame._jdf.queryExecution(), "formatted")
    text = re.sub(r"Location: .*", "Location", text)
    return re.sub(r"(#|plan_id=|subquery#)\d+L?|\[id=#?\d+\]", "#", text)


def compiled(spark: SparkSession) -> int:
    """How many classes of generated code Spark has compiled."""
    metrics: Any = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


@pytest.mark.parametrize("part", QUERIES)
def test_a_query_runs_by_the_plan_and_the_code_of_plain_files(spark, roads, settings, part):
    settings("spark.sql.autoBroadcastJoinThreshold", 10_000)  # between the sizes of the tables
    settings("spark.sql.adaptive.autoBroadcastJoinThreshold", -1)  # of parts of them, too
    found = {}
    for road, table in roads.items():
        for each in ("sales", "shops"):
            table(each).createOrReplaceTempView(each)
        table("sales").createOrReplaceTempView("opened_again")
        frame = spark.sql(QUERIES[part])
        before = compiled(spark)
        rows = frame.collect()
        found[road] = plan_of(frame), rows, compiled(spark) - before
    (plan, rows, _), (our_plan, our_rows, new_code) = found["files"], found["lakelog"]
    assert rows
    assert our_rows == rows
    assert our_plan == plan
    assert part in plan
    assert "isFinalPlan=true" in plan
    assert "Batched: true" in plan
    assert "PushedFilters: [" in plan
    assert new_code == 0


def test_files_are_cut_alike_and_as_large(spark, roads, settings):
    settings("spark.sql.files.maxPartitionBytes", 5_000)
    settings("spark.sql.files.openCostInBytes", 1_000)
    seen = []
    for table in roads.values():
        frame = table("sales").where("kind = 'x'")
        size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
        seen.append((frame.rdd.getNumPartitions(), size))
    assert seen[0] == seen[1]
    assert seen[0][0] > 4  # more than files
