"""Tables with a key of which a snapshot leaves files out, since types conflict."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog import open_catalog
from lakelog.catalog.read.cut_tables import ConflictWarning


@pytest.fixture
def catalog(tmp_path):
    """Rows 1 and 2 of writer a, in a table whose key is `id`."""
    catalog = open_catalog(str(tmp_path / "lake"))
    with catalog.writer("a", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"id": [1, 2], "x": ["old", "old"]}), clock=(1, 1))
        tx.evolve("t", key=["id"])
    return catalog


def write_newer(catalog, **columns):
    with catalog.writer("b", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table(columns), clock=(2, 2), on_conflict="allow")
        tx.evolve("t", key=["id"])


def read(catalog):
    with pytest.warns(ConflictWarning):
        return catalog.snapshot("db", on_conflict="skip").to_arrow("t").to_pylist()


def test_rows_of_files_that_are_left_out_still_supersede(catalog):
    write_newer(catalog, id=[2], x=[7])
    assert read(catalog) == [{"id": 1, "x": "old"}]


def test_where_the_key_itself_conflicts_what_is_left_out_supersedes_nothing(catalog):
    write_newer(catalog, id=["2"], x=["new"])
    assert read(catalog) == [{"id": 1, "x": "old"}, {"id": 2, "x": "old"}]


def test_a_third_key_takes_nothing_from_those_that_agree(catalog):
    write_newer(catalog, id=[2], x=[7])
    with catalog.writer("c", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"id": ["z"], "x": ["of c"]}), clock=(3, 3), on_conflict="allow")
        tx.evolve("t", key=["id"])
    assert read(catalog) == [{"id": 1, "x": "old"}]
