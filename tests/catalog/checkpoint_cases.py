"""What the tests of checkpoints in a store write and ask."""

from __future__ import annotations

from lakelog.testing.keys import revision_in
from table_cases import write


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
