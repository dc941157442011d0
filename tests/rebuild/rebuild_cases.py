"""What the tests of rebuild plans share."""

from __future__ import annotations

import pyarrow as pa


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def replacing(writer, path: str, *values: int, done: bool = True):
    """A transaction of one file in place of another; discarded unless `done`."""
    tx = writer.transaction()
    tx.remove(path)
    (new,) = tx.write("hourly", rows(*values), "p")
    if done:
        tx.commit()
    return new, tx


def kinds(plan) -> dict[str, str]:
    return {item.path: item.kind for item in plan.left_out}


def described(plan) -> dict[str, tuple]:
    return {group.name: group.rows for group in plan.describe()}


def reasons(plan) -> dict[str, str]:
    return {item.path: item.reason for item in plan.left_out}
