"""A table of which only the columns were ever committed can be asked everything, and is empty."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pytest


@pytest.fixture(params=["file", "memory"])
def catalog(request, tmp_path):
    url = str(tmp_path) if request.param == "file" else f"memory://{tmp_path.name}"
    return lakelog.open_catalog(url)


def test_a_table_without_files_is_empty_and_has_its_columns(catalog):
    with catalog.writer("W", "db") as writer, writer.transaction() as tx:
        assert tx.write("t", pa.table({"a": pa.array([], pa.int64())})) == []
    snapshot = catalog.snapshot("db")
    assert snapshot.tables() == ["t"]
    assert snapshot.files("t").num_rows == 0
    assert snapshot.to_arrow("t").equals(pa.table({"a": pa.array([], pa.int64())}))
