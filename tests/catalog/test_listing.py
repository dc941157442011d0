"""From names to what is read: gaps, forks, pruned logs, checkpoints alone, and junk."""

from __future__ import annotations

import pytest
from lakelog.catalog.log.listing import Listing, plan_read
from lakelog.errors import (
    ForkError,
    MissingTransaction,
    RevisionNotFound,
    SnapshotPruned,
)
from listing_cases import bases, checkpoint, listing, names_of, tail, transaction

# --- Plans ----------------------------------------------------------------------------------------


def test_a_log_without_checkpoints_is_read_from_the_start():
    plan = plan_read(listing(range(4)))
    assert (plan.target, bases(plan), tail(plan)) == (3, [None], [0, 1, 2, 3])


def test_the_newest_checkpoint_comes_first_and_the_others_stand_by():
    plan = plan_read(listing(range(8), [2, 5]))
    assert bases(plan) == [5, 2, None]
    assert [item.revision for item in plan.tail_after(plan.bases[0])] == [6, 7]
    assert [item.revision for item in plan.tail_after(plan.bases[1])] == [3, 4, 5, 6, 7]
    assert [item.revision for item in plan.tail_after(None)] == list(range(8))


def test_a_revision_of_the_past_uses_no_later_checkpoint():
    plan = plan_read(listing(range(8), [2, 5]), 4)
    assert (plan.target, bases(plan), tail(plan)) == (4, [2, None], [0, 1, 2, 3, 4])


def test_a_checkpoint_alone_is_enough():
    plan = plan_read(listing([], [7]))
    assert (plan.target, bases(plan), tail(plan)) == (7, [7], [])


def test_a_pruned_log_is_read_from_its_oldest_checkpoint():
    found = listing(range(5, 9), [4])
    plan = plan_read(found)
    assert (bases(plan), tail(plan)) == ([4], [5, 6, 7, 8])
    assert found.oldest_readable() == 4


def test_a_pruned_revision_says_so_and_what_is_left():
    for goal in range(4):
        with pytest.raises(SnapshotPruned, match=f"Revision {goal} ") as caught:
            plan_read(listing(range(5, 9), [4]), goal)
        assert "4" in caught.value.hint
        assert caught.value.exit_code == 3


def test_below_all_bases_is_pruned_also_where_something_above_was_lost():
    found = listing([2, 3, 5, 6], [4, 9])
    for goal in range(4):
        with pytest.raises(SnapshotPruned):
            plan_read(found, goal)
    with pytest.raises(MissingTransaction) as caught:
        plan_read(found, 8)
    assert caught.value.key.endswith("-8")


@pytest.mark.parametrize("goal", [9, 100, -1])
def test_a_revision_that_never_was_is_not_found(goal):
    with pytest.raises(RevisionNotFound) as caught:
        plan_read(listing(range(5, 9), [4]), goal)
    assert "8" in caught.value.hint


def test_a_gap_names_the_lost_key_and_what_stays_readable():
    with pytest.raises(MissingTransaction) as caught:
        plan_read(listing([0, 1, 2, 4, 5]))
    error = caught.value
    assert error.key == "w/db/transactions/998-999999999996-3"
    assert error.readable == "0-2"
    assert "0-2" in str(error)
    assert error.exit_code == 5


def test_a_gap_behind_a_checkpoint_does_no_harm():
    found = listing([0, 1, 3, 4, 5, 6], [4])
    assert bases(plan_read(found)) == [4]
    assert found.readable() == "0-1, 4-6"
    with pytest.raises(MissingTransaction):
        plan_read(found, 3)


def test_a_gap_at_the_checkpoints_own_revision_does_no_harm():
    assert bases(plan_read(listing([3, 5], [4]))) == [4]


def test_revisions_before_a_gap_can_be_read():
    assert tail(plan_read(listing([0, 1, 2, 4, 5]), 2)) == [0, 1, 2]


# --- Forks ----------------------------------------------------------------------------------------


def test_a_fork_by_transaction_names_both_keys():
    found = listing(range(4), more=[transaction(2, 1)])
    assert found.forks() == [2]
    with pytest.raises(ForkError) as caught:
        plan_read(found)
    folder = "w/db/transactions/"
    assert caught.value.keys == (folder + transaction(2), folder + transaction(2, 1))
    for key in caught.value.keys:
        assert key in str(caught.value)


def test_a_fork_by_checkpoint_names_both_keys():
    found = listing(range(4), more=[checkpoint(2, 1)])
    assert found.forks() == [2]
    with pytest.raises(ForkError) as caught:
        plan_read(found)
    folder = "w/db/transactions/"
    assert caught.value.keys == (folder + transaction(2), folder + checkpoint(2, 1))


