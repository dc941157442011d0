"""What the tests of snapshots write and ask."""

from __future__ import annotations

from table_cases import table


def write(writer, *values, name="t"):
    with writer.transaction() as tx:
        tx.write(name, table(*values))
    return tx.commit_info


def values(snapshot, name="t"):
    return sorted(snapshot.to_arrow(name).column("a").to_pylist())
