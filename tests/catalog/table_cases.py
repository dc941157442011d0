"""The small tables that tests of the catalog write and read back: one column of numbers."""

from __future__ import annotations

import pyarrow as pa
from lakelog.catalog.catalog import Catalog


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def write(writer, *values, **options):
    """One transaction of one file of table `t`; what the log says of the commit."""
    with writer.transaction(**options) as tx:
        tx.write("t", table(*values))
    return tx.commit_info


def values(store, as_of=None, database="db"):
    """All values of table `t`, read by a catalog of its own."""
    found = Catalog(store).snapshot(database, as_of).to_arrow("t").column("a").to_pylist()
    return sorted(found)
