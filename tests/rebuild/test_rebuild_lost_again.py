"""A log that was rebuilt loses several revisions, or one that footers prove nothing of: what it had
done again of the life before is done once more, and what it had left out stays out. Found by an
adversary's programs; the numbers of revisions are those of the rebuilt log."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.telling import tell
from lakelog.gc import execute_prune, plan_prune
from lakelog.rebuild import execute_rebuild, plan_rebuild
from lakelog.store.memory import MemoryStore

DAY_S = 86_400
ONES = pa.table({"n": [1, 10]})


class Lake:
    """A catalog of one writer, on a clock that moves with each commit."""

    def __init__(self, catalog, fake):
        self.catalog, self.fake = catalog, fake
        self.owner = self.writer()

    def writer(self, *, shared=False):
        return self.catalog.writer("w", "db", shared=shared, checkpoint_every=0)

    def reopen(self):
        self.owner.close()
        self.owner = self.writer()

    def do(self, does):
        self.fake.move(1)
        with self.owner.transaction() as tx:
            return does(tx)

    def write(self, *numbers, table="t"):
        return self.do(lambda tx: tx.write(table, pa.table({"n": [*numbers]})))

    def late(self, does, meanwhile):
        """A guest's transaction, and what is committed before it."""
        with self.writer(shared=True) as guest:
            tx = guest.transaction()
            does(tx)
            meanwhile()
            self.fake.move(1)
            tx.commit()
        self.reopen()

    def overlap(self, does, then):
        """Two transactions that were begun on one head: nothing is begun on the first."""
        both = self.owner.transaction(), self.owner.transaction()
        does(both[0])
        then(both[1])
        for tx in both:
            self.fake.move(1)
            tx.commit()

    def fail(self, does):
        """A transaction that is told of below `data/` and never committed."""
        self.fake.move(1)
        tx = self.owner.transaction()
        does(tx)
        tell(self.owner._session, tx._intent)
        tx.discard()

    def rebuild(self):
        self.fake.move(1)
        self.owner.close()
        plan = plan_rebuild(self.catalog, "w", "db", ambient=self.fake.ambient)
        execute_rebuild(self.catalog, plan, ambient=self.fake.ambient)
        self.owner = self.writer()
        return plan

    def rows(self):
        return sorted(map(str, self.catalog.snapshot("db").to_arrow("t").to_pylist()))

    def lose(self, *revisions, older):
        """Transactions of the log in use, and all its checkpoints; of the one before all."""
        names = [info.key for info in self.catalog.store.list("w/db/transactions/")]
        ours = [name for name in names if "/997-" in name]
        lost = tuple(f"-{revision}." for revision in revisions)
        gone = [n for n in ours if n.endswith("checkpoint") or any(one in n[20:] for one in lost)]
        assert sum(name.endswith(".transaction") for name in gone) == len(revisions)
        self.catalog.store.delete(gone + [name for name in names if older and name not in ours])


@pytest.fixture
def lake(catalog, fake):
    return Lake(catalog, fake)


def removed(lake):
    (path,) = lake.write(1)
    lake.write(2)
    lake.do(lambda tx: tx.remove(path))
    return 1, 2


def deleted(lake):
    lake.do(lambda tx: tx.write("t", ONES))
    lake.write(2)
    lake.do(lambda tx: tx.delete("t", "n = 1", mode="predicate"))
    return 1, 2


def columns_changed(lake):
    lake.do(lambda tx: tx.write("t", pa.table({"n": [1], "a": [1]})))
    lake.do(lambda tx: tx.evolve("t", rename={"a": "b"}))
    lake.do(lambda tx: tx.write("t", pa.table({"n": [2], "b": [2]})))
    lake.do(lambda tx: tx.evolve("t", drop=["b"]))
    return 2, 3


def written_after_a_delete(lake):
    lake.do(lambda tx: tx.write("t", ONES))
    lake.do(lambda tx: tx.delete("t", "n = 1", mode="predicate"))
    lake.write(2)
    lake.write(1)
    return 2, 3


