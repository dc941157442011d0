"""Spark's own reader gives the rows that the log says, or an error: whatever the session is set to,
and whatever lies in the place of a live file."""

from __future__ import annotations

import math
import os
import random
import shutil
from functools import reduce
from pathlib import Path
from typing import Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.spark import native
from own_files import add_own

NAN_CONDITIONS = ("{} > 5", "{} >= 5", "{} = double('NaN')", "not ({} <= 2)")


@pytest.fixture(params=["file index", "paths"])
def road(request, monkeypatch) -> str:
    if request.param == "paths":
        monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off")
    return request.param


def commit(folder: Path, *tables: pa.Table) -> list[Path]:
    """A file for each table."""
    catalog = lakelog.open_catalog(str(folder))
    with catalog.writer("w", "db") as writer:
        for table in tables:
            with writer.transaction() as tx:
                tx.write("t", table)
    return [folder / part.key for part in catalog.snapshot("db").file_parts("t")]


def add(folder: Path, path: str) -> None:
    catalog = lakelog.open_catalog(str(folder))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        add_own(tx, "t", path)


def rows(spark: Any, folder: Path) -> list[Any]:
    return sorted(each.a for each in lakelog.spark.read(spark, str(folder), "db", "t").collect())


def test_a_flipped_bit_in_a_page(spark, tmp_path, road):
    draw = random.Random(1)
    (file,) = commit(tmp_path, pa.table({"a": [draw.random() for _ in range(5000)]}))
    good = file.read_bytes()
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t").agg({"a": "sum"})
    for part in (4, 3, 2):
        bad = bytearray(good)
        bad[len(bad) // part] ^= 16
        file.write_bytes(bad)
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            frame.collect()


@pytest.mark.parametrize("fault", ["missing", "corrupt"])
def test_a_session_that_ignores_files(spark, settings, tmp_path, road, fault):
    file, _ = commit(tmp_path, *(pa.table({"a": list(range(100))}) for _ in range(2)))
    for what in ("Missing", "Corrupt"):
        settings(f"spark.sql.files.ignore{what}Files", True)
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    if fault == "missing":
        file.unlink()
    else:
        with file.open("r+b") as opened:
            opened.write(bytes(100))
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        frame.agg({"a": "sum"}).collect()


@pytest.mark.parametrize("other", ["longer", "shorter", "without rows", "of the same length"])
def test_another_file_in_the_place_of_a_live_one(spark, tmp_path, road, other):
    (file,) = commit(tmp_path / "a", pa.table({"a": [1, 2, 3]}))
    if other == "of the same length":
        (twin,) = commit(tmp_path / "b", pa.table({"a": [4, 5, 6]}))
        assert twin.stat().st_size == file.stat().st_size
        shutil.copy(twin, file)
    else:
        count = {"longer": 100_000, "shorter": 2, "without rows": 0}[other]
        pq.write_table(pa.table({"a": pa.array(range(count), pa.int64())}), file)
    with pytest.raises(Exception, match=r"the log says|CorruptObject"):
        rows(spark, tmp_path / "a")


def test_more_behind_the_end_of_a_live_file(spark, tmp_path, road):
    """The old footer is where it was, and readers find the one at the end."""
    first, second = commit(tmp_path, pa.table({"a": [1]}), pa.table({"a": [2]}))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    with pytest.raises(Exception, match="the log says"):
        rows(spark, tmp_path)


@pytest.mark.parametrize("origin", ["own", "foreign", "a copy of an own one"])
def test_rows_with_nan(spark, tmp_path, road, origin):
    """For Spark NaN is greater than all else; bounds in Parquet ignore it."""
    values = [1.0, math.nan, 2.0]
    table = pa.table(
        {
            "v": values,
            "f": pa.array(values, pa.float32()),
            "h": pa.array(values, pa.float16()),
            "s": [{"x": each} for each in values],
            "z": [-0.0] * 3,
            "i": [1, 2, 3],
        }
    )
    if origin == "own":
        commit(tmp_path, table)
    else:
        if origin != "foreign":  # engines may keep keys of the footer that they don't know
            table = table.replace_schema_metadata({"lakelog.float_statistics": "none"})
        path = tmp_path / "w/db/data/in/x.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path, write_page_index=True)
        assert pq.read_metadata(path).row_group(0).column(0).statistics.max == 2
        add(tmp_path, "data/in/x.parquet")
    conditions = [each.format("v") for each in NAN_CONDITIONS]
    conditions += [f"{name} > 5" for name in ("f", "h", "s.x")]
    want = dict.fromkeys(conditions, 1) | {"z = 0.0": 3, "i > 2 or v > 5": 2, "i > 1": 2}
    frame = lakelog.spark.read(spark, str(tmp_path), "db", "t")
    assert count_each(frame, want) == want


def count_each(frame: Any, conditions: Any) -> dict[str, int]:
    """How many rows meet each condition, in one query."""
    from pyspark.sql import functions as F

    found = [frame.where(each).select(F.lit(each).alias("by")) for each in conditions]
    counted = reduce(lambda a, b: a.union(b), found).groupBy("by").count().collect()
    return dict.fromkeys(conditions, 0) | {each.by: each["count"] for each in counted}


def test_files_of_ours_keep_their_bounds_of_other_columns_on_the_second_road(
    spark, tmp_path, monkeypatch
):
    """Bounds are turned off as a whole there, and for files alone that another program wrote."""
    off = "parquet.filter.stats.enabled"
    seen = []
    relation = native.relation_of_paths
    monkeypatch.setenv(native.FILE_INDEX_SWITCH, "off")
    monkeypatch.setattr(
        native,
        "relation_of_paths",
        lambda *a, **k: (
            seen.append(k["float_bounds"] or k["options"].get(off) == "false"),
            relation(*a, **k),
        )[1],
    )
    (file,) = commit(tmp_path, pa.table({"a": [1.0]}))
    assert rows(spark, tmp_path) == [1.0]
    folder = tmp_path / "w/db/data/in"
    os.mkdir(folder)
    shutil.copy(file, folder / "x.parquet")
    add(tmp_path, "data/in/x.parquet")
    assert rows(spark, tmp_path) == [1.0, 1.0]
    assert seen == [False, False, True]
