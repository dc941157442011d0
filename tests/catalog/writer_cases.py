"""What the tests of a writer write and ask."""

from __future__ import annotations

from table_cases import table


def write(writer, *values, name="t", **options):
    with writer.transaction() as tx:
        tx.write(name, table(*values), **options)
    return tx


def values(catalog, name="t", as_of=None, database="db"):
    found = catalog.snapshot(database, as_of).to_arrow(name).column("a").to_pylist()
    return sorted(found)
