"""What the tests of rebuild share."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
from lakelog.catalog.format.names import LogObject, parse_log_object

BASE = "EWR/weather/"
LOG = f"{BASE}transactions/"
MIRROR = f"{BASE}mirror/transactions/"


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def commit(writer, *values: int, table: str = "hourly", partition: str = "p", **options):
    """One transaction of one file; its path and the transaction."""
    with writer.transaction(**options) as tx:
        (path,) = tx.write(table, rows(*values), partition)
    return path, tx


def replacing(writer, path: str, *values: int, done: bool = True):
    """A transaction of one file in place of another; discarded unless `done`."""
    tx = writer.transaction()
    tx.remove(path)
    (new,) = tx.write("hourly", rows(*values), "p")
    if done:
        tx.commit()
    return new, tx


def item_of(key: str) -> LogObject | None:
    """What the name of an object of the log says."""
    return parse_log_object(key.removeprefix(LOG)) if key.startswith(LOG) else None


def lose_the_log(store, folder: str = BASE) -> None:
    store.delete([info.key for info in store.list(f"{folder}transactions/")])
    store.delete([info.key for info in store.list(f"{folder}segments/")])


def kinds(plan) -> dict[str, str]:
    return {item.path: item.kind for item in plan.left_out}


def described(plan) -> dict[str, tuple]:
    return {group.name: group.rows for group in plan.groups()}


def reasons(plan) -> dict[str, str]:
    return {item.path: item.reason for item in plan.left_out}
