"""A log of overwrites and rewrites that is lost with all its objects comes back from footers: the
same rows, for each file says what its transaction took out."""

from __future__ import annotations

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore
from lakelog.testing.doubles import FakeAmbient


def rows(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def seen(store):
    found = Catalog(store).snapshot("db").to_arrow("t").column("a").to_pylist()
    return sorted(found, key=lambda a: (a is None, a))


def test_what_was_replaced_stays_replaced():
    store, fake = MemoryStore("lost"), FakeAmbient()
    catalog = Catalog(store, ambient=fake.ambient)
    with catalog.writer("w", "db", checkpoint_every=2) as writer:
        with writer.transaction() as tx:
            tx.append("t", rows(1, 2, None))
            tx.append("t", rows(3, 4))
            tx.append("t", rows(5, 6), "p")
        with writer.transaction() as tx:
            tx.overwrite("t", rows(40, 50), "a >= 4")
        with writer.transaction() as tx:
            paths = catalog.snapshot("db").files("t").column("path").to_pylist()
            tx.rewrite("t", paths[:3], sort_by="a")
        with writer.transaction() as tx:
            tx.append("t", rows(7, 8))
            tx.overwrite("t", rows(80), "a = 8 OR a = 80")
        with writer.transaction() as tx:
            tx.overwrite("t", rows(9), "a < 3 OR a = 9")
    before = seen(store)
    assert before == [3, 7, 9, 40, 50, 80, None]
    store.delete([info.key for info in store.list("") if "/data/" not in info.key])
    plan = plan_rebuild(store, "w", "db", ambient=fake.ambient)
    execute_rebuild(store, plan, ambient=fake.ambient)
    assert seen(store) == before
    operations = Catalog(store).history("db").column("operation").to_pylist()
    assert operations == ["append", "overwrite", "rewrite", "overwrite", "overwrite"]
