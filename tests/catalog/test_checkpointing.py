"""Checkpoints in the store: when they are written, and that they never fail a commit."""

from __future__ import annotations

import dataclasses
import threading
import warnings

import pyarrow as pa
import pytest
from checkpoint_cases import fill, keys, revisions
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.checkpointer import Recurring
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import StorageError
from lakelog.testing.doubles import FaultyStore, PassingStore
from lakelog.testing.logs import live_paths
from table_cases import table, values, write

# --- When -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "expected"),
    [(0, []), (1, [0, 1, 2, 3, 4, 5, 6]), (2, [1, 3, 5]), (3, [2, 5]), (7, [6]), (8, [])],
)
def test_a_checkpoint_after_every_so_many_commits(catalog, store, every, expected):
    fill(catalog, 7, checkpoint_every=every)
    assert revisions(store) == expected


def test_commits_are_counted_since_the_last_checkpoint_and_not_since_opening(catalog, store):
    for _ in range(4):
        fill(catalog, 2, checkpoint_every=5)
    assert revisions(store) == [4]


def test_whatever_the_commits_were_they_count(catalog, store):
    """Removes, empty batches of an application, new columns: all of it is log to read."""
    with catalog.writer("w", "db", checkpoint_every=4) as writer:
        with writer.transaction() as tx:
            (path,) = tx.write("t", table(1))
        with writer.transaction() as tx:
            tx.remove(path)
        with writer.transaction(app_id="x", app_version=1):
            pass
        with writer.transaction() as tx:
            tx.write("t", pa.table({"z": pa.array([], pa.int8())}))
    assert revisions(store) == [3]


def test_a_checkpoint_by_hand_counts_as_the_last_one(catalog, store):
    with catalog.writer("w", "db", checkpoint_every=3) as writer:
        write(writer, 0)
        info = writer.checkpoint()
        assert (info.revision, info.written, info.key) == (0, True, keys(store, "checkpoint")[0])
        assert info.size_bytes == store.head(info.key).size_bytes
        for value in range(3):
            write(writer, value)
    assert revisions(store) == [0, 3]


def test_a_second_one_of_the_same_revision_is_not_written(catalog, store):
    with catalog.writer("w", "db") as writer:
        write(writer, 0)
        writer.checkpoint()
        assert not writer.checkpoint().written
    with catalog.writer("w", "db", shared=True) as other:
        assert not other.checkpoint().written
    assert revisions(store) == [0]


def test_two_processes_write_the_same_state_under_names_of_their_own(catalog, store, spilling):
    """Who prunes with an older view deletes by name: no name of a segment may come again."""
    with catalog.writer("w", "db") as writer:
        write(writer, 0)
        write(writer, 1)
    named, states = [], []
    for _ in range(2):
        with catalog.writer("w", "db", shared=True) as writer:
            info = writer.checkpoint()
        state = LogReader(store, "w", "db").load()
        named.append({piece.name for piece in state.pieces if piece.name})
        states.append((state.digest, live_paths(state), state.history.table().to_pylist()))
        store.delete([info.key])
    assert named[0]
    assert named[0].isdisjoint(named[1])
    assert states[0] == states[1]


def test_a_skipped_commit_writes_none(catalog, store):
    with catalog.writer("w", "db", checkpoint_every=2) as writer:
        for _ in range(4):
            with writer.transaction(app_id="x", app_version=1) as tx:
                tx.write("t", table(1))
    assert revisions(store) == []


# --- The checkpointer -----------------------------------------------------------------------------


def test_in_the_foreground_it_writes_before_it_returns():
    threads = []

    def write():
        threads.append(threading.current_thread())
        return 3

    checkpointer = Recurring(4, -1, write, CheckpointWarning, in_background=False)
    for revision in range(4):
        checkpointer.after_commit(revision)
    assert threads == [threading.current_thread()]


def test_in_the_background_commits_go_on_and_one_is_written_at_a_time():
    go, begun, written = threading.Event(), threading.Event(), []

    def write():
        begun.set()
        assert go.wait(30)
        written.append(threading.current_thread())
        return 0

    checkpointer = Recurring(1, -1, write, CheckpointWarning, in_background=True)
    for revision in range(3):
        checkpointer.after_commit(revision)
    assert begun.wait(30)
    assert written == []
    go.set()
    checkpointer.wait()
    assert len(written) == 1
    assert written[0] is not threading.current_thread()
    checkpointer.after_commit(3)
    checkpointer.wait()
    assert len(written) == 2


def test_closing_a_writer_waits_for_the_checkpoint_under_way(store, fake):
    slow = FaultyStore(store, match=".checkpoint")
    go, begun = threading.Event(), threading.Event()

    def hold(key):
        begun.set()
        assert go.wait(30)

    slow.before_put = hold
    ambient = dataclasses.replace(fake.ambient, in_background=True)
    writer = Catalog(slow, ambient=ambient).writer("w", "db", checkpoint_every=1)
    write(writer, 0)
    assert begun.wait(30)
    assert revisions(store) == []
    write(writer, 1)
    threading.Timer(0.05, go.set).start()
    writer.close()
    assert revisions(store) == [0]
    assert values(store) == [0, 1]


