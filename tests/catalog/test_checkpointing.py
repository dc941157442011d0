"""Checkpoints in the store: when they are written, that they never fail a commit, and what a reader
does with a broken one."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from unittest import mock

import pyarrow as pa
import pytest
from lakelog.catalog.catalog import Catalog
from lakelog.catalog.commit.checkpointer import Checkpointer
from lakelog.catalog.format.objects import decode_checkpoint, encode_checkpoint
from lakelog.catalog.format.wire_kinds import FILES
from lakelog.catalog.log import piece_sink
from lakelog.catalog.margins import DEFAULT_MARGINS
from lakelog.catalog.read.log_reader import CheckpointWarning, LogReader
from lakelog.errors import CorruptObject, StorageError, UnsupportedFeature
from lakelog.testing.counting import CountingStore
from lakelog.testing.doubles import FaultyStore, PassingStore
from lakelog.testing.keys import revision_in
from lakelog.testing.logs import live_paths


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())})


def write(writer, *values, **options):
    with writer.transaction(**options) as tx:
        tx.write("t", table(*values))
    return tx.commit_info


def fill(catalog, count, **options):
    with catalog.writer("w", "db", **options) as writer:
        for value in range(count):
            write(writer, value)
        return writer


def keys(store, kind):
    """Objects of a kind, in the order of revisions."""
    found = [
        item.key
        for folder in ("w/db/transactions/", "w/db/segments/")
        for item in store.list(folder)
        if item.key.endswith(kind)
    ]
    return sorted(found, key=lambda key: 0 if kind == ".segment" else revision_in(key))


def revisions(store, kind="checkpoint"):
    return [revision_in(key) for key in keys(store, kind)]


def values(store, as_of=None):
    found = Catalog(store).snapshot("db", as_of).to_arrow("t").column("a").to_pylist()
    return sorted(found)


@pytest.fixture
def spilling():
    """Every segment becomes an object of its own."""
    with mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0):
        yield


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


# --- The checkpointer ---------------------------------------------------------------------------


def test_in_the_foreground_it_writes_before_it_returns():
    threads = []

    def write():
        threads.append(threading.current_thread())
        return 3

    checkpointer = Checkpointer(4, -1, write, in_background=False)
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

    checkpointer = Checkpointer(1, -1, write, in_background=True)
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


# --- A reader and a broken checkpoint -------------------------------------------------------------


def damage(store, key, how):
    body = store.get(key)
    if how == "flipped bit":
        store.put(key, body[:-9] + bytes([body[-9] ^ 1]) + body[-8:])
    elif how == "cut":
        store.put(key, body[: len(body) // 2])
    elif how == "empty":
        store.put(key, b"")
    elif how == "another object":
        store.put(key, store.get(keys(store, ".transaction")[0]))
    else:
        store.delete([key])


HOW = ["flipped bit", "cut", "empty", "another object"]


@pytest.mark.parametrize("how", HOW)
def test_a_broken_newest_checkpoint_falls_back_with_a_warning(catalog, store, how):
    fill(catalog, 8, checkpoint_every=3)
    assert revisions(store) == [2, 5]
    damage(store, keys(store, "checkpoint")[1], how)
    instead = "reading an older checkpoint and more of the log instead"
    with pytest.warns(CheckpointWarning) as caught:
        assert values(store) == list(range(8))
    (text,) = (str(warning.message) for warning in caught)
    assert text.startswith("w/db/transactions/998-999999999994-5.")
    assert text.endswith(instead)
    damage(store, keys(store, "checkpoint")[0], how)
    with pytest.warns(CheckpointWarning) as caught:
        assert values(store) == list(range(8))
    both = [str(warning.message) for warning in caught]
    assert [text.split(".")[0].rsplit("-", 1)[1] for text in both] == ["5", "2"]
    assert all(text.endswith(instead) for text in both)


@pytest.mark.parametrize("how", [*HOW, "lost"])
def test_a_broken_segment_is_a_broken_checkpoint(catalog, store, how, spilling):
    fill(catalog, 8, checkpoint_every=3)
    (key,) = (
        f"w/db/segments/{piece.name}"
        for piece in LogReader(store, "w", "db").load().pieces
        if piece.kind == FILES
    )
    damage(store, key, how)
    with pytest.warns(CheckpointWarning, match=key):
        assert values(store) == list(range(8))


def test_a_broken_checkpoint_nobody_needs_is_not_noticed(catalog, store):
    fill(catalog, 8, checkpoint_every=3)
    damage(store, keys(store, "checkpoint")[0], "cut")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(store) == list(range(8))


@pytest.mark.parametrize("how", HOW)
def test_the_only_checkpoint_of_a_pruned_log_broken_says_so(catalog, store, how):
    fill(catalog, 8, checkpoint_every=6)
    store.delete(keys(store, ".transaction")[:6])
    assert values(store) == list(range(8))
    (key,) = keys(store, "checkpoint")
    damage(store, key, how)
    with pytest.raises(CorruptObject, match="No usable checkpoint of w/db up to") as caught:
        values(store)
    assert caught.value.key == key
    assert caught.value.exit_code == 5
    assert "Revisions 5-7 are listed" in caught.value.hint
    assert "rebuild" in caught.value.hint


def test_a_writer_opens_on_a_broken_checkpoint_and_writes_a_sound_one(catalog, store):
    fill(catalog, 6, checkpoint_every=6)
    damage(store, keys(store, "checkpoint")[0], "cut")
    with pytest.warns(CheckpointWarning):
        writer = catalog.writer("w", "db", checkpoint_every=1)
    write(writer, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(store) == list(range(7))


def test_a_checkpoint_of_the_future_is_refused_and_not_passed_over(catalog, store):
    """Falling back would read a log that this version may not understand."""
    fill(catalog, 3, checkpoint_every=3)
    (key,) = keys(store, "checkpoint")
    decoded = decode_checkpoint(store.get(key), key)
    decoded.message.required_reader_features.append("time-machine")
    body, _ = encode_checkpoint(decoded.log, decoded.message, bytes(decoded.attachments))
    store.put(key, body)
    with pytest.raises(UnsupportedFeature, match="time-machine"):
        values(store)


# --- A checkpoint is all that is needed -----------------------------------------------------------


@pytest.mark.parametrize("spill", [False, True])
def test_a_checkpoint_loads_with_every_earlier_transaction_deleted(catalog, store, spill):
    with mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0 if spill else 1 << 20):
        fill(catalog, 5, checkpoint_every=5)
    before = LogReader(store, "w", "db").load()
    store.delete(keys(store, ".transaction"))
    after = LogReader(store, "w", "db").load()
    assert live_paths(after) == live_paths(before)
    assert after.history.table().equals(before.history.table())
    assert after.next_uuid == before.next_uuid
    assert values(store) == list(range(5))


def test_a_checkpoint_alone_is_enough_to_exist_and_to_go_on(catalog, store):
    fill(catalog, 5, checkpoint_every=5)
    store.delete(keys(store, ".transaction"))
    assert catalog.databases() == ["db"]
    assert catalog.writers("db") == ["w"]
    with catalog.writer("w", "db") as writer:
        assert write(writer, 5).revision == 5
    assert values(store) == list(range(6))


def test_a_writer_of_a_pruned_log_leaves_the_pruned_history_out(catalog, store, spilling):
    """A piece of history goes once all of it was pruned."""
    fill(catalog, 6, checkpoint_every=3)
    store.delete(keys(store, ".transaction")[:3] + keys(store, "checkpoint")[:1])
    with catalog.writer("w", "db") as writer:
        for value in range(6, 12):
            write(writer, value)
            writer.checkpoint()
        store.delete(keys(store, ".transaction") + keys(store, "checkpoint")[:-1])
        writer_rows = LogReader(store, "w", "db").load().history.table()
    revisions_left = writer_rows.column("revision").to_pylist()
    assert revisions_left == list(range(revisions_left[0], 12))
    assert 0 < revisions_left[0] <= 5, "what was pruned goes, what was left stays"


def test_what_a_checkpoint_costs(catalog, store, spilling):
    fill(catalog, 3)
    counting = CountingStore(store)
    with Catalog(counting).writer("w", "db") as writer:
        counting.reset()
        info = writer.checkpoint()
        assert counting.reset()["put"] == 1 + info.segments
    counting = CountingStore(store)
    LogReader(counting, "w", "db").load()
    assert counting.reset() == {
        "put": 0,
        "get": 1,
        "list": 1,
        "head": 0,
        "delete": 0,
    }
