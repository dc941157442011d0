"""Rows of any type go through overwrites and rewrites unchanged: nested ones, extensions, columns
of a later generation, and those that only the partition of a file tells."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.store import open_store
from own_files import add_own

DAY = dt.datetime(2026, 11, 23, 6, tzinfo=dt.UTC)
COLUMNS = {
    "texts": pa.array(["a", None, ""], pa.large_string()),
    "coded": pa.array(["x", "x", None]).dictionary_encode(),
    "bytes": pa.array([b"", b"\0", None], pa.binary()),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "exact": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
    "at": pa.array([DAY, None, DAY], pa.timestamp("us", "UTC")),
    "second": pa.array([DAY, None, DAY], pa.timestamp("s")),
    "day": pa.array([DAY.date(), None, DAY.date()], pa.date32()),
    "spent": pa.array([dt.timedelta(1), None, dt.timedelta(0)], pa.duration("us")),
    "flags": pa.array([True, None, False]),
    "small": pa.array([1.5, None, -0.0], pa.float16()),
    "listed": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "nested": pa.array([{"a": [{"b": "x"}]}, None, {"a": None}]),
    "mapped": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "ids": pa.array([uuid.UUID(int=n).bytes if n else None for n in (1, 0, 2)], pa.uuid()),
}


@pytest.fixture
def writer(catalog):
    with catalog.writer("w", "db", checkpoint_every=0) as opened:
        yield opened


def seen(catalog, order="n"):
    found = catalog.snapshot("db").to_arrow("t").sort_by(order)
    return found.schema, found.to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_a_type_stay(catalog, writer, name):
    rows = pa.table({"n": [1, 2, 3], name: COLUMNS[name]})
    with writer.transaction() as tx:
        tx.append("t", rows)
        tx.append("t", rows)
    before = seen(catalog)
    with writer.transaction() as tx:
        tx.overwrite("t", pa.table({"n": pa.array([], pa.int64())}), "n = 7")
        paths = catalog.snapshot("db").files("t").column("path").to_pylist()
        tx.rewrite("t", paths)
    assert seen(catalog) == before
    with writer.transaction() as tx:
        done = tx.overwrite("t", pa.table({"n": pa.array([2], pa.int64())}), "n = 2")
    assert done.rows_rewritten == 4
    schema, values = seen(catalog)
    assert schema == before[0]
    assert [row for row in values if row["n"] != 2] == [row for row in before[1] if row["n"] != 2]
    with writer.transaction() as tx:
        paths = catalog.snapshot("db").files("t").column("path").to_pylist()
        tx.rewrite("t", paths, catalog.snapshot("db").to_arrow("t"))
    assert seen(catalog) == (schema, values)


def test_columns_that_were_dropped_and_came_again_stay_what_they_are(catalog, writer):
    """`b` was dropped and came again: files from before have none, whatever stands in them."""
    with writer.transaction() as tx:
        tx.append("t", pa.table({"n": [1, 2], "b": [5, 6]}))
    with writer.transaction() as tx:
        tx.evolve("t", drop=["b"], add={"b": pa.string()})
        tx.append("t", pa.table({"n": [3, 4], "b": ["x", "y"]}))
    early, before = catalog.snapshot("db", {"w": 0}).to_arrow("t").to_pylist(), seen(catalog)
    with writer.transaction() as tx:
        tx.overwrite("t", pa.table({"n": pa.array([], pa.int64())}), "n = 2 OR n = 4")
    assert seen(catalog)[1] == [row for row in before[1] if row["n"] in (1, 3)]
    with writer.transaction() as tx:
        paths = catalog.snapshot("db").files("t").column("path").to_pylist()
        tx.rewrite("t", paths)
    assert seen(catalog)[1] == [row for row in before[1] if row["n"] in (1, 3)]
    assert catalog.snapshot("db", {"w": 0}).to_arrow("t").to_pylist() == early
    with writer.transaction() as tx:
        tx.overwrite("t", pa.table({"n": [9]}), "b = 'x' OR n = 9")
    assert [row["n"] for row in seen(catalog)[1]] == [1, 9]


def test_columns_that_a_partition_tells_become_columns(tmp_path):
    catalog = Catalog(open_store(tmp_path / "lake"))
    path = tmp_path / "out" / "year=2024" / "x.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            add_own(tx, "t", str(path), "year=2024", partition_by={"year": pa.int32()})
            tx.append("t", pa.table({"n": [4], "year": pa.array([2025], pa.int32())}), "year=2025")
        before = seen(catalog)
        with writer.transaction() as tx:
            done = tx.overwrite("t", pa.table({"n": [2], "year": [2024]}), "n = 2 AND year = 2024")
        assert done.rows_rewritten == 2
        assert seen(catalog)[1] == before[1]
        with writer.transaction() as tx:
            paths = catalog.snapshot("db").files("t").column("path").to_pylist()
            tx.rewrite("t", paths)
        assert seen(catalog)[1] == before[1]
        with writer.transaction() as tx:
            done = tx.overwrite("t", pa.table({"n": [9], "year": [2024]}), "year = 2024")
    assert path.exists()
    assert [row["n"] for row in seen(catalog)[1]] == [4, 9]
