"""Deleted rows stay deleted when a log is rebuilt, as far as the old log can be read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.margins import Margins
from lakelog.errors import CommitOutcomeUnknown
from lakelog.gc import execute_gc, plan_gc
from lakelog.rebuild import RebuildPlan, execute_rebuild, plan_rebuild
from lakelog.testing.doubles import FakeAmbient, FaultyStore

NO_GRACE = Margins(prune_floor_s=0.0, gc_grace_s=0.0)


def rows(catalog: Catalog) -> list[int]:
    return sorted(catalog.snapshot("db").to_arrow("t")["n"].to_pylist())


def commit(writer, change) -> None:
    with writer.transaction() as tx:
        change(tx)


@pytest.fixture
def history(catalog: Catalog) -> Catalog:
    """Files between deletes of both kinds, one file that is added again, one that is removed."""
    with catalog.writer("w", "db") as writer:
        for first in (0, 10, 20):
            commit(writer, lambda tx, n=first: tx.write("t", pa.table({"n": [*range(n, n + 5)]})))
        commit(writer, lambda tx: tx.delete("t", "n IN (1, 11, 21)", mode="predicate"))
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [1, 2, 31]})))
        commit(writer, lambda tx: tx.delete("t", "n IN (2, 12)", mode="rows"))
        commit(writer, lambda tx: tx.delete("t", "n IN (3, 13)", mode="rows"))
        path = catalog.snapshot("db").files("t", where="n = 24")["path"][0].as_py()
        commit(writer, lambda tx: tx.remove(path))
        commit(writer, lambda tx: tx.add("t", path))
        commit(writer, lambda tx: tx.delete("t", "n = 20 OR n = 31", mode="predicate"))
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [2, 20]})))
    return catalog


LEFT = [0, 1, 2, 4, 10, 14, 20, 21, 22, 23, 24]


def rebuild(catalog: Catalog) -> RebuildPlan:
    plan = plan_rebuild(catalog, "w", "db")
    again = RebuildPlan.from_json(plan.to_json())
    assert again.transactions == plan.transactions
    execute_rebuild(catalog, again)
    return plan


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_rebuild_of_an_intact_log_gives_the_same_rows(history, checkpointed) -> None:
    assert rows(history) == LEFT
    if checkpointed:
        with history.writer("w", "db") as writer:
            writer.checkpoint()
    for _ in range(2):  # what a rebuild wrote is rebuilt as well
        rebuild(history)
        assert rows(history) == LEFT
    with history.writer("w", "db") as writer:
        commit(writer, lambda tx: tx.delete("t", "n = 4", mode="rows"))
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [4]})))
    assert rows(history) == LEFT
    assert [len(part.hidden.bitmaps) for part in history.snapshot("db").file_parts("t")
            if part.hidden is not None and part.hidden.bitmaps]  # fmt: skip


def test_gc_keeps_the_bitmaps_of_a_rebuilt_log(history) -> None:
    rebuild(history)
    plan = plan_gc(history, "w", "db", margins=NO_GRACE)
    execute_gc(history, plan, margins=NO_GRACE)
    assert rows(history) == LEFT


def test_what_a_copy_of_a_process_would_have_deleted_is_not(catalog: Catalog) -> None:
    """Both have one transaction: one deletes rows and is given up, the other adds some."""
    with catalog.writer("w", "db") as writer:
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [1, 2, 3]})))
    copies = [
        Catalog(catalog.store, ambient=FakeAmbient(5).ambient).writer("w", "db", shared=True)
        for _ in range(2)
    ]
    one, other = (copy.transaction() for copy in copies)
    assert one.transaction_id == other.transaction_id
    one.delete("t", "n = 2", mode="rows")
    assert [info for info in catalog.store.list("w/db/data/") if info.key.endswith(".deletes")]
    one.discard()
    other.write("t", pa.table({"n": [4]}))
    other.commit()
    with catalog.writer("w", "db") as writer:
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [5]})))
    rebuild(catalog)
    assert rows(catalog) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_a_copy_of_a_process_would_have_deleted_by_a_predicate_is_not(
    catalog: Catalog, checkpointed
) -> None:
    """The same; of the delete there is an object of actions, and its commit never arrived."""
    with catalog.writer("w", "db") as writer:
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [1, 2, 3]})))
    faulty = FaultyStore(catalog.store, ["lost request"] * 4)
    faulty.probed = catalog.store.probed
    one, other = (
        Catalog(store, ambient=FakeAmbient(5).ambient).writer("w", "db", shared=True).transaction()
        for store in (faulty, catalog.store)
    )
    assert one.transaction_id == other.transaction_id
    one.delete("t", "n = 2", mode="predicate")
    with pytest.raises(CommitOutcomeUnknown):
        one.commit()
    assert [info for info in catalog.store.list("w/db/data/") if info.key.endswith(".actions")]
    other.write("t", pa.table({"n": [4]}))
    other.commit()
    with catalog.writer("w", "db") as writer:
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [5]})))
        if checkpointed:
            writer.checkpoint()
    plan = rebuild(catalog)
    assert rows(catalog) == [1, 2, 3, 4, 5]
    assert [len(item.files) for item in plan.transactions] == [1, 1, 1], "each in its place"


def test_the_past_of_a_rebuilt_log_has_the_deletes_of_then(catalog: Catalog) -> None:
    """A bitmap of which a later one has all rows counts until that came."""
    with catalog.writer("w", "db") as writer:
        commit(writer, lambda tx: tx.write("t", pa.table({"n": [1, 2, 3, 4]})))
        for value in (2, 3):
            commit(writer, lambda tx, n=value: tx.delete("t", f"n = {n}", mode="rows"))
    rebuild(catalog)
    past = [catalog.snapshot("db", {"w": revision}).to_arrow("t") for revision in range(3)]
    assert [sorted(one["n"].to_pylist()) for one in past] == [[1, 2, 3, 4], [1, 3, 4], [1, 4]]