def written_by_one_of_two(lake):
    lake.do(lambda tx: tx.write("t", ONES))
    lake.do(lambda tx: tx.delete("t", "n = 1", mode="predicate"))
    lake.overlap(
        lambda tx: tx.write("t", pa.table({"n": [1]})),
        lambda tx: tx.write("t", pa.table({"n": [3]})),
    )
    return (2,)


def begun_below_two_gaps(lake):
    lake.do(lambda tx: tx.write("t", ONES))

    def meanwhile():
        lake.write(2)
        lake.do(lambda tx: tx.delete("t", "n = 1", mode="predicate"))

    lake.late(lambda tx: tx.write("t", pa.table({"n": [1]})), meanwhile)
    return 1, 3


def deleted_above_another_gap(lake):
    lake.do(lambda tx: tx.write("t", ONES))

    def meanwhile():
        lake.write(2)
        lake.write(1)

    lake.late(lambda tx: tx.delete("t", "n = 1", mode="predicate"), meanwhile)
    return 1, 3


def added_again(lake):
    (path,) = lake.write(1)
    lake.do(lambda tx: tx.remove(path))
    lake.write(2)
    lake.do(lambda tx: tx.add("t", path))
    return 2, 3


def by_one_of_two(does):
    """What the first of two transactions does with the file of rows 1 and 10."""

    def happen(lake):
        (path,) = lake.do(lambda tx: tx.write("t", ONES))
        lake.overlap(lambda tx: does(tx, path), lambda tx: tx.write("t", pa.table({"n": [3]})))
        return (1,)

    return happen


def replace(tx, path):
    tx.remove(path)
    tx.write("t", pa.table({"n": [1, 11]}))


HISTORIES = {
    "removed": removed,
    "deleted": deleted,
    "columns changed": columns_changed,
    "written after a delete": written_after_a_delete,
    "written by one of two": written_by_one_of_two,
    "begun below two gaps": begun_below_two_gaps,
    "deleted above another gap": deleted_above_another_gap,
    "added again": added_again,
    "removed by one of two": by_one_of_two(lambda tx, path: tx.remove(path)),
    "deleted by one of two": by_one_of_two(
        lambda tx, path: tx.delete("t", "n = 1", mode="predicate")
    ),
    "replaced by one of two": by_one_of_two(replace),
}


@pytest.mark.parametrize("older", [False, True], ids=["commit-since", "older-log-lost"])
@pytest.mark.parametrize("name", HISTORIES)
def test_what_is_lost_again_is_done_again(lake, name, older):
    revisions = HISTORIES[name](lake)
    lake.write(3, table="u")
    lake.write(4, table="u")
    lake.rebuild()
    if not older:  # else the older log would be the one in use again
        lake.write(5, table="u")
    before = lake.rows()
    lake.lose(*revisions, older=older)
    plan = lake.rebuild()
    assert not plan.is_whole
    assert lake.rows() == before


@pytest.mark.parametrize("more", [False, True], ids=["middle", "end"])
def test_what_was_left_out_stays_out(lake, more):
    """A failed attempt that a whole log has ruled out, and one that would have room but for what
    footers prove of another one."""
    (path,) = lake.do(lambda tx: tx.write("t", ONES))
    if more:
        lake.write(2)
    lake.fail(lambda tx: replace(tx, path))
    lake.write(3)
    if not more:
        lake.write(4)
    lake.rebuild()
    for number in (5, 6, 7):
        lake.write(number)
    before = lake.rows()
    lake.lose(*((3, 4) if more else (1,)), older=True)
    plan = lake.rebuild()
    assert not plan.is_whole
    assert lake.rows() == before
    assert any("can have been" in why for why in plan.undecided.values())


def doubts(plan):
    return [note for note in plan.notes if note.startswith("Whether ")]


