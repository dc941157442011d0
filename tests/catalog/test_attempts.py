"""The fates of what a committer sends: which may follow which, and what is in doubt."""

from __future__ import annotations

import dataclasses
import random
from types import SimpleNamespace

import pytest
from lakelog.catalog.format.names import LogObject
from lakelog.catalog.log.outcomes import TRANSITIONS, Attempt, Attempts, Fate

ONE, TWO = b"1" * 16, b"2" * 16
WAITING, SENT, LOST, PRUNED, STANDS = Fate

# How a transaction gets from one fate to the next; WAITING is where each begins.
MOVES = {
    SENT: lambda attempts, one: attempts.sends(attempt(one)),
    WAITING: lambda attempts, one: attempts.refused([one]),
    LOST: lambda attempts, one: attempts.lost([one]),
    PRUNED: lambda attempts, one: attempts.pruned(one),
    STANDS: lambda attempts, one: attempts.stands(one),
}
PATHS = {WAITING: [], SENT: [SENT], LOST: [SENT, LOST], PRUNED: [SENT, PRUNED], STANDS: [STANDS]}


def attempt(*ids, revision=1):
    item = LogObject(1, revision, "00000000", "transaction")
    digest = b"digest of %d" % revision
    decoded = SimpleNamespace(key=f"w/db/transactions/{item.name}", digest=digest)
    return Attempt(item, b"body", decoded, ids)


def at(fate):
    attempts = Attempts()
    for move in PATHS[fate]:
        MOVES[move](attempts, ONE)
    assert attempts.fate(ONE) is fate
    return attempts


@pytest.mark.parametrize("before", Fate)
@pytest.mark.parametrize("after", Fate)
def test_only_what_the_table_allows_happens(before, after):
    attempts = at(before)
    if after in TRANSITIONS[before]:
        MOVES[after](attempts, ONE)
        assert attempts.fate(ONE) is after
    else:
        with pytest.raises(AssertionError, match="can't be"):
            MOVES[after](attempts, ONE)
        assert attempts.fate(ONE) is before, "a move that is refused changes nothing"


def test_what_was_pruned_is_never_sent_again_and_what_stands_is_never_lost():
    """Of all that the table forbids these are what keeps a transaction from standing twice, or from
    being told as failed though it stands."""
    assert SENT not in TRANSITIONS[PRUNED]
    assert TRANSITIONS[STANDS].isdisjoint({WAITING, LOST, PRUNED})
    assert all(STANDS in following for following in TRANSITIONS.values())


@pytest.mark.parametrize("fate", Fate)
def test_in_doubt_is_what_was_sent_and_not_told_of(fate):
    assert (at(fate).in_doubt(ONE) is not None) == (fate in (SENT, PRUNED))


def test_what_was_never_sent_waits_and_is_nobodys():
    attempts = Attempts()
    assert attempts.fate(ONE) is WAITING
    assert not attempts.own
    assert not attempts.has_stood


def test_sending_tells_which_were_not_in_doubt_before():
    """A refusal of the second put says nothing of the first: only the new ones are taken back."""
    attempts = at(SENT)
    assert attempts.sends(attempt(ONE, TWO, revision=2)) == [TWO]
    attempts.refused([TWO])
    assert attempts.fate(ONE) is SENT
    assert attempts.in_doubt(ONE).item.revision == 2
    assert attempts.own == {ONE, TWO}


def test_random_walks_keep_to_the_table():
    draw = random.Random(7)
    for _ in range(200):
        attempts, fate, stood = Attempts(), WAITING, False
        for _ in range(20):
            fate = draw.choice(sorted(TRANSITIONS[fate], key=lambda found: found.value))
            MOVES[fate](attempts, ONE)
            stood = stood or fate is STANDS
            assert attempts.fate(ONE) is fate
            assert attempts.has_stood == stood
            assert (attempts.in_doubt(ONE) is None) == (fate not in (SENT, PRUNED))


def test_an_attempt_is_a_value():
    one = attempt(ONE)
    assert one.key.endswith(".transaction")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.body = b""


def test_all_that_was_sent_is_remembered_whatever_becomes_of_it():
    """By its digest: what else stands under an id was sent by a copy of this process."""
    attempts = Attempts()
    assert attempts.digests(ONE) == frozenset()
    attempts.sends(attempt(ONE, TWO))
    attempts.lost([ONE, TWO])
    attempts.sends(attempt(ONE, revision=2))
    attempts.stands(ONE)
    assert attempts.digests(ONE) == {b"digest of 1", b"digest of 2"}
    assert attempts.digests(TWO) == {b"digest of 1"}
