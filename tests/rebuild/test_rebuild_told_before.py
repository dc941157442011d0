"""What a rebuild did not know, the next one doesn't take from it: the order that the first one
guessed tells nothing of the life before. Found by an adversary's programs. The rows that are
compared are those that everybody read between the two."""

from __future__ import annotations

import pytest
from moving_lake import Lake, table


@pytest.fixture
def lake(catalog, fake):
    return Lake(catalog, fake)


def doubts(plan):
    return [note for note in plan.notes if note.startswith("Whether ")]


def delete(tx, mode="predicate"):
    tx.delete("t", "n = 1", mode=mode)


def a_row_written_above_a_delete(lake):
    """Of three that were begun on one head: nothing tells which of them came first."""
    (path,) = lake.write(1, 10)
    late, first, last = (lake.owner.transaction() for _ in range(3))
    late.write("t", table(1))
    lake.fake.move(1)
    delete(first)
    lake.commit(first, late)
    last.write("t", table(30))
    lake.commit(last)
    return path


def a_file_added_again(lake):
    """By one of two that were begun on one head, and rows of it are deleted after that."""
    (path,) = lake.write(1, 2, 3)
    lake.do(lambda tx: tx.remove(path))
    again, other = lake.owner.transaction(), lake.owner.transaction()
    again.add("t", path)
    other.write("t", table(50))
    lake.commit(again, other)
    lake.do(lambda tx: delete(tx, "rows"))


def what_was_deleted_from_is_gone(lake):
    """The only file that surely was there before the delete."""
    path = a_row_written_above_a_delete(lake)
    lake.do(lambda tx: tx.remove(path))


HISTORIES = {
    "delete lost": (a_row_written_above_a_delete, (2,)),
    "write lost": (a_row_written_above_a_delete, (1,)),
    "both lost": (a_row_written_above_a_delete, (1, 2)),
    "what it may have been of lost": (what_was_deleted_from_is_gone, (1,)),
    "rows by number": (a_file_added_again, (1,)),
    "rows by number, of an add that is lost": (a_file_added_again, (2,)),
    "rows by number, lost": (a_file_added_again, (3,)),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_what_a_rebuild_kept_in_doubt_the_next_one_keeps(lake, name):
    happen, revisions = HISTORIES[name]
    happen(lake)
    lake.write(60)
    lake.write(70)
    lake.lose()
    assert doubts(lake.rebuild())
    lake.write(80)
    before = lake.rows()
    assert 1 in before
    lake.lose(*revisions)
    plan = lake.rebuild()
    assert not plan.is_whole
    assert lake.rows() == before


@pytest.mark.parametrize("mode", ["predicate", "rows"])
@pytest.mark.parametrize("revisions", [(1,), (3,), (3, 4)], ids=str)
def test_what_a_rebuild_left_out_stays_out_though_it_is_proven(lake, revisions, mode):
    """By going back: footers of the life that was left prove all of it but the last commit."""
    lake.write(1, 10)
    (path,) = lake.write(2)
    lake.write(22)
    lake.rebuild()
    lake.do(lambda tx: delete(tx, mode))
    lake.do(lambda tx: (tx.remove(path), tx.write("t", table(3))))
    lake.write(4)
    left_out = lake.rebuild(back_to=1).undecided
    for number in (80, 90, 91):
        lake.write(number)
    before = lake.rows()
    assert before == [1, 2, 10, 22, 80, 90, 91]
    lake.lose(*revisions)
    plan = lake.rebuild()
    assert not plan.is_whole
    assert lake.rows() == before
    assert plan.undecided.keys() >= left_out.keys()
    (note,) = (note for note in plan.notes if note.startswith("Proven, and left out"))
    names = {path.split("/")[-1].split("-")[1] for path in left_out}
    assert sum(name in note for name in names) == 2


def two_at_once(lake):
    """Two that were begun on one head; the second wrote first."""
    lake.write(5)
    one, two = lake.owner.transaction(), lake.owner.transaction()
    two.write("t", table(1))
    lake.fake.move(1)
    one.write("t", table(1, 2))
    return one, two


def delete_at(lake, cut):
    lake.do(lambda tx: tx.delete("t", "n = 1", cut=cut))
    lake.write(60)
    lake.write(61)
    return lake.rows()


def test_what_a_delete_of_a_cut_names_was_committed_there(lake):
    """Nothing else proves it, nor tells that the other one came after it."""
    one, two = two_at_once(lake)
    lake.commit(one)
    cut = lake.catalog.snapshot("db")
    lake.commit(two)
    before = delete_at(lake, cut)
    assert before == [1, 2, 5, 60, 61]
    lake.lose(1, 2)
    plan = lake.rebuild()
    assert lake.rows() == before
    assert not doubts(plan)


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_file_that_may_have_come_after_a_cut_is_named(lake, name):
    """The cut is that of the later of two, and nothing tells where the other one was."""
    one, two = two_at_once(lake)
    lake.commit(*((one, two) if name == "two" else (two, one)))
    before = delete_at(lake, lake.catalog.snapshot("db"))
    assert before == [2, 5, 60, 61]
    lake.lose(1, 2)
    plan = lake.rebuild()
    (note,) = doubts(plan)
    assert "came before transaction" in note
    assert set(before) <= set(lake.rows())
