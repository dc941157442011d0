"""Maintenance from Python: of every writer of a database, with nothing but public names."""

from __future__ import annotations

import subprocess
import sys

import lakelog
import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins

NOW = Margins(prune_floor_s=0.0, gc_grace_s=0.0)
MAINTAIN = """
import sys, lakelog
catalog = lakelog.open_catalog(sys.argv[1])
for name in catalog.writers("db"):
    plan = lakelog.gc.plan_prune(catalog, name, "db", keep_revisions=1)
    lakelog.gc.execute_prune(catalog, plan)
    lakelog.gc.execute_gc(catalog, lakelog.gc.plan_gc(catalog, name, "db"))
print(lakelog.rebuild.plan_rebuild(catalog, "B", "db").effect.number)
"""


def fill(catalog, *writers):
    """Two commits a writer, of which the second replaces the file of the first; then a crash."""
    for name in writers:
        with catalog.writer(name, "db") as writer:
            with writer.transaction() as tx:
                (path,) = tx.write("t", pa.table({"a": [1]}))
            with writer.transaction() as tx:
                tx.remove(path)
                tx.write("t", pa.table({"a": [2]}))
            writer.checkpoint()
            writer.transaction().write("t", pa.table({"a": [3]}))


def test_prune_and_gc_of_every_writer(tmp_path):
    store = lakelog.open_catalog(tmp_path).store
    fill(Catalog(store), "A", "B")
    catalog = Catalog(store, margins=NOW)
    for name in catalog.writers("db"):
        pruned = lakelog.gc.execute_prune(
            catalog, lakelog.gc.plan_prune(catalog, name, "db", keep_revisions=1)
        )
        assert pruned.deleted_objects == 2, "revision 0 in both copies"
        found = lakelog.gc.execute_gc(catalog, lakelog.gc.plan_gc(catalog, name, "db"))
        assert found.deleted_objects == 2, "what was replaced, and what was never committed"
        left = [info.key for info in store.list(f"{name}/db/data/")]
        (row,) = [row for row in catalog.snapshot("db").files("t").to_pylist()
                  if row["writer"] == name]  # fmt: skip
        assert left == [f"{name}/db/{row['path']}"]
    assert catalog.snapshot("db").to_arrow("t").to_pylist() == [{"a": 2}] * 2


def test_a_process_that_imports_lakelog_alone_can_maintain(tmp_path):
    fill(lakelog.open_catalog(tmp_path), "A", "B")
    found = subprocess.run(
        [sys.executable, "-c", MAINTAIN, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) > 0
    assert lakelog.open_catalog(tmp_path).snapshot("db").to_arrow("t").num_rows == 2
