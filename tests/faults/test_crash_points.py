"""Fail the Nth request, for every N: every operation that writes, broken off at each request.

After each fault a new process opens the log, reads one of the states that are legal, commits, and
reads its own commit; then the operation itself is done again, and finishes.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from functools import cache

import pytest
from faulty import DEATHS, ERRORS, FaultPlanStore
from lakelog.catalog.format.names import parse_data_file
from lakelog.errors import CommitOutcomeUnknown, LakelogError, SnapshotPruned
from lakelog.testing.crashing import Crash, CrashingStore
from operations import (
    OPERATIONS,
    REBUILDS,
    D,
    Notebook,
    W,
    catalog,
    digest_of,
    everything,
    gc,
    memory,
    past,
    prune,
    read,
    rows,
)
from seeds import base_seed

pytestmark = pytest.mark.usefixtures("parts_decoded_once")

BY_NAME = {operation.name: operation for operation in [*OPERATIONS, *REBUILDS]}
REBUILD_NAMES = {operation.name for operation in REBUILDS}
READS = frozenset({"get", "list", "head"})


@pytest.fixture(autouse=True)
def spilling(monkeypatch):
    """Every segment of a checkpoint is an object of its own: more requests to break off."""
    monkeypatch.setattr("lakelog.catalog.log.checkpoint_files.SPILL_FROM_BYTES", 0)


@cache
def begin(name):
    return BY_NAME[name].begin()


def some(items, one_in, of=""):
    """One of each so many in a row: other ones with each seed, and with each operation that they
    are of. The long tests take all."""
    chance = random.Random(f"{base_seed()} {of}")
    found = list(items)
    rows = (found[at : at + one_in] for at in range(0, len(found), one_in))
    return [chance.choice(row) for row in rows]


@cache
def reference(name):
    """An undisturbed run: states before and after, its requests, and the data files it leaves."""
    store = memory(begin(name))
    before = read(store)
    recorder = FaultPlanStore(store)
    notes = Notebook()
    BY_NAME[name].run(recorder, notes)
    assert notes.attempted == notes.acknowledged
    after = read(store)
    assert bool(notes.attempted) == BY_NAME[name].commits
    if name not in REBUILD_NAMES:
        assert (after.transactions != before.transactions) == BY_NAME[name].commits
    return before, after, recorder.requests, data_files(store)


def data_files(store):
    return {info.key for info in store.list("") if "/data/" in info.key}


def check_legal(name, store, notes):
    """A reader sees what was there, and of the attempted a beginning with all acknowledged."""
    before, after, *_ = reference(name)
    seen = read(store)
    old = before.transactions
    if BY_NAME[name].commits:
        assert seen.transactions[: len(old)] == old
        new = seen.transactions[len(old) :]
        assert len(new) == len(set(new)), "a transaction stands twice"
        assert set(notes.acknowledged) <= set(new), "an acknowledged commit is gone"
        assert list(new) == notes.attempted[: len(new)], "committed what was never attempted"
        mine = seen.live - before.live
        assert before.live <= seen.live
        assert {parse_data_file(path).transaction_id for path in mine} <= set(new)
        if len(new) == len(after.transactions) - len(old):
            assert len(seen.live) == len(after.live)
    else:
        assert seen.live == before.live
        assert (seen.revision, seen.applications) == (before.revision, before.applications)
        assert set(seen.transactions) <= set(old)
        assert seen.oldest <= after.oldest
        was = past(memory(begin(name)))
        now = past(store)
        assert now.items() <= was.items()
        assert {n for n in was if n >= seen.oldest} <= now.keys()
    return seen


_passed: set[bytes] = set()


def check_next_commit(store, seen):
    """A new owner needs no repair: it opens, commits, checkpoints, and reads its commit.

    What it does follows from what it finds: the same store is tried once.
    """
    digest = digest_of(store)
    if digest in _passed:
        return
    with catalog(store, 50).writer(W, D, checkpoint_every=1) as writer:
        writer.adopt_name()  # for a log that is not its folder's yet; nothing for all others
        with writer.transaction() as tx:
            (path,) = tx.write("hourly", rows(77))
    now = read(store)
    assert now.revision == seen.revision + 1 + seen.foreign
    assert now.live == seen.live | {path}
    values = catalog(store, 51).snapshot(D).to_arrow("hourly").column("n").to_pylist()
    assert values.count(77) == 1
    assert len(values) == sum("/hourly/" in one for one in now.live)
    _passed.add(digest)


def check_again(name, store):
    """The operation itself, done again by a new process, finishes, and changes nothing twice."""
    operation = BY_NAME[name]
    if operation.commits and not operation.exactly_once:
        return
    _, after, _, files = reference(name)
    operation.run(store, Notebook())
    seen = read(store)
    assert (seen.live, seen.applications) == (after.live, after.applications)
    assert len(seen.transactions) == len(after.transactions)
    if operation.run is prune:
        assert seen.oldest >= after.oldest
    if operation.run is gc:
        assert data_files(store) == files


def writes(name):
    return [n for n, kind in enumerate(reference(name)[2]) if kind not in READS]


@pytest.mark.parametrize(
    "one_in",
    [
        pytest.param(2, id="every second one"),
        pytest.param(1, id="each", marks=[pytest.mark.long, pytest.mark.timeout(0)]),
    ],
)
@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_a_crash_at_each_writing_request(name, one_in):
    content = begin(name)
    total = len(writes(name))
    assert total >= BY_NAME[name].least
    places = [
        (at, after)
        for at, after in itertools.product(range(total), (False, True))
        # Else the same store as before the next one, and nothing was acknowledged.
        if not after or BY_NAME[name].commits or at == total - 1
    ]
    for at, after in some(places, one_in, of=name):
        store, notes = memory(content), Notebook()
        with pytest.raises(Crash):
            BY_NAME[name].run(CrashingStore(store, at, after=after), notes)
        seen = check_legal(name, store, notes)
        check_again(name, memory(everything(store)))
        check_next_commit(store, seen)


def run_with(name, plan):
    """One run under a plan of faults; what it knows, what it raised, whether it died."""
    store, notes = memory(begin(name)), Notebook()
    faulty = FaultPlanStore(store, plan)
    error = None
    with contextlib.suppress(Crash):
        try:
            BY_NAME[name].run(faulty, notes)
        except LakelogError as raised:
            error = raised
    return store, notes, error, faulty


def check_faults(name, plan):
    """Whatever failed: the state is legal, and each commit ended as what it truly is."""
    store, notes, error, faulty = run_with(name, plan)
    seen = check_legal(name, store, notes)
    died = any(plan[n] in DEATHS for n in plan if n < len(faulty.requests))
    unacknowledged = set(notes.attempted) - set(notes.acknowledged)
    if unacknowledged and not died and not isinstance(error, CommitOutcomeUnknown):
        assert error is not None
        stands = unacknowledged & set(seen.transactions)
        assert not stands, f"{error!r} for a commit that stands, under {plan}"
    if notes.unsettled is not None and not died:  # committing again is safe, and settles it
        faulty.plan.clear()
        last = notes.unsettled
        info = last.commit()
        again = read(store)
        assert again.transactions.count(bytes.fromhex(last.transaction_id)) == 1
        assert info.transaction_id == last.transaction_id
        assert again.revision == info.revision
        seen = again
    check_next_commit(store, seen)


def one_fault(name):
    """Each request lost, or its answer, reading ones too: a commit in doubt reads."""
    number = len(reference(name)[2])
    return [{at: kind} for at, kind in itertools.product(range(number + 1), ERRORS)]


def away(name):
    """The store doesn't answer some requests in a row."""
    number = len(reference(name)[2])
    places = itertools.product(range(number), [2, 3, 4, 5, 6, 9], ERRORS)
    return [dict.fromkeys(range(at, at + length), kind) for at, length, kind in places]


