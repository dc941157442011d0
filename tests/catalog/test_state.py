"""Replay: what each action does to the state, and that a wrong one changes nothing."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.log.state import apply, check_features, empty_state, validate
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    BrokenChain,
    CorruptError,
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    UnsupportedFeature,
    UsageError,
)
from lakelog.testing.logs import (
    START_US,
    LogBuilder,
    add_action,
    live_paths,
    remove_action,
    replay,
    schema_action,
)

A, B, C = "data/a", "data/b", "data/c"


def add(path):
    return add_action(path)


def remove(path):
    return remove_action(path)


@pytest.fixture
def log():
    """A log whose first commit makes the schema known."""
    built = LogBuilder()
    built.commit(schema_action())
    return built


def facts(state):
    """All that a state says, in a form that compares."""
    columns = ["path", "partition", "size_bytes", "row_count", "revision", "schema_fingerprint"]
    return (
        state.revision, state.uuid, state.successor_uuid, state.digest, state.epoch,
        state.committed_at_us, state.transaction_ids, state.reader_features,
        state.writer_features, dict(state.app_versions), sorted(state.schemas),
        {
            name: sorted(files.table().select(columns).to_pylist(), key=lambda row: row["path"])
            for name, files in state.tables.items()
        },
        state.history.table().to_pylist(),
    )  # fmt: skip


# --- Adds and removes (the ancestor's list) -----------------------------------------------------


def in_one(log, *actions):
    log.commit(*actions)


def one_by_one(log, *actions):
    for action in actions:
        log.commit(action)


EACH_WAY = pytest.mark.parametrize("commit", [in_one, one_by_one])


@EACH_WAY
def test_add(log, commit):
    commit(log, add(A), add(B))
    assert log.live() == {"t": [A, B]}


@EACH_WAY
def test_remove(log, commit):
    log.commit(add(A), add(B))
    commit(log, remove(A))
    assert log.live() == {"t": [B]}


@EACH_WAY
def test_add_and_remove(log, commit):
    commit(log, add(A), add(B), remove(A))
    assert log.live() == {"t": [B]}


@EACH_WAY
def test_remove_and_add(log, commit):
    log.commit(add(A))
    commit(log, remove(A), add(A))
    assert log.live() == {"t": [A]}


@EACH_WAY
def test_add_remove_add(log, commit):
    commit(log, add(A), remove(A), add(A))
    assert log.live() == {"t": [A]}


@EACH_WAY
def test_remove_add_remove(log, commit):
    log.commit(add(A), add(B))
    commit(log, remove(A), add(A), remove(A))
    assert log.live() == {"t": [B]}


def test_add_again_says_the_newer_revision_and_size(log):
    log.commit(add(A))
    log.commit(remove(A))
    log.commit(add_action(A, row_count=77))
    row = log.state.tables["t"].table().to_pylist()[0]
    assert (row["revision"], row["row_count"], row["size_bytes"]) == (3, 77, 177)


def test_a_removed_file_may_come_back_in_another_table(log):
    log.commit(schema_action("u"), add(A))
    log.commit(remove(A), add_action(A, "u"))
    assert log.live() == {"t": [], "u": [A]}
    assert log.state.table_of(A) == "u"


def test_a_table_whose_files_are_all_removed_is_still_one(log):
    log.commit(add(A))
    log.commit(remove(A))
    assert log.live() == {"t": []}
    assert log.state.tables["t"].count == 0


def test_an_empty_transaction_is_a_revision(log):
    log.commit()
    assert log.state.revision == 1
    assert log.state.history.table().column("operation").to_pylist() == ["maintenance"] * 2


# --- Refused, with the state unchanged ----------------------------------------------------------


BAD = {
    "duplicate add": ([add(A)], DuplicateFile),
    "duplicate add in one": ([add(C), add(C)], DuplicateFile),
    "duplicate add in another table": ([schema_action("u"), add_action(A, "u")], DuplicateFile),
    "add again without a remove between": ([remove(A), add(A), add(A)], DuplicateFile),
    "remove of the absent": ([remove(C)], FileNotLive),
    "double remove": ([remove(A), remove(A)], FileNotLive),
    "remove of the removed": ([remove(B)], FileNotLive),
    "remove before the add": ([remove(C), add(C)], FileNotLive),
    "a good action before a bad one": ([add(C), remove(A), remove(A)], FileNotLive),
    "unknown schema": ([add_action(C, schema=pa.schema([("z", pa.int8())]))], UsageError),
    "schema of another table": ([add_action(C, "u")], UsageError),
    "schema after the file": ([add_action(C, "u"), schema_action("u")], UsageError),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_with_the_state_unchanged(log, name):
    actions, error = BAD[name]
    log.commit(add(A), add(B))
    log.commit(remove(B))
    before = facts(log.state)
    with pytest.raises(error) as caught:
        validate(log.state, actions)
    assert caught.value.key
    name, body = log.encode(*actions)
    with pytest.raises(CorruptObject) as caught:
        apply(log.state, log.decode(name, body))
    assert name in caught.value.key
    assert facts(log.state) == before
    log.commit(add(C))  # and goes on as if nothing had been
    assert log.live() == {"t": [A, C]}


def test_validate_agrees_with_apply_on_any_sequence():
    """All sequences of four adds and removes of two paths, over every starting state."""
    steps = [add(A), remove(A), add(B), remove(B)]
    for first in ([], [add(A)], [add(A), add(B)]):
        log = LogBuilder()
        log.commit(schema_action(), *first)
        for actions in itertools.product(steps, repeat=4):
            expected = {action.add.path for action in first}
            good = True
            for action in actions:
                path = action.add.path or action.remove.path
                if (action.WhichOneof("kind") == "add") == (path in expected):
                    good = False
                    break
                expected ^= {path}
            try:
                validate(log.state, actions)
                accepted = True
            except (DuplicateFile, FileNotLive):
                accepted = False
            assert accepted == good
            if good:
                state = log.state.copy()
                apply(state, log.decode(*log.encode(*actions)))
                assert set(live_paths(state).get("t", [])) == expected
                assert state.tables.get("t") is None or state.tables["t"].count == len(expected)


# --- The chain ----------------------------------------------------------------------------------


def broken(log, change, **options):
    """Apply the next transaction, altered, and return the error."""
    before = facts(log.state)
    with pytest.raises(CorruptError) as caught:
        apply(log.state, log.decode(*log.encode(add(C), change=change, **options)))
    assert facts(log.state) == before
    assert log.state.revision < 0 or caught.value.key
    return caught.value


@pytest.fixture
def longer(log):
    log.commit(add(A))
    log.commit(add(B))
    return log


def test_gap_in_revisions(longer):
    name, body = LogBuilder().encode()
    with pytest.raises(BrokenChain, match="is revision 0, after 2"):
        apply(longer.state, longer.decode(name, body))
    skipped = LogBuilder()
    for _ in range(5):
        skipped.commit()
    with pytest.raises(BrokenChain, match="is revision 4, after 2"):
        apply(longer.state, skipped.transactions[4])


def test_wrong_revision_inside_the_file(longer):
    def change(message):
        message.revision = 7

    assert isinstance(broken(longer, change), CorruptObject)


def test_wrong_uuid_inside_the_file(longer):
    def change(message):
        message.uuid = b"\x09" * 16

    assert isinstance(broken(longer, change), CorruptObject)


def test_missing_uuid(longer):
    assert isinstance(broken(longer, lambda message: message.ClearField("uuid")), CorruptObject)


def test_broken_uuid(longer):
    def change(message):
        message.uuid = message.uuid[:15]

    assert isinstance(broken(longer, change), CorruptObject)


def test_wrong_link_at_the_start():
    def change(message):
        message.previous_uuid = b"\x01" * 16

    assert isinstance(broken(LogBuilder(), change), CorruptObject)


def test_wrong_link_in_the_middle(longer):
    def change(message):
        message.previous_uuid = b"\x01" * 16

    error = broken(longer, change)
    assert isinstance(error, BrokenChain)
    assert "up to 2 can still be read" in error.hint


def test_missing_link(longer):
    def change(message):
        message.ClearField("previous_uuid")

    assert isinstance(broken(longer, change), CorruptObject)


def test_broken_link(longer):
    def change(message):
        message.previous_uuid = message.previous_uuid[:5]

    assert isinstance(broken(longer, change), CorruptObject)


def test_wrong_digest_link(longer):
    """The same uuid with another body before: what a chain of uuids alone would not notice."""

    def change(message):
        message.previous_digest = bytes(32)

    assert isinstance(broken(longer, change), BrokenChain)


def test_broken_digest_link(longer):
    def change(message):
        message.previous_digest = b"x"

    assert isinstance(broken(longer, change), CorruptObject)


def test_an_altered_transaction_breaks_the_chain_at_its_successor(longer):
    other = LogBuilder()
    other.commit(schema_action())
    other.commit(add(C))
    with pytest.raises(BrokenChain):
        replay(empty_state("w", "db"), [*other.transactions, longer.transactions[2]])


def test_lower_epoch(longer):
    longer.commit(epoch=5)
    error = broken(longer, None, epoch=4)
    assert isinstance(error, BrokenChain)
    assert "epoch 4" in str(error)
    longer.commit(epoch=5)
    longer.commit(epoch=9)


@pytest.mark.parametrize("epoch", [0, 1 << 62, (1 << 64) - 1])
def test_absurd_epoch(longer, epoch):
    def change(message):
        message.epoch = epoch

    assert isinstance(broken(longer, change), CorruptObject)


def test_missing_commit(longer):
    assert isinstance(broken(longer, lambda message: message.ClearField("commit")), CorruptObject)


def test_missing_timestamp(longer):
    def change(message):
        message.commit.ClearField("committed_at_us")

    assert isinstance(broken(longer, change), CorruptObject)


@pytest.mark.parametrize("value", [-1, 1 << 55, (1 << 63) - 1, -(1 << 63)])
def test_broken_timestamp(longer, value):
    def change(message):
        message.commit.committed_at_us = value

    assert isinstance(broken(longer, change), CorruptObject)


def test_timestamp_that_does_not_ascend(longer):
    def change(message):
        message.commit.committed_at_us = longer.state.committed_at_us

    assert isinstance(broken(longer, change), BrokenChain)


def test_missing_successor(longer):
    def change(message):
        message.commit.successor_uuid = b""

    assert isinstance(broken(longer, change), CorruptObject)


def test_commit_without_members(longer):
    def change(message):
        del message.commit.members[:]

    assert isinstance(broken(longer, change), CorruptObject)


def test_broken_transaction_id(longer):
    def change(message):
        message.commit.members[0].transaction_id = b"short"

    assert isinstance(broken(longer, change), CorruptObject)


@pytest.mark.parametrize("path", ["x", "data/../x", "s3://b/data/x", "data//x", "/data/x", ""])
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_paths_outside_the_writer(longer, kind, path):
    def change(message):
        action = wire.Action(remove=wire.Remove(path=path)) if kind == "remove" else add(A)
        if kind == "add":
            action.add.path = path
        message.actions.append(action)

    assert isinstance(broken(longer, change), CorruptObject)


# --- Features and actions of the future ---------------------------------------------------------


def upgrade(readers=(), writers=()):
    item = wire.Upgrade(required_reader_features=readers, required_writer_features=writers)
    return wire.Action(upgrade=item)


def test_unsupported_upgrade_for_readers(longer):
    before = facts(longer.state)
    with pytest.raises(UnsupportedFeature, match="time-machine") as caught:
        apply(longer.state, longer.decode(*longer.encode(upgrade(["time-machine"]))))
    assert "revision 2 or earlier" in caught.value.hint
    assert facts(longer.state) == before


def test_unsupported_upgrade_for_writers_leaves_the_log_readable(longer):
    longer.commit(upgrade(writers=["time-machine"]))
    assert longer.live() == {"t": [A, B]}
    check_features(longer.state)
    with pytest.raises(UnsupportedFeature, match="time-machine"):
        check_features(longer.state, writing=True)


def test_delete_predicates_are_refused_by_type(longer):
    """Soft deletes are reserved: a log that holds one must not be read as if it held none."""
    tombstone = wire.Action(tombstone=wire.Tombstone(table="t", predicate="a > 1"))
    with pytest.raises(UnsupportedFeature, match="tombstones"):
        longer.decode(*longer.encode(tombstone))


def test_an_unknown_action_is_refused(longer):
    with pytest.raises(UnsupportedFeature, match="kind"):
        longer.decode(*longer.encode(wire.Action()))


def test_an_optional_unknown_action_is_passed_over(longer):
    future = wire.Action(optional=True)
    future.MergeFromString(b"\xa2\x06\x03abc")  # field 100, which this version doesn't know
    longer.commit(future, add(C))
    assert longer.live() == {"t": [A, B, C]}


# --- Applications -------------------------------------------------------------------------------


def test_the_highest_version_of_each_application_is_kept(log):
    for app in [("x", 3), ("y", 1), ("x", 2), ("z", 0)]:
        log.commit(app=app)
    assert log.state.app_versions == {"x": 3, "y": 1, "z": 0}


# --- History ------------------------------------------------------------------------------------


def test_history_has_a_row_a_revision(log):
    log.commit(add(A), add(B), app=("x", 1))
    log.commit(remove(A), add_action(C, row_count=5))
    log.commit(remove(C))
    table = log.state.history.table()
    assert table.column("revision").to_pylist() == [0, 1, 2, 3]
    assert table.column("operation").to_pylist() == ["maintenance", "append", "overwrite", "delete"]
    assert table.column("files_added").to_pylist() == [0, 2, 1, 0]
    assert table.column("files_removed").to_pylist() == [0, 0, 1, 1]
    assert table.column("rows_added").to_pylist() == [0, 20, 5, 0]
    assert table.column("bytes_added").to_pylist() == [0, 220, 105, 0]
    assert table.column("digest").to_pylist() == [found.digest for found in log.transactions]
    marks = [[m.transaction_id for m in t.message.commit.members] for t in log.transactions]
    assert table.column("transaction_ids").to_pylist() == marks


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(-3, 50))
def test_the_revision_at_a_time_is_the_newest_committed_by_then(steps, at):
    log = LogBuilder()
    now, times = START_US, []
    for step in steps:
        now += step
        log.commit(now_us=now)
        times.append(log.state.committed_at_us)
    expected = max((r for r, time in enumerate(times) if time <= START_US + at), default=None)
    assert log.state.history.revision_at(START_US + at) == expected


def test_commit_times_ascend_even_when_the_clock_goes_back(log):
    log.commit(now_us=START_US + 10**9)
    log.commit(now_us=5)
    log.commit(now_us=START_US)
    times = log.state.history.table().column("committed_at").cast(pa.int64()).to_pylist()
    assert times[1:] == [START_US + 10**9 + step for step in range(3)]


# --- Copies -------------------------------------------------------------------------------------


def test_a_copy_is_independent(log):
    log.commit(add(A), app=("x", 1))
    before = facts(log.state)
    copy = log.state.copy()
    assert facts(copy) == before
    other = LogBuilder()
    other.state = copy
    other.commit(schema_action("u"), remove(A), add_action(B, "u"), app=("x", 2))
    assert facts(log.state) == before
    assert live_paths(copy) == {"t": [], "u": [B]}


def test_replay_gives_the_state_that_the_commits_left(log):
    log.commit(add(A), add(B), app=("x", 7))
    log.commit(remove(A), schema_action("u"), add_action(A, "u"))
    again = replay(empty_state("w", "db"), [log.decode(*item) for item in log.objects])
    assert facts(again) == facts(log.state)
