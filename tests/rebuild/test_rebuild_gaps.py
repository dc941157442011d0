"""A log that was rebuilt loses one transaction, and its checkpoint: footers and objects of the life
before prove what that transaction did, and it comes after what the log still tells of before it.
Found by a reviewer's programs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.rebuild import execute_rebuild, plan_rebuild


def change(catalog, does):
    with catalog.writer("w", "db") as writer, writer.transaction() as tx:
        return does(tx)


def rebuild(catalog):
    plan = plan_rebuild(catalog, "w", "db")
    execute_rebuild(catalog, plan)
    return plan


def rows(catalog):
    return sorted(map(str, catalog.snapshot("db").to_arrow("t").to_pylist()))


def lose(catalog, *revisions):
    """Transactions of the rebuilt log, and all its checkpoints."""
    folder = "w/db/transactions/"
    names = [info.key for info in catalog.store.list(folder)]
    ours = [name for name in names if name.startswith(f"{folder}997-")]
    lost = tuple(f"-{revision}." for revision in revisions)
    gone = [n for n in ours if n.endswith("checkpoint") or any(one in n[20:] for one in lost)]
    assert any(name.endswith(".transaction") for name in gone)
    catalog.store.delete(gone)


def old_rows(tx):
    tx.overwrite("t", pa.table({"n": [1, 9], "a": [1, 9]}), "n = 1", validate=False)


CHANGES = {
    "replaced": old_rows,
    "column dropped": lambda tx: tx.evolve("t", drop=["a"]),
    "column renamed": lambda tx: tx.evolve("t", rename={"a": "c"}),
    "deleted by a predicate": lambda tx: tx.delete("t", "n = 1", mode="predicate"),
    "deleted by number": lambda tx: tx.delete("t", "n = 1", mode="rows"),
}


@pytest.mark.parametrize("revisions", [(2,), (2, 3, 4)], ids=["one", "the end"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_lost_is_done_again(catalog, name, revisions):
    data = pa.table({"n": [1, 2], "a": [1, 2]})
    change(catalog, lambda tx: tx.write("t", data))
    change(catalog, lambda tx: tx.evolve("t", add={"b": pa.int64()}, default={"b": 5}))
    change(catalog, CHANGES[name])
    change(catalog, lambda tx: tx.write("u", pa.table({"z": [3]})))
    rebuild(catalog)
    change(catalog, lambda tx: tx.write("u", pa.table({"z": [4]})))
    before = rows(catalog)
    lose(catalog, *revisions)
    plan = rebuild(catalog)
    assert not plan.is_whole
    assert rows(catalog) == before


def test_a_file_that_came_back_stays(catalog):
    with catalog.writer("w", "db") as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", pa.table({"n": [1]}))
        with writer.transaction() as tx:
            tx.remove(path)
        with writer.transaction() as tx:
            tx.add("t", path)
        with writer.transaction() as tx:
            tx.write("t", pa.table({"n": [3]}))
    rebuild(catalog)
    change(catalog, lambda tx: tx.write("t", pa.table({"n": [4]})))
    before = rows(catalog)
    lose(catalog, 2)
    rebuild(catalog)
    assert rows(catalog) == before == ["{'n': 1}", "{'n': 3}", "{'n': 4}"]
