"""A process that there is twice: its machine was cloned while it ran, or set back to a snapshot of
its memory. Both have the same transactions under way, and go on differently."""

from __future__ import annotations

import os
from unittest import mock

import pytest
from commit_cases import LIMIT_S, prune_to_checkpoint
from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit import session
from lakelog.errors import (
    CommitOutcomeUnknown,
    FencedError,
    ObjectExists,
    ProcessDoubled,
)
from lakelog.testing.doubles import FakeAmbient, FaultyStore
from lakelog.testing.keys import log_keys
from table_cases import table, values, write


@pytest.fixture
def paths(catalog):
    """Files of the values 0 to 3, each of a commit of its own."""
    found = []
    with catalog.writer("w", "db", checkpoint_every=0) as writer:
        for value in range(4):
            with writer.transaction() as tx:
                found += tx.write("t", table(value))
    return found


def twins(store, *, shared, stores=None):
    """Two copies of one process, each with its copy of one transaction."""
    fakes = [FakeAmbient(5), FakeAmbient(5)]
    fakes[1].move(3)
    faces = stores or [store, store]
    writers = [
        Catalog(face, ambient=fake.ambient).writer("w", "db", shared=shared, checkpoint_every=0)
        for face, fake in zip(faces, fakes, strict=True)
    ]
    begun = [writer.transaction() for writer in writers]
    assert begun[0].transaction_id == begun[1].transaction_id
    return writers, begun


@pytest.fixture
def elsewhere(catalog, paths):
    """A file of the value 9 of another table: what a transaction says of that table for a rebuild
    lies in another folder."""
    with (
        catalog.writer("w", "db", shared=True, checkpoint_every=0) as writer,
        writer.transaction() as tx,
    ):
        (path,) = tx.write("u", table(9))
    return path


@pytest.mark.parametrize("of_one_table", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_of_a_doubled_process_one_is_acknowledged(store, paths, elsewhere, shared, of_one_table):
    writers, (one, other) = twins(store, shared=shared)
    one.remove(paths[0])
    other.remove(paths[1] if of_one_table else elsewhere)
    assert one.commit().revision == 5
    for _ in range(2):
        with pytest.raises(ProcessDoubled, match="was doubled") as caught:
            other.commit()
        assert caught.value.exit_code == 4
    assert values(store) == [1, 2, 3], "as was acknowledged"
    keys = log_keys(store)
    with pytest.raises(FencedError, match="was doubled"):
        write(writers[1], 9)
    assert log_keys(store) == keys
    assert write(writers[0], 4)


@pytest.mark.parametrize("shared", [False, True])
def test_copies_that_ask_for_the_same_commit_once(store, paths, shared):
    """What only the twin has sent is not this one's success, whatever it holds."""
    writers, both = twins(store, shared=shared)
    for tx in both:
        tx.remove(paths[0])
    first = both[0].commit()
    with pytest.raises(ProcessDoubled):
        both[1].commit()
    assert both[0].commit() == first
    assert values(store) == [1, 2, 3]
    assert write(writers[0], 4)


def test_copies_write_no_two_files_of_one_name(store, paths):
    _, (one, other) = twins(store, shared=True)
    one.write("t", table(8))
    with pytest.raises(ObjectExists, match="cloned"):
        other.write("t", table(9))


def test_a_copy_that_got_no_answer_is_not_told_of_the_others_commit(store, paths, elsewhere):
    """Its own put never arrived; what stands under its id is the other's."""
    faulty = FaultyStore(store, ["lost request"] * 4)
    faulty.probed = store.probed
    _, (one, other) = twins(store, shared=True, stores=[store, faulty])
    other.remove(elsewhere)
    with pytest.raises(CommitOutcomeUnknown):
        other.commit()
    one.remove(paths[0])
    assert one.commit()
    with pytest.raises(ProcessDoubled):
        other.commit()


def test_a_twins_commit_that_was_pruned_is_not_ones_own(store, paths, elsewhere, catalog):
    faulty = FaultyStore(store, ["lost request"] * 4)
    faulty.probed = store.probed
    writers, (one, other) = twins(store, shared=True, stores=[store, faulty])
    other.remove(elsewhere)
    with pytest.raises(CommitOutcomeUnknown):
        other.commit()
    one.remove(paths[0])
    assert one.commit()
    writer = catalog.writer("w", "db", shared=True, checkpoint_every=0)
    write(writer, 5)
    prune_to_checkpoint(store, writer.checkpoint().revision)
    writers[1]._session._ambient.sleep_s(LIMIT_S + 1)
    for _ in range(2):
        with pytest.raises(ProcessDoubled):
            other.commit()


# --- Random ids -----------------------------------------------------------------------------------


def test_ids_are_drawn_when_they_are_used():
    """From the system, which learns of a clone, and from nothing that a process keeps."""
    with mock.patch.object(os, "urandom", side_effect=lambda count: b"\7" * count) as drawn:
        first = SYSTEM.new_id()
        assert SYSTEM.new_id() == first
    assert drawn.call_count == 2
    assert SYSTEM.new_id() != first


def test_two_copies_salt_their_checkpoints_differently(store, paths):
    """Each salt is drawn when it is used: names of segments that one of them has put, and that
    prune then took, don't come again."""
    salts = []
    real = session.write_checkpoint

    def noted(*args, salt, **more):
        salts.append(salt)
        return real(*args, salt=salt, **more)

    fakes = [FakeAmbient(5), FakeAmbient(5)]
    writers = [Catalog(store, ambient=fake.ambient).writer("w", "db") for fake in fakes]
    fakes[1]._random.seed(77)  # the system's random numbers go on differently
    with mock.patch.object(session, "write_checkpoint", noted):
        for writer in writers:
            writer.checkpoint()
    assert salts[0] != salts[1]
