"""What the tests of committing share."""

from __future__ import annotations

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.testing.keys import log_keys, revision_in

LIMIT_S = DEFAULT_MARGINS.idle_limit_s


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def write(writer, *values, **options):
    with writer.transaction(**options) as tx:
        tx.write("t", table(*values))
    return tx.commit_info


def values(store, as_of=None):
    found = Catalog(store).snapshot("db", as_of).to_arrow("t").column("a").to_pylist()
    return sorted(found)


def transactions(store):
    return log_keys(store, "transaction")


def prune_to_checkpoint(store, revision):
    """What prune leaves: the checkpoint of a revision, and what came after it."""
    store.delete([key for key in log_keys(store) if revision_in(key) < revision])