# --- A failing checkpoint -------------------------------------------------------------------------


class NoCheckpoints(PassingStore):
    broken = True

    def put(self, key, body, *, if_absent=False):
        if self.broken and key.endswith((".checkpoint", ".segment")):
            raise StorageError("no room", key=key)
        super().put(key, body, if_absent=if_absent)


def test_a_failing_checkpoint_only_warns_and_is_tried_again_soon(store, fake):
    failing = NoCheckpoints(store)
    with Catalog(failing, ambient=fake.ambient).writer("w", "db", checkpoint_every=20) as writer:
        for value in range(19):
            write(writer, value)
        with pytest.warns(CheckpointWarning, match="revision 19.*no room.*next try.*revision 21"):
            assert write(writer, 19).revision == 19
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            write(writer, 20)
        failing.broken = False
        write(writer, 21)
        write(writer, 22)
    assert revisions(store) == [21]
    assert values(store) == list(range(23))


def test_a_commit_that_stands_is_no_error_even_where_warnings_are(store, fake):
    with (
        Catalog(NoCheckpoints(store), ambient=fake.ambient).writer(
            "w", "db", checkpoint_every=1
        ) as writer,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        assert write(writer, 0).revision == 0
        assert write(writer, 1).revision == 1
    assert values(store) == [0, 1]


def test_a_checkpoint_by_hand_that_fails_is_an_error(store):
    with Catalog(NoCheckpoints(store)).writer("w", "db") as writer:
        write(writer, 0)
        with pytest.raises(StorageError, match="no room"):
            writer.checkpoint()
        assert writer.last_checkpoint is None


def test_a_crash_between_segments_and_checkpoint_leaves_nothing_that_is_read(
    catalog, store, spilling
):
    fill(catalog, 3)
    lossy = FaultyStore(store, ["lost request"], match=".checkpoint")
    with Catalog(lossy).writer("w", "db") as writer, pytest.raises(StorageError):
        writer.checkpoint()
    assert keys(store, ".segment")
    assert revisions(store) == []
    assert values(store) == [0, 1, 2]
    with catalog.writer("w", "db") as writer:
        assert writer.checkpoint().written
    assert values(store) == [0, 1, 2]


def test_what_a_crash_left_is_not_relied_on(catalog, store, spilling):
    """Two prunes have seen that nobody names it; one of them deletes it late."""
    fill(catalog, 3)
    lossy = FaultyStore(store, ["lost request"], match=".checkpoint")
    with Catalog(lossy).writer("w", "db") as writer, pytest.raises(StorageError):
        writer.checkpoint()
    orphans = keys(store, ".segment")
    store.delete(orphans)
    with catalog.writer("w", "db") as writer:
        writer.checkpoint()
    store.delete(orphans)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(store) == [0, 1, 2]


def test_a_checkpoint_that_took_too_long_is_not_written(catalog, store, fake, spilling):
    fill(catalog, 2)
    slow = FaultyStore(store, match=".segment")
    slow.before_put = lambda key: fake.move(DEFAULT_MARGINS.idle_limit_s + 1)
    with (
        Catalog(slow, ambient=fake.ambient).writer("w", "db") as writer,
        pytest.raises(StorageError, match="too long"),
    ):
        writer.checkpoint()
    assert revisions(store) == []


def test_a_checkpoint_is_too_old_though_its_writer_has_listed_again_since(
    catalog, store, fake, spilling
):
    fill(catalog, 2)
    slow = FaultyStore(store, match=".segment")
    with Catalog(slow, ambient=fake.ambient).writer("w", "db") as writer:

        def commit_meanwhile(key):
            slow.before_put = None
            fake.move(DEFAULT_MARGINS.idle_limit_s + 1)
            write(writer, 2)

        slow.before_put = commit_meanwhile
        with pytest.raises(StorageError, match="too long"):
            writer.checkpoint()
        assert revisions(store) == []
        assert writer.checkpoint().revision == 2


def test_a_checkpoint_is_too_old_though_only_its_base_is(catalog, store, fake, spilling):
    """The log was seen since, but nobody looked whether there is a newer base: then prune may have
    taken the pieces of this one."""
    fill(catalog, 2, checkpoint_every=2)
    slow = FaultyStore(store, match=".segment")
    with Catalog(slow, ambient=fake.ambient).writer("w", "db", checkpoint_every=0) as writer:
        fake.move(DEFAULT_MARGINS.idle_limit_s * 0.7)
        write(writer, 2)

        def take_long(key):
            slow.before_put = None
            fake.move(DEFAULT_MARGINS.idle_limit_s * 0.7)

        slow.before_put = take_long
        with pytest.raises(StorageError, match="too long"):
            writer.checkpoint()
        assert revisions(store) == [1]
        assert writer.checkpoint().revision == 2
