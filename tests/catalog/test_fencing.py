"""Fencing where prune has taken what an owner never read."""

from __future__ import annotations

import datetime as dt
import traceback

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.log.outcomes import fencing_reason
from lakelog.catalog.log.state import State
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import LogReader
from lakelog.errors import FencedError
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.store.memory import MemoryStore
from lakelog.testing.counting import CountingStore
from table_cases import write

FLOOR_S = DEFAULT_MARGINS.prune_floor_s


@pytest.fixture
def store(fake):
    """Stamps objects by the same clock, so that they can grow old."""
    return MemoryStore("fencing", now=lambda: dt.datetime.fromtimestamp(fake.wall_us / 1e6, dt.UTC))


@pytest.fixture
def catalog(store, fake):
    return Catalog(store, ambient=fake.ambient)


def prune(catalog, store, fake):
    """Down to the newest checkpoint, once it is old enough."""
    fake.move(FLOOR_S + 1)
    plan = plan_prune(store, "w", "db", keep_revisions=1, ambient=fake.ambient)
    execute_prune(store, plan, ambient=fake.ambient)


def test_an_owner_whose_rivals_commit_was_pruned_unseen_is_fenced(catalog, store, fake):
    """Only a guest's commits of the common epoch are left; they alone would fence nobody."""
    sleeper, rival = catalog.writer("w", "db"), catalog.writer("w", "db")
    assert sleeper.epoch == rival.epoch
    write(rival, 0)
    for value in (1, 2):  # the second guest's checkpoint begins its history at the first's
        guest = catalog.writer("w", "db", shared=True)
        write(guest, value)
        guest.checkpoint()
        fake.move(FLOOR_S + 1)
        write(guest, value + 10)
        prune(catalog, store, fake)
    history = catalog.history("db")
    assert history.column("guest").to_pylist() == [True] * history.num_rows
    with pytest.raises(FencedError, match="pruned before this one read them"):
        write(sleeper, 3)
    with pytest.raises(FencedError):
        write(sleeper, 4)
    assert write(rival, 5).revision == history.num_rows + history["revision"][0].as_py()


def test_an_owner_that_has_committed_goes_on_over_a_gap(catalog, store, fake):
    """Its epoch is its own: whoever else had it would have been fenced by that commit."""
    owner = catalog.writer("w", "db")
    write(owner, 0)
    for value in (1, 2):
        guest = catalog.writer("w", "db", shared=True)
        write(guest, value)
        guest.checkpoint()
        fake.move(FLOOR_S + 1)
        write(guest, value + 10)
        prune(catalog, store, fake)
    assert catalog.history("db").column("revision")[0].as_py() > 1
    assert write(owner, 3).revision == LogReader(store, "w", "db").load().revision


def test_each_call_of_a_fenced_writer_gets_an_error_of_its_own_and_nothing_is_sent(
    catalog, store, fake
):
    """One error that is raised again and again gathers tracebacks, and what their frames hold."""
    counting = CountingStore(store)
    old = Catalog(counting, ambient=fake.ambient).writer("w", "db")
    write(old, 0)
    begun = old.transaction()
    write(catalog.writer("w", "db"), 1)
    with pytest.raises(FencedError) as first:
        write(old, 2)
    counting.reset()
    errors = []
    for _ in range(5):
        for refused in (old.transaction, lambda: begun.write("t", pa.table({"a": [3]}))):
            with pytest.raises(FencedError) as caught:
                refused()
            errors.append(caught.value)
    assert counting.reset()["put"] == 0, "no orphans either"
    assert len({id(error) for error in (first.value, *errors)}) == 11
    depths = [len(list(traceback.walk_tb(error.__traceback__))) for error in errors]
    assert max(depths) == max(depths[:2])


def test_the_error_says_who_and_why(catalog):
    one, two = catalog.writer("w", "db"), catalog.writer("w", "db")
    write(two, 2)
    with pytest.raises(FencedError, match="in this process or another") as caught:
        write(one, 1)
    assert "under epoch 1, this one's too" in caught.value.message
    write(catalog.writer("w", "db"), 3)
    with pytest.raises(FencedError, match="under epoch 2, this one has 1") as caught:
        write(two, 4)
    assert "shared=True" in caught.value.hint


ME, OTHER = b"m" * 16, b"o" * 16


def log(*rows):
    """A log of (epoch, guest, transaction id) from revision 5 on."""
    state = State("w", "db", revision=4 + len(rows), epoch=rows[-1][0] if rows else 0)
    filler = dict.fromkeys(("files_added", "files_removed", "rows_added", "bytes_added"), 0)
    state.history.rows += [
        {
            "revision": 5 + place, "uuid": b"u" * 16, "digest": b"d" * 32,
            "committed_at": place + 1, "epoch": epoch, "guest": guest, "operation": "append",
            "transaction_ids": [transaction_id], "summary_keys": [], "summary_values": [], **filler,
        }
        for place, (epoch, guest, transaction_id) in enumerate(rows)
    ]  # fmt: skip
    return state


@pytest.mark.parametrize(
    ("rows", "before", "committed", "fenced"),
    [
        ([(1, False, OTHER)], 4, False, False),  # a predecessor's
        ([(2, False, OTHER)], 4, False, True),  # a rival of the same epoch
        ([(2, True, OTHER)], 4, False, False),  # its guest, seen from the first on
        ([(3, False, OTHER)], 4, True, True),  # a successor
        ([(3, True, OTHER)], 4, True, True),  # a successor's guest
        ([(2, False, ME)], 4, False, False),  # one's own
        ([(2, True, OTHER)], 3, False, True),  # revision 4 is gone: whose was it?
        ([(2, True, OTHER)], 3, True, False),  # gone, but the epoch is known to be one's own
        ([(1, False, OTHER)], 3, False, False),  # gone, and of a lower epoch as the head is
        ([(2, False, OTHER)], 5, False, False),  # judged before
    ],
)
def test_the_rule_by_itself(rows, before, committed, fenced):
    why = fencing_reason(log(*rows), before, epoch=2, own={ME}, committed=committed)
    assert (why is not None) == fenced
