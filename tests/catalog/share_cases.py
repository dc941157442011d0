"""Tasks of one transaction, run one after the other, with what real ones get: a pickled share."""

from __future__ import annotations

import pickle

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.distributed_write import Sharing, write_part
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore


def rows(*numbers):
    floats = pa.array([float(one) for one in numbers], pa.float64())
    return pa.table({"n": pa.array(numbers, pa.int64()), "x": floats})


def task(catalog, sharing, table, number, attempt=None):
    """What a task writes and tells; both ways by pickle, as between processes."""
    share = pickle.loads(pickle.dumps(sharing.share))
    data = table.cast(share.meta.schema)
    attempt = number if attempt is None else attempt
    part = write_part(catalog.store, share, iter(data.to_batches()), task=number, attempt=attempt)
    return pickle.loads(pickle.dumps(part))


def written(catalog, *tables, app=(None, None), table="t", **options):
    with catalog.writer("w", "db") as writer, writer.transaction(*app) as tx:
        sharing = Sharing(tx, table, tables[0].schema, **options)
        done = sharing.finish(
            [task(catalog, sharing, each, number) for number, each in enumerate(tables)]
        )
    return tx, done


def numbers(catalog, table="t"):
    return sorted(catalog.snapshot("db").to_arrow(table)["n"].to_pylist())


def rebuilt(catalog, ambient):
    """The same data, with a log made of nothing but the footers."""
    store = MemoryStore("rebuilt")
    for info in catalog.store.list(""):
        if "/data/" in info.key:
            store.put(info.key, catalog.store.get(info.key))
    execute_rebuild(store, plan_rebuild(store, "w", "db", ambient=ambient), ambient=ambient)
    return Catalog(store, ambient=ambient)


def described(catalog):
    """All that the log says of live files but when they came."""
    snapshot = catalog.snapshot("db")
    names = ["path", "size_bytes", "row_count", "partition"]
    files = snapshot.files("t").select(names).sort_by("path").to_pylist()
    return files, snapshot.statistics("t").to_pylist(), snapshot.schema("t")
