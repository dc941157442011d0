"""What the tests of deletes in the files of all writers share."""

from __future__ import annotations

import pyarrow as pa
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins

NO_GRACE = Margins(prune_floor_s=0.0, gc_grace_s=0.0)


def write(catalog: Catalog, name: str, values: list[int]) -> str:
    rows = pa.table({"w": [name] * len(values), "n": values})
    return do(catalog, name, lambda tx: tx.write("t", rows))[0]


def do(catalog: Catalog, name: str, change, **options):
    with catalog.writer(name, "db", **options) as writer, writer.transaction() as tx:
        return change(tx)


def delete(catalog: Catalog, where: str, cut=None, by: str = "a", **how):
    cut = catalog.snapshot("db") if cut is None else cut
    return do(catalog, by, lambda tx: tx.delete("t", where, cut=cut, **how))


def rows(catalog: Catalog, as_of=None, **asked) -> list[str]:
    """As `a3`, in order."""
    found = catalog.snapshot("db", as_of).to_arrow("t", ["w", "n"], **asked).to_pylist()
    return sorted(f"{row['w']}{row['n']}" for row in found)


def left(*gone: str, more: str = "") -> list[str]:
    whole = [f"{name}{n}" for name in "ab" for n in (1, 2, 3, 4)]
    return sorted([*(one for one in whole if one not in gone), *more.split()])


def checkpoint(catalog: Catalog, *names: str) -> None:
    for name in names:
        with catalog.writer(name, "db") as writer:
            writer.checkpoint()