def lost_and_away(name):
    """A put took effect; every later request fails, writing or reading, from one to ten."""
    places = itertools.product(writes(name), ["lost response", "exists"], range(1, 11))
    return [
        {at: first} | dict.fromkeys(range(at + 1, at + 1 + length), "lost request")
        for at, first, length in places
    ]


def lost_and_damaged(name):
    """What is read back doesn't say whose it is: that leaves a commit in doubt, not failed."""
    places = itertools.product(
        writes(name), ["damaged", "cut"], range(1, 4), (*ERRORS, "damaged", "cut")
    )
    return [
        {at: "exists", at + 1: damage} | dict.fromkeys(range(at + 2, at + 2 + length), then)
        for at, damage, length, then in places
    ]


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_one_lost_request_or_answer(name):
    """More of a commit than of all else."""
    for plan in some(one_fault(name), 3 if BY_NAME[name].commits else 8, of=name):
        check_faults(name, plan)


PLANS = [away, lost_and_away, lost_and_damaged]
COMMITS = ["first commit", "first guest", "commit", "files", "guest", "plain commit"]


@pytest.mark.parametrize("name", COMMITS)
@pytest.mark.parametrize("plans", PLANS, ids=lambda plans: plans.__name__)
def test_some_plans_of_several_faults(name, plans):
    found = plans(name)
    for plan in some(found, len(found) // 20, of=name):
        check_faults(name, plan)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
@pytest.mark.parametrize("plans", [one_fault, *PLANS], ids=lambda plans: plans.__name__)
def test_all_plans_of_several_faults(name, plans):
    for plan in plans(name):
        check_faults(name, plan)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_all_pairs_of_two_faults(name):
    """The first one an error, the second one anything: a second request after a death is none."""
    number = len(reference(name)[2])
    for at, first in itertools.product(range(number), ERRORS):
        _, _, _, faulty = run_with(name, {at: first})  # errors add requests: retries, reads back
        for then, second in itertools.product(
            range(at + 1, len(faulty.requests) + 1), (*ERRORS, "damaged", *DEATHS)
        ):
            check_faults(name, {at: first, then: second})


# --- Rebuild: the old log or the new one, or the word that it is under way; never a smaller one ---


@pytest.mark.parametrize("name", [operation.name for operation in REBUILDS])
def test_a_crash_at_each_writing_request_of_a_rebuild(name, request):
    """One request in six."""
    before, after, *_ = reference(name)
    total = len(writes(name))
    assert total >= BY_NAME[name].least
    for at, late in some(itertools.product(range(total), (False, True)), 6, of=name):
        check_rebuild(name, CrashingStore(memory(begin(name)), at, after=late), before, after)


def check_rebuild(name, dying, before, after):
    with contextlib.suppress(Crash, LakelogError):
        BY_NAME[name].run(dying, Notebook())
    store = dying.inner
    try:
        seen = read(store, warned="ignore")
    except LakelogError as error:
        sealed = "was sealed for a rebuild" in error.message
        assert sealed or name == "rebuild", "the old log could be read, and can't any more"
    else:
        assert seen.live in (before.live, after.live)
    BY_NAME[name].run(store, Notebook())
    whole = read(store)
    assert whole.live == after.live
    check_next_commit(store, whole)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [operation.name for operation in REBUILDS])
def test_all_pairs_of_two_faults_of_a_rebuild(name):
    before, after, *_ = reference(name)
    at_writes = writes(name)
    for (i, at), first in itertools.product(enumerate(at_writes), ERRORS):
        for then, second in itertools.product(at_writes[i + 1 :], (*ERRORS, *DEATHS)):
            plan = {at: first, then: second}
            check_rebuild(name, FaultPlanStore(memory(begin(name)), plan), before, after)


def test_a_pruned_past_is_told_as_such():
    """The oldest revision that a broken-off prune left is where reading begins."""
    store = memory(begin("prune"))
    BY_NAME["prune"].run(store, Notebook())
    with pytest.raises(SnapshotPruned):
        catalog(store, 3).snapshot(D, as_of={W: 0})
