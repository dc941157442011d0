"""What a reviewer and an adversary have found: acknowledged rows that a rebuild lost, and rows of
attempts that it brought back."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from lakelog.errors import ColumnsChanged, ConflictError, CorruptError
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.rebuild.copies import read_pairs
from rebuild_cases import item_of

W, D = "EWR", "weather"
BASE = f"{W}/{D}/"


class Lake:
    """One writer and table of numbers."""

    def __init__(self, catalog, store, fake):
        self.catalog, self.store, self.fake = catalog, store, fake
        self.writer = catalog.writer(W, D, checkpoint_every=0)

    def write(self, *values: int) -> str:
        self.fake.move(1)
        with self.writer.transaction() as tx:
            return tx.write("t", pa.table({"a": list(values)}))[0]

    def rolled_back(self, change) -> None:
        with contextlib.suppress(RuntimeError), self.writer.transaction() as tx:
            change(tx)
            raise RuntimeError("user code failed")

    def lose(self, *revisions: int) -> None:
        """Both copies of some revisions; of all, with everything beside `data/`."""
        for info in list(self.store.list(BASE)):
            item = item_of(info.key.replace("/mirror/", "/"))
            gone = item is not None and item.revision in revisions
            if gone or (not revisions and not info.key.startswith(f"{BASE}data/")):
                self.store.delete([info.key])

    def rebuild(self):
        plan = plan_rebuild(self.catalog, W, D)
        execute_rebuild(self.catalog, plan)
        return plan

    def rows(self) -> list[int]:
        return sorted(self.catalog.snapshot(D).to_arrow("t")["a"].to_pylist())


@pytest.fixture
def lake(catalog, store, fake) -> Lake:
    lake = Lake(catalog, store, fake)
    lake.write(1, 2, 3)
    return lake


@pytest.mark.parametrize("lost", [(2, 3), (3,), ()])
@pytest.mark.parametrize("mode", ["rows", "predicate"])
def test_a_delete_that_was_rolled_back_takes_no_effect(lake, mode, lost):
    """B1."""
    lake.rolled_back(lambda tx: tx.delete("t", "a = 2", mode=mode))
    for value in (4, 5, 6):
        lake.write(value)
    lake.lose(*lost)
    lake.rebuild()
    assert lake.rows() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("where", "mode"), [("a = 2", "predicate"), ("a <= 3", "auto"), ("a = 2", "rows")]
)
def test_a_delete_that_was_refused_takes_no_effect(lake, where, mode):
    """B2."""
    tx = lake.writer.transaction()
    tx.delete("t", where, mode=mode)
    with lake.writer.transaction() as other:
        if mode == "rows":
            other.remove(lake.catalog.snapshot(D).files("t")["path"][0].as_py().removeprefix(BASE))
            other.write("t", pa.table({"a": [1, 2, 3]}))
        else:
            other.evolve("t", add={"c": pa.int64()})
    with pytest.raises((ColumnsChanged, ConflictError)):
        tx.commit()
    with pytest.raises((ColumnsChanged, ConflictError)):
        tx.commit()  # and stays so
    lake.lose()
    lake.rebuild()
    assert set(lake.rows()) == {1, 2, 3}


@pytest.mark.parametrize("how", ["rolled back", "refused"])
def test_an_overwrite_that_was_not_committed_replaces_nothing(lake, how):
    """B3."""
    for value in range(4, 9):
        lake.write(value)

    def change(tx):
        tx.overwrite("t", pa.table({"a": [77]}), "a >= 2", validate=False)

    if how == "rolled back":
        lake.rolled_back(change)
    else:
        tx = lake.writer.transaction()
        change(tx)
        lake.write(9)
        with pytest.raises(ConflictError):
            tx.commit()
    expected = lake.rows()
    for value in (10, 11):
        lake.write(value)
    head = lake.catalog.snapshot(D).cut.writers[W].revision
    lake.lose(head - 1, head)
    lake.rebuild()
    assert lake.rows() == [*expected, 10, 11]


@pytest.mark.parametrize("lost", [(2,), (4, 5), (5,)])
def test_no_aborted_append_comes_back(lake, lost):
    """B4."""
    for value in (100, 101, 102):
        lake.rolled_back(lambda tx, value=value: tx.write("t", pa.table({"a": [value]})))
    for value in range(4, 9):
        lake.write(value)
    lake.lose(*lost)
    plan = lake.rebuild()
    assert lake.rows() == list(range(1, 9))
    assert len(plan.unproven) == (5 in lost)


def test_a_crashed_append_of_an_earlier_owner_does_not_come_back(lake):
    """B4: what it put stays, and a later owner has committed since."""
    tx = lake.writer.transaction()
    tx.write("t", pa.table({"a": [100]}))
    tx._sent = True  # the process is gone, and nobody is warned
    lake.writer = lake.catalog.writer(W, D, checkpoint_every=0)
    for value in range(4, 9):
        lake.write(value)
    lake.lose(2)
    plan = lake.rebuild()
    assert lake.rows() == list(range(1, 9))
    assert [one.kind for one in plan.left_out] == ["uncommitted"]


def test_many_rebuilds_of_a_log_that_is_whole_change_no_row(lake):
    """The adversary's first and second: guests, removes and restores between two rebuilds."""
    catalog = lake.catalog
    for step in range(6):
        lake.write(10 + step)
        with catalog.writer(W, D, shared=True) as guest, guest.transaction() as tx:
            tx.delete("t", f"a = {10 + step - 1}", mode=("rows", "predicate")[step % 2])
        if step % 2:
            head = catalog.snapshot(D).cut.writers[W].revision
            catalog.restore(D, to={W: head - 1}, execute=True)
        before = lake.rows()
        for _ in range(2):
            plan = lake.rebuild()
            assert plan.is_whole
            assert lake.rows() == before
        lake.writer = catalog.writer(W, D, checkpoint_every=0)


