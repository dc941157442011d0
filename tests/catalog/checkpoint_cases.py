"""What the tests of checkpoints in a store write and ask."""

from __future__ import annotations

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.testing.keys import revision_in


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def write(writer, *values, **options):
    with writer.transaction(**options) as tx:
        tx.write("t", table(*values))
    return tx.commit_info


def fill(catalog, count, **options):
    with catalog.writer("w", "db", **options) as writer:
        for value in range(count):
            write(writer, value)
        return writer


def keys(store, kind):
    """Objects of a kind, in the order of revisions."""
    found = [
        item.key
        for folder in ("w/db/transactions/", "w/db/segments/")
        for item in store.list(folder)
        if item.key.endswith(kind)
    ]
    return sorted(found, key=lambda key: 0 if kind == ".segment" else revision_in(key))


def revisions(store, kind="checkpoint"):
    return [revision_in(key) for key in keys(store, kind)]


def values(store, as_of=None):
    found = Catalog(store).snapshot("db", as_of).to_arrow("t").column("a").to_pylist()
    return sorted(found)
