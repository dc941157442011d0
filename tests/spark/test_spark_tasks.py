"""What `format("lakelog")` hands to its tasks: files and schemas that say all that a task needs.
No Spark runs here."""

from __future__ import annotations

import pickle

import lakelog
import pyarrow as pa
import pytest
from lakelog.errors import CorruptObject
from lakelog.spark.arrow_types import spark_schema
from lakelog.spark.selection import selection
from lakelog.spark.source import LakelogReader
from lakelog.spark.source_options import SourceAccess


def written(url, *tables):
    with lakelog.open_catalog(url).writer("w", "db") as writer:
        for table in tables:
            with writer.transaction() as tx:
                tx.write("t", table)
    return lakelog.open_catalog(url).snapshot("db")


def rows(url, snapshot):
    """By a reader and partitions that went to another process."""
    schema = spark_schema(snapshot.schema("t"))
    reader = LakelogReader(selection(snapshot, "t"), schema, SourceAccess(url, "{}", "{}"))
    shares = pickle.loads(pickle.dumps(reader.partitions()))
    reader = pickle.loads(pickle.dumps(reader))
    return [row for share in shares for batch in reader.read(share) for row in batch.to_pylist()]


def test_a_column_that_was_dropped_and_came_again_stays_hidden_in_tasks(tmp_path):
    written(str(tmp_path), pa.table({"k": [1], "a": [10]}))
    lakelog.open_catalog(str(tmp_path)).evolve("db", "t", drop=["a"], add={"a": pa.string()})
    snapshot = written(str(tmp_path), pa.table({"k": [2], "a": ["new"]}))
    assert sorted(snapshot.to_arrow("t").to_pylist(), key=lambda row: row["k"]) == [
        {"k": 1, "a": None},
        {"k": 2, "a": "new"},
    ]
    found = sorted(rows(str(tmp_path), snapshot), key=lambda row: row["k"])
    assert found == [{"k": 1, "a": None}, {"k": 2, "a": "new"}]


def test_each_schema_goes_to_a_task_once(tmp_path):
    tables = [pa.table({"a": [n]}) if n % 2 else pa.table({"a": [n], "b": ["x"]}) for n in range(6)]
    snapshot = written(str(tmp_path), *tables)
    reader = LakelogReader(
        selection(snapshot, "t"),
        spark_schema(snapshot.schema("t")),
        SourceAccess(str(tmp_path), "{}", "{}"),
    )
    (share,) = reader.partitions()
    assert len(share.schemas) == 2
    assert len(share.files) == 6
    assert all(part.schema is None for part, _ in share.files)


def test_a_task_notices_a_file_that_was_replaced(tmp_path):
    url, other = str(tmp_path / "a"), str(tmp_path / "b")
    snapshot, twin = (written(at, pa.table({"a": [1]})) for at in (url, other))
    (path,), (twin_path,) = (s.files("t").column("url").to_pylist() for s in (snapshot, twin))
    with open(twin_path, "rb") as source, open(path, "wb") as sink:
        sink.write(source.read())
    with pytest.raises(CorruptObject, match="another footer"):
        rows(url, snapshot)
