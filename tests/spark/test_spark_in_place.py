"""Files that lie elsewhere, read by Spark: by its own reader, and by the data source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog import open_catalog
from lakelog.errors import InvalidParquet

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


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("date'1500-01-01'", False),
        ("date'2024-01-01'", True),
        ("timestamp'1500-01-01 00:00:00'", False),
        ("timestamp'2024-01-01 00:00:00'", True),
    ],
)
def test_days_of_the_calendar_before_1582(spark, tmp_path, settings, value, is_taken):
    """Where Spark and Arrow would differ, a file is refused; all else reads alike."""
    settings("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    settings("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    settings("spark.sql.session.timeZone", "UTC")
    legacy = str(tmp_path / "legacy")
    spark.sql(f"SELECT {value} AS day").coalesce(1).write.parquet(legacy)
    [file] = Path(legacy).glob("*.parquet")
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        if not is_taken:
            with pytest.raises(InvalidParquet, match="calendar that ended in 1582"):
                tx.add("t", str(file))
            return
        tx.add("t", str(file))
    [row] = lakelog.spark.read(spark, catalog.url, "db", "t").collect()
    [other] = catalog.snapshot("db").to_arrow("t")["day"].to_pylist()
    assert str(row.day) == str(other)[:10] + str(row.day)[10:]


def signed(path: Path, table: pa.Table, *values: bytes) -> None:
    """A file in which small unsigned integers are stored with their first bit in front of them, as
    some writers do."""
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, **plain)
    body = path.read_bytes()
    for value in values:
        held = value.ljust(4, b"\0")
        assert body.count(held) == 1
        body = body.replace(held, value.ljust(4, b"\xff"))
    path.write_bytes(body)


def test_small_unsigned_integers_that_are_stored_as_negative(spark, tmp_path):
    columns = {
        "small": pa.array([250, 7, None], pa.uint8()),
        "larger": pa.array([65_526, None, 7], pa.uint16()),
        "within": pa.array([[251], None, [7]], pa.list_(pa.uint8())),
    }
    signed(tmp_path / "odd.parquet", pa.table(columns), b"\xfa", b"\xf6\xff", b"\xfb")
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        tx.add("t", str(tmp_path / "odd.parquet"))
        tx.write("t", pa.table({name: array.slice(1) for name, array in columns.items()}))
    frame = lakelog.spark.read(spark, catalog.url, "db", "t")
    wanted = pa.table(columns).to_pylist()
    wanted += wanted[1:]
    assert sorted(map(str, (row.asDict() for row in frame.collect()))) == sorted(map(str, wanted))
    for condition in ("small = 250", "larger > 65000", "within[0] = 251"):
        assert frame.where(condition).count() == 1, condition
    own = frame.where("small = 7 AND larger IS NULL")
    assert own.count() == 2
