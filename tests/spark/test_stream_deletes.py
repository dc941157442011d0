"""Changes as a stream where rows of all writers are deleted and updated: each log tells what
becomes of its own rows."""

from __future__ import annotations

import lakelog
import pytest
from newer_spark import STREAMS, needs
from stream_cases import put, stream
from stream_history import counted

pytestmark = needs(STREAMS)


@pytest.fixture
def catalog(tmp_path):
    return lakelog.open_catalog(str(tmp_path / "lake"))


def told(rows):
    return sorted((row["_writer"], row["_revision"], row["_change"], row["n"]) for row in rows)


def test_rows_that_are_deleted_in_all_logs(catalog):
    put(catalog, 1, 2, 3, writer="v")
    put(catalog, 4, 5)
    query = stream(catalog, readChangeFeed="true")
    assert sorted(row["n"] for row in query.batch()) == [1, 2, 3, 4, 5]
    catalog.delete("db", "t", "n IN (2, 4)")
    rows = query.rows()
    assert told(rows) == [("v", 1, "delete", 2), ("w", 1, "delete", 4)]
    times = {w: catalog.history("db", w)["committed_at"][-1].as_py() for w in "vw"}
    assert {row["_writer"]: row["_committed_at"] for row in rows} == times
    put(catalog, 2, writer="v")  # comes later than the delete
    assert told(query.rows()) == [("v", 2, "insert", 2)]


def test_rows_that_are_updated_in_all_logs(catalog):
    put(catalog, 1, 2, writer="v")
    put(catalog, 2, 3)
    before = catalog.snapshot("db").token
    query = stream(catalog, readChangeFeed="true", since=before)
    catalog.update("db", "t", {"n": 20}, "n = 2")
    rows = query.rows()
    assert told(rows) == [
        ("v", 1, "delete", 2), ("v", 1, "insert", 20),
        ("w", 1, "delete", 2), ("w", 1, "insert", 20),
    ]  # fmt: skip
    assert counted(rows) == counted(
        catalog.changes("db", "t", before, net=False).read_all().to_pylist()
    )
