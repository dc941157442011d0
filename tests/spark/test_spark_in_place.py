"""Files that lie elsewhere, read by Spark: by its own reader, and by the data source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lakelog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog

WANT = [0, 1, 2, 100]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"a": [number]}), folder / f"x {number}%.parquet")
    return folder


def fill(catalog: lakelog.Catalog, names: list[str]) -> None:
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [100]}))
        for name in names:
            tx.add("t", name)


def by_format(spark: Any, url: str, **options: object) -> list[int]:
    lakelog.spark.register(spark)
    reader = spark.read.format("lakelog").option("database", "db").option("table", "t")
    for name, value in {"native": False, **options}.items():
        reader = reader.option(name, json.dumps(value))
    return sorted(reader.load(url).toArrow()["a"].to_pylist())


def test_on_disk(spark, tmp_path: Path, out: Path) -> None:
    lake = str(tmp_path / "lake")
    fill(open_catalog(lake), [str(path) for path in out.iterdir()])
    frame = lakelog.spark.read(spark, lake, "db", "t")
    assert sorted(frame.toArrow()["a"].to_pylist()) == WANT
    assert by_format(spark, lake) == WANT
    changed = out / "x 1%.parquet"
    pq.write_table(pa.table({"a": [7, 7, 7]}), changed)
    for read in (lambda: frame.toArrow(), lambda: by_format(spark, lake)):
        with pytest.raises(Exception, match="x 1%") as caught:
            read()
        assert "the log says" in str(caught.value)


@pytest.mark.parametrize("mode", ["rows", "predicate"])
def test_one_file_of_two_writers_of_which_one_deletes_rows(spark, tmp_path: Path, mode) -> None:
    lake, path = str(tmp_path / "lake"), tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    catalog = open_catalog(lake)
    for name in ("w1", "w2"):
        with catalog.writer(name, "db") as writer, writer.transaction() as tx:
            tx.add("t", str(path))
            tx.write("t", pa.table({"a": [100]}))
    with catalog.writer("w1", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "a = 2", mode=mode)
    want = [1, 1, 2, 3, 3, 100, 100]
    assert sorted(catalog.snapshot("db").to_arrow("t")["a"].to_pylist()) == want
    frame = lakelog.spark.read(spark, lake, "db", "t")
    assert sorted(frame.toArrow()["a"].to_pylist()) == want
    assert by_format(spark, lake) == by_format(spark, lake, native=True) == want


@pytest.mark.s3
def test_in_another_bucket(spark, tmp_path: Path, out: Path, moto, monkeypatch) -> None:
    """By the data source, which has the options of that bucket, where Spark has no connector."""
    import s3fs

    bucket = moto.make_bucket()
    s3fs.S3FileSystem(**moto.storage_options).put(f"{out}/", f"{bucket}/raw/", recursive=True)
    lake, options = str(tmp_path / "lake"), {f"s3://{bucket}": moto.storage_options}
    names = [f"s3://{bucket}/raw/{path.name}" for path in out.iterdir()]
    fill(open_catalog(lake, location_options=options), names)
    assert by_format(spark, lake, locationOptions=options) == WANT
    with pytest.warns(RuntimeWarning, match="no connector") if not _has_s3(spark) else _nothing():
        frame = lakelog.spark.read(spark, lake, "db", "t", location_options=options)
    assert sorted(frame.toArrow()["a"].to_pylist()) == WANT


def _has_s3(spark: Any) -> bool:
    from lakelog.spark.access import supports_url

    return supports_url(spark, "s3://b")


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()
