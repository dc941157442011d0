"""A catalog inside the data folder of another: the outer gc leaves it alone."""

from __future__ import annotations

import time

import lakelog
import pyarrow as pa
import pytest
from lakelog.catalog.margins import Margins
from lakelog.gc.collect import execute_gc, plan_gc

ROWS = pa.table({"a": [1]})


def commit(url, writer_id, database):
    with lakelog.open_catalog(url).writer(writer_id, database) as writer, writer.transaction() as t:
        return t.write("t", ROWS)[0]


AT_ONCE = Margins(gc_grace_s=0)
# Of the inner catalog: its root below the outer one, a writer and a database.
INNER = {
    "in the place of a database": ("w", "z", "data"),
    "in the place of a writer's database": ("w/z", "data", "db"),
    "below a partition": ("w/z/data/p", "v", "db"),
}


@pytest.mark.parametrize("where", INNER)
@pytest.mark.parametrize("outer_first", [False, True])
def test_the_outer_gc_leaves_the_inner_catalog_alone(tmp_path, where, outer_first):
    below, writer_id, database = INNER[where]
    outer, inner = str(tmp_path), str(tmp_path / below)
    if outer_first:
        commit(outer, "w", "z")
        if where != "in the place of a database":  # the others are refused
            with pytest.raises(lakelog.errors.NestedCatalog):
                commit(inner, writer_id, database)
            return
    commit(inner, writer_id, database)
    commit(outer, "w", "z")
    name = f"w/z/data/p/t/1-{7:032x}-0.parquet"
    stray = tmp_path / name
    stray.parent.mkdir(parents=True, exist_ok=True)
    time.sleep(0.02)  # file systems tell times to some milliseconds: it came after the log began
    stray.write_bytes(b"PAR1")
    catalog = lakelog.open_catalog(outer)
    plan = plan_gc(catalog, "w", "z", margins=AT_ONCE)
    # Where all of `data/` is the inner log's folder, nobody can tell whose the stray file is.
    strays = [] if where == "in the place of a database" else [name]
    assert [action.key for action in plan.actions] == strays
    assert any("of a log that lies below this data folder" in kept.reason for kept in plan.kept)
    assert execute_gc(catalog, plan, margins=AT_ONCE).deleted_objects == len(strays)
    found = lakelog.open_catalog(inner).snapshot(database).to_arrow("t")
    assert found.num_rows == 1


@pytest.mark.parametrize("outer_first", [False, True])
def test_the_inner_gc_takes_nothing_of_the_outer_catalog(tmp_path, outer_first):
    """The outer one's partition `data` is the data folder of the inner one's database `data`."""
    outer, inner = str(tmp_path), str(tmp_path / "w")

    def begin_outer():
        with lakelog.open_catalog(outer).writer("w", "z") as writer, writer.transaction() as t:
            t.write("t", ROWS, partition="data")

    first, second = begin_outer, lambda: commit(inner, "z", "data")
    for begin in (first, second) if outer_first else (second, first):
        begin()
    with pytest.raises(lakelog.errors.NestedCatalog, match="also the data folder of a log"):
        plan_gc(lakelog.open_catalog(inner), "z", "data")
    assert lakelog.open_catalog(outer).snapshot("z").to_arrow("t").num_rows == 1
