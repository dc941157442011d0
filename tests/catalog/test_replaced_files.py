"""A live data file that was replaced in place is noticed by the digest of its footer."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.data.scan import Projection, scan_files
from lakelog.errors import CorruptObject
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore

SOME = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})


def put(catalog, table=SOME):
    """One committed file; its path."""
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        return tx.write("t", table)


def alike(catalog, store):
    """A live file, and other bytes of the same size, rows and columns."""
    (path,) = put(catalog)
    body = store.get(f"w/db/{path}")
    elsewhere = MemoryStore()
    (twin_path,) = put(Catalog(elsewhere))
    twin = elsewhere.get(f"w/db/{twin_path}")
    assert len(twin) == len(body)
    assert twin != body
    return path, twin


def test_a_file_replaced_by_one_that_looks_alike_is_named(catalog, store):
    """Same size, same rows, same columns: only the digest of its footer tells."""
    path, twin = alike(catalog, store)
    store.put(f"w/db/{path}", twin)
    with pytest.raises(CorruptObject, match="another footer") as caught:
        catalog.snapshot("db").to_arrow("t").to_pylist()
    assert caught.value.key == f"w/db/{path}"


def test_the_footer_of_a_file_behind_a_checkpoint_is_known_too(catalog, store):
    path, twin = alike(catalog, store)
    catalog.writer("w", "db").checkpoint()
    assert catalog.snapshot("db").to_arrow("t").to_pylist() == SOME.to_pylist()
    store.put(f"w/db/{path}", twin)
    with pytest.raises(CorruptObject, match="another footer"):
        catalog.snapshot("db").to_arrow("t").to_pylist()


@pytest.mark.parametrize("unknown", [{"footer_digest": bytes(8)}, {"footer_bytes": 0}])
def test_a_footer_that_the_log_does_not_know_is_not_checked(catalog, store, unknown):
    path, twin = alike(catalog, store)
    store.put(f"w/db/{path}", twin)
    parts = [dataclasses.replace(p, **unknown) for p in catalog.snapshot("db").file_parts("t")]
    found = scan_files(store, parts, Projection(catalog.snapshot("db").schema("t"))).read_all()
    assert found.to_pylist() == SOME.to_pylist()


def test_a_footer_longer_than_the_file_is_none(catalog, store):
    put(catalog)
    snapshot = catalog.snapshot("db")
    parts = [dataclasses.replace(p, footer_bytes=1 << 60) for p in snapshot.file_parts("t")]
    with pytest.raises(CorruptObject, match="another footer"):
        scan_files(store, parts, Projection(snapshot.schema("t"))).read_all()


@pytest.mark.parametrize("columns", [1, 700], ids=["small footer", "footer over a block"])
def test_checking_a_footer_costs_no_request(catalog, store, columns):
    values = pa.array(list(range(1000)) * 4)
    put(catalog, pa.table({f"a column of a rather long name {'x' * 60} {n}": values
                           for n in range(columns)}))  # fmt: skip
    snapshot = catalog.snapshot("db")
    (part,) = snapshot.file_parts("t")
    counting = CountingStore(store)

    def gets(part):
        counting.reset()
        scan_files(counting, [part], Projection(snapshot.schema("t"))).read_all()
        return counting.reset()["get"]

    assert any(part.footer_digest)
    assert (part.footer_bytes > 1 << 18) == (columns > 1)
    assert gets(part) <= gets(dataclasses.replace(part, footer_digest=bytes(8)))
