"""Listings that end early, hold junk, or are drawn at random: the same is read as of all names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import MAX_REVISION
from lakelog.catalog.log.listing import Listing, plan_read, read_listing
from lakelog.errors import (
    ForkError,
    LakelogError,
    MissingTransaction,
    RevisionNotFound,
    SnapshotPruned,
)
from listing_cases import bases, checkpoint, listing, names_of, tail, transaction

# --- As far down as is needed ---------------------------------------------------------------------


def taken(names, target=None):
    """A listing taken in as far as it wants, and how many names that were."""
    found = Listing("w", "db")
    for count, name in enumerate(names, 1):
        found.take(name)
        if found.is_complete_for(target):
            return found, count
    found.end()
    return found, len(names)


def test_the_newest_base_is_enough_for_the_head():
    found, count = taken(names_of(range(1000), [960, 976, 992]))
    assert count == 7 + 1 + 1 + 1, "7 transactions, checkpoint and transaction 992, and one lower"
    assert bases(plan_read(found)) == [992]
    assert found.lowest == 992


def test_all_names_on_the_bases_own_revision_are_known():
    """A rival of it comes behind it."""
    names = names_of(range(10), [8], [transaction(8, 9)])
    found, _ = taken(names)
    with pytest.raises(ForkError):
        plan_read(found)


def test_a_gap_above_a_base_is_looked_past():
    found, _ = taken(names_of([0, 1, 2, 3, 4, 6, 7], [2, 4]))
    assert found.lowest == 0
    with pytest.raises(MissingTransaction):
        plan_read(found)


def test_junk_far_above_is_stepped_over():
    """The highest name is a trillion above the rest; nobody counts down to it."""
    names = names_of(range(100), [96], [transaction(MAX_REVISION), checkpoint(MAX_REVISION - 7)])
    found, count = taken(names)
    assert count == len(names), "the head can't be read, and that takes all names to say"
    assert found.readable() == f"0-99, {MAX_REVISION - 7}"
    with pytest.raises(MissingTransaction):
        plan_read(found)
    assert bases(plan_read(found, 99)) == [96, None]


LOGS = st.tuples(
    st.sets(st.integers(0, 12), max_size=13),
    st.sets(st.integers(0, 12), max_size=4),
    st.sets(st.sampled_from([transaction(3, 1), checkpoint(3, 1), transaction(7, 1), "junk"])),
    st.lists(st.sampled_from([2, 3]), max_size=2, unique=True),
    st.booleans(),
)


def outcome(found, target):
    """What a plan says first of all: its newest base, or the error; not what stands by."""
    try:
        plan = plan_read(found, target)
    except LakelogError as error:
        return type(error), error.key
    return plan.target, plan.bases[0], plan.tail_after(plan.bases[0])


@given(LOGS, st.one_of(st.none(), st.integers(0, 13)))
def test_a_part_of_the_listing_says_what_the_whole_says(log, target):
    transactions, checkpoints, more, others, rebuilt = log
    for incarnation in others:
        more = more | {transaction(r, 0, incarnation) for r in range(3)}
        if rebuilt:
            more = more | {checkpoint(2, 0, incarnation)}
    names = names_of(transactions, checkpoints, more)
    whole = read_listing("w", "db", names)
    part, _ = taken(names, target)
    assert part.incarnation == whole.incarnation or not names
    if whole.head >= 0:
        assert part.head == whole.head
        assert outcome(part, target) == outcome(whole, target)


# --- Names that aren't ours -----------------------------------------------------------------------


def test_junk_names_are_ignored_and_kept_apart():
    junk = [
        "README",
        "998-999999999990-9.0000abcd.transaction.tmp",
        "998-999999999991-9.0000abcd.transaction",
        "999-999999999990-9.0000abcd.transaction",
        "00000000000000000009.0000abcd.transaction",
        "backup/" + transaction(9),
        ".DS_Store",
    ]
    found = listing(range(3), more=junk)
    assert found.head == 2
    assert found.unknown == sorted(junk)
    assert tail(plan_read(found)) == [0, 1, 2]


def test_an_empty_listing():
    found = listing()
    assert found.head == -1
    assert found.readable() == "none"
    assert found.forks() == []


def test_a_name_with_a_huge_number_costs_no_time():
    found = listing(range(3), more=[transaction(1 << 39), transaction(MAX_REVISION)])
    assert found.readable() == "0-2"
    with pytest.raises(MissingTransaction) as caught:
        plan_read(found)
    assert caught.value.readable == "0-2"


def test_a_long_log_without_checkpoints_is_described_in_no_time():
    found = listing([r for r in range(200_000) if r != 150_000])
    assert found.readable() == "0-149999"


# --- Against the definition -----------------------------------------------------------------------

REVISIONS = st.sets(st.integers(0, 9), max_size=10)

LISTINGS = st.builds(
    lambda transactions, checkpoints, forks: listing(
        transactions, checkpoints, [transaction(r, 1) for r in forks]
    ),
    st.one_of(REVISIONS, st.integers(0, 9).map(lambda first: set(range(first, 10)))),
    st.sets(st.integers(0, 9), max_size=3),
    st.one_of(st.just(set()), st.just(set()), st.sets(st.integers(0, 9), max_size=1)),
)


def can_be_read(found, revision):
    """The definition: a base at or before it, every transaction from there on, and no fork."""
    return any(
        all(r in found.transactions for r in range(base + 1, revision + 1))
        and not any(base <= fork <= revision for fork in found.forks())
        for base in [-1, *found.checkpoints]
        if base <= revision
    )


@given(LISTINGS)
def test_a_revision_is_planned_if_and_only_if_it_can_be_read(found):
    good = set()
    for revision in range(11):
        try:
            plan = plan_read(found, revision)
        except LakelogError:
            assert not can_be_read(found, revision)
            continue
        assert can_be_read(found, revision)
        good.add(revision)
        assert plan.target == revision
        assert bases(plan) == sorted(bases(plan), key=lambda r: -1 if r is None else r)[::-1]
        for base in plan.bases:
            first = 0 if base is None else base.revision + 1
            after = [item.revision for item in plan.tail_after(base)]
            assert after == list(range(first, revision + 1))
    named = {
        revision
        for span in found.readable().split(", ")
        if span != "none"
        for revision in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)
    }
    assert named == good


@given(LISTINGS)
def test_the_oldest_readable_revision_is_the_first_of_an_unbroken_run_to_the_head(found):
    if found.forks() or found.head < 0:
        return
    oldest = found.head + 1
    while oldest > 0 and can_be_read(found, oldest - 1):
        oldest -= 1
    assert found.oldest_readable() == oldest


@given(LISTINGS, st.integers(0, 10))
def test_what_cannot_be_read_says_why(found, goal):
    """docs/format.md, section 4.3: below all bases it was pruned, else a transaction is missing."""
    if found.head < 0:
        return
    try:
        plan_read(found, goal)
    except RevisionNotFound:
        assert goal > found.head
    except ForkError:
        assert found.forks()[0] <= goal
    except SnapshotPruned:
        assert goal < min(found.checkpoints)
        assert 0 not in found.transactions
    except MissingTransaction as error:
        check_missing(found, goal, error)


def check_missing(found, goal, error):
    lost = max(r for r in range(goal + 1) if r not in found.transactions)
    assert int(error.key.rsplit("-", 1)[1]) == lost
    bases = [*found.checkpoints, *([-1] if 0 in found.transactions else [])]
    assert not bases or goal >= min(bases)