def test_a_huge_object_of_the_log_is_damage_and_not_read(lake, store, monkeypatch):
    """The adversary's seventh: readers tell of it with typed errors, and so does a plan."""
    lake.write(4)
    (key,) = [i.key for i in store.list(f"{BASE}transactions/") if item_of(i.key).revision == 1]
    monkeypatch.setattr("lakelog.rebuild.copies.MAX_OBJECT_BYTES", 10_000)
    store.delete([key])
    store.put(key, bytes(20_000))
    (pair,) = read_pairs(store, [key], {key: 20_000})
    assert "is damaged: it has 20000 bytes" in pair[0].problem
    with contextlib.suppress(CorruptError):
        lake.rows()
    lake.rebuild()
    assert lake.rows() == [1, 2, 3, 4]


@pytest.mark.parametrize("lost", [(1,), (1, 2)])
def test_a_file_of_a_lost_commit_that_the_log_restored_is_added_once(lake, lost):
    path = lake.write(4)
    with lake.writer.transaction() as tx:
        tx.remove(path)
    lake.catalog.restore(D, to={W: 1}, execute=True)
    assert lake.rows() == [1, 2, 3, 4]
    lake.lose(*lost)
    plan = lake.rebuild()
    assert lake.rows() == [1, 2, 3, 4]
    assert not [one for one in plan.left_out if one.path == path]


def test_a_file_of_a_lost_commit_that_the_log_removed_does_not_come_back(lake):
    path = lake.write(4)
    with lake.writer.transaction() as tx:
        tx.remove(path)
    lake.write(5)
    lake.lose(1)
    plan = lake.rebuild()
    assert lake.rows() == [1, 2, 3, 5]
    assert [(one.path, one.kind) for one in plan.left_out] == [(path, "removed")]


def test_an_upsert_that_empties_a_file_is_not_undone(lake):
    """The footers of its new files name the file that went."""
    lake.write(7)
    lake.fake.move(1)
    with lake.writer.transaction() as tx:
        assert tx.upsert("t", pa.table({"a": [7]}), key=["a"]).files_removed == 1
    lake.write(8)
    lake.lose()
    lake.rebuild()
    assert lake.rows() == [1, 2, 3, 7, 8]