def test_two_checkpoints_of_one_revision_are_a_fork():
    found = listing([3], [2], [checkpoint(2, 1)])
    with pytest.raises(ForkError):
        plan_read(found)


def test_a_checkpoint_beside_its_own_transaction_is_none():
    assert listing(range(4), [0, 1, 2, 3]).forks() == []


def test_revisions_before_a_fork_can_be_read():
    found = listing(range(4), more=[transaction(2, 1)])
    assert tail(plan_read(found, 1)) == [0, 1]
    assert found.readable() == "0-1"


def test_a_fork_below_the_base_does_not_matter():
    found = listing(range(8), [5], [transaction(2, 1)])
    plan = plan_read(found)
    assert (bases(plan), tail(plan), plan.fork) == ([5], [6, 7], 2)
    assert found.readable() == "0-1, 5-7"
    for goal in (2, 3, 4):
        with pytest.raises(ForkError):
            plan_read(found, goal)


def test_a_fork_on_the_bases_own_revision_matters():
    for twin in (transaction(5, 1), checkpoint(5, 1)):
        with pytest.raises(ForkError):
            plan_read(listing(range(8), [5], [twin]))
        with pytest.raises(ForkError):
            plan_read(listing(range(8), [5, 2], [twin]), 5)


def test_a_fork_above_the_target_does_not_matter():
    plan = plan_read(listing(range(8), [1, 3], [transaction(6, 1)]), 4)
    assert (bases(plan), plan.fork) == ([3, 1, None], -1)


def test_only_the_bases_above_a_fork_stand_by():
    plan = plan_read(listing(range(10), [2, 5, 7], [transaction(4, 1)]))
    assert (bases(plan), tail(plan), plan.fork) == ([7, 5], [6, 7, 8, 9], 4)


def test_a_fork_where_no_base_serves_is_not_what_is_wrong():
    with pytest.raises(MissingTransaction):
        plan_read(listing([0, 1, 3, 4], more=[transaction(1, 1)]), 4)
    with pytest.raises(SnapshotPruned):
        plan_read(listing([4, 5, 6], [6], [transaction(5, 1)]), 5)


# --- Incarnations ---------------------------------------------------------------------------------


def test_the_highest_incarnation_counts():
    names = [
        *(transaction(r) for r in range(5)), checkpoint(3),
        *(transaction(r, 0, 2) for r in range(3)), checkpoint(2, 0, 2),
    ]  # fmt: skip
    found = listing(more=names)
    assert (found.incarnation, found.head) == (2, 2)
    assert bases(plan_read(found)) == [2, None]
    assert {item.incarnation for item in found.others} == {1}
    assert found.lower() == [1]
    assert found.forks() == [], "other incarnations are no part of the log"


def test_an_incarnation_whose_checkpoint_is_lost_counts_all_the_same():
    """Its loss is never a silent fall to an older incarnation."""
    found = listing(range(5), [3], [transaction(r, 0, 2) for r in range(6, 9)])
    assert (found.incarnation, found.head) == (2, 8)
    assert found.lower() == [1]
    with pytest.raises(MissingTransaction):
        plan_read(found)


def test_the_transactions_of_an_incarnation_may_stand_above_its_checkpoint():
    found = listing(more=[*(transaction(r, 0, 2) for r in range(6)), checkpoint(1, 0, 2)])
    assert (found.incarnation, found.head) == (2, 5)
    assert sorted(found.transactions) == list(range(6))


class Counted(dict):
    """Counts how often somebody asks whether a key is there."""

    asked = 0

    def __contains__(self, key):
        self.asked += 1
        return super().__contains__(key)


@pytest.mark.parametrize("checkpoints", [(), (10,)], ids=["none", "one, below a gap"])
def test_a_long_log_without_checkpoints_is_listed_in_one_pass(checkpoints):
    found = Listing("w", "db")
    found.transactions = Counted()
    names = names_of([*range(50, 3000)], checkpoints)
    for name in names:
        found.take(name)
        assert not found.is_complete_for(None)
    assert found.transactions.asked < 3 * len(names)


def test_a_revision_whose_names_were_not_all_listed_is_no_base():
    """There may be a fork on it, in the names to come."""
    found = Listing("w", "db")
    for name in names_of([1, 2], [1, 2], [transaction(0), transaction(0, 1)]):
        found.take(name)
        if found.is_complete_for(1):
            break
    assert found.lowest == 1
    assert bases(plan_read(found, 1)) == [1]