def test_rows_of_which_nothing_tells_that_they_were_deleted_stay(lake):
    """Of transactions of one head nothing tells the order, but where one names another."""
    lake.do(lambda tx: tx.write("t", ONES))
    several = [lake.owner.transaction() for _ in range(5)]
    several[0].write("t", pa.table({"n": [2]}))
    several[1].write("u", pa.table({"n": [2]}))  # the next one names it as the head
    several[2].delete("t", "n = 1", mode="predicate")
    several[3].write("t", pa.table({"n": [1]}))
    several[4].write("u", pa.table({"n": [3]}))
    for tx in several:
        lake.fake.move(1)
        tx.commit()
    lake.rebuild()
    lake.write(5)
    before = lake.rows()
    lake.lose(1, 4, older=True)
    plan = lake.rebuild()
    assert lake.rows() == before
    (note,) = doubts(plan)
    assert "came before the delete" in note


def test_what_the_log_holds_of_a_life_tells_what_stood_below(lake):
    """Of the two revisions that are lost nothing proves the first one; the file was begun below
    both, and its number says that it came after the delete, which the log still holds."""
    lake.do(lambda tx: tx.write("t", ONES))

    def meanwhile():
        lake.fake.move(1)
        with lake.owner.transaction("app", 1):
            pass
        lake.do(lambda tx: tx.delete("t", "n = 1", mode="predicate"))

    lake.late(lambda tx: tx.write("t", pa.table({"n": [1]})), meanwhile)
    lake.write(3, table="u")
    lake.rebuild()
    before = lake.rows()
    lake.lose(1, 3, older=True)
    plan = lake.rebuild()
    assert lake.rows() == before
    assert not doubts(plan)


def lose_first_life(lake, revision):
    names = [info.key for info in lake.catalog.store.list("w/db/transactions/")]
    lake.catalog.store.delete([name for name in names if f"-{revision}." in name])


def test_a_file_stays_out_though_what_took_it_out_was_begun_before_it_was_there(lake):
    """Its transaction has lost its revision in the log, which was never rebuilt."""
    lake.write(1)
    late = lake.owner.transaction()
    (path,) = lake.write(2)
    late.remove(path)
    late.write("t", pa.table({"n": [3]}))
    late.commit()
    lake.write(4)
    before = lake.rows()
    lose_first_life(lake, 2)
    plan = lake.rebuild()
    assert lake.rows() == before
    assert not doubts(plan)


def test_a_file_that_is_live_though_a_transaction_took_it_out_is_named(lake):
    """That was begun before the file came back, and has lost its revision in the log."""
    lake.write(1)
    (path,) = lake.write(2)
    late = lake.owner.transaction()
    late.remove(path)
    late.write("u", pa.table({"n": [3]}))
    lake.do(lambda tx: tx.remove(path))
    lake.do(lambda tx: tx.add("t", path))
    lake.fake.move(1)
    late.commit()
    lake.write(4)
    lose_first_life(lake, 4)
    plan = lake.rebuild()
    assert any(path in note and "took it out" in note for note in doubts(plan))


def test_below_a_checkpoint_the_state_decides(fake):
    """A log that was rebuilt and pruned, of which a later revision is lost; nothing proves what
    took out the file."""
    store = MemoryStore("test", now=lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))
    lake = Lake(Catalog(store, ambient=fake.ambient), fake)
    (path,) = lake.do(lambda tx: tx.write("t", ONES))
    lake.overlap(lambda tx: tx.remove(path), lambda tx: tx.write("t", pa.table({"n": [3]})))
    lake.rebuild()
    fake.move(2 * DAY_S)
    lake.write(4)
    lake.owner.checkpoint()
    fake.move(2 * DAY_S)
    plan = plan_prune(store, "w", "db", keep_revisions=1, ambient=fake.ambient)
    assert plan.actions
    execute_prune(store, plan, ambient=fake.ambient)
    lake.reopen()
    for number in (5, 6, 7):
        lake.write(number)
    before = lake.rows()
    names = [info.key for info in store.list("w/db/transactions/")]
    store.delete([name for name in names if "-5." in name])
    plan = lake.rebuild()
    assert not plan.is_whole
    assert lake.rows() == before
