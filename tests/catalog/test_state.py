"""Replay: what each action does to the state, and that a wrong one changes nothing."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.names import data_path
from lakelog.catalog.log.replay import apply, check_written, validate
from lakelog.catalog.log.state import empty_state
from lakelog.errors import (
    BrokenChain,
    CorruptObject,
    DuplicateFile,
    FileNotLive,
    UnknownSchema,
)
from lakelog.testing.logs import (
    START_US,
    LogBuilder,
    add_action,
    live_paths,
    replay,
    schema_action,
)
from replay_cases import A, B, C, add, facts, remove

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
    row = log.state.files.table("t").to_pylist()[0]
    assert (row["revision"], row["row_count"], row["size_bytes"]) == (3, 77, 177)


def test_a_removed_file_may_come_back_in_another_table(log):
    log.commit(schema_action("u"), add(A))
    log.commit(remove(A), add_action(A, "u"))
    assert log.live() == {"t": [], "u": [A]}
    assert log.state.files.tables_of(A) == ["u"]


def test_a_table_whose_files_are_all_removed_is_still_one(log):
    log.commit(add(A))
    log.commit(remove(A))
    assert log.live() == {"t": []}
    assert log.state.files.count == 0
    assert log.state.files.tables() == []
    assert log.state.schemas.tables() == {"t"}


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
    "unknown schema": ([add_action(C, schema=pa.schema([("z", pa.int8())]))], UnknownSchema),
    "schema of another table": ([add_action(C, "u")], UnknownSchema),
    "schema after the file": ([add_action(C, "u"), schema_action("u")], UnknownSchema),
}


@pytest.mark.parametrize("name", BAD)
def test_a_committer_refuses_it_with_the_state_unchanged(log, name):
    actions, error = BAD[name]
    log.commit(add(A), add(B))
    log.commit(remove(B))
    before = facts(log.state)
    with pytest.raises(error) as caught:
        validate(log.state, actions)
    assert caught.value.key
    assert facts(log.state) == before
    log.commit(add(C))  # and goes on as if nothing had been
    assert log.live() == {"t": [A, C]}


UNFIT = {
    name: actions for name, (actions, _) in BAD.items() if name != "duplicate add in another table"
}


@pytest.mark.parametrize("preloaded", [False, True])
@pytest.mark.parametrize("name", UNFIT)
def test_a_table_that_does_not_fit_is_unusable_from_there_on_and_others_are_not(
    log, name, preloaded
):
    """The revision exists all the same: only the chain decides that."""
    log.commit(schema_action("other"), add(A), add(B), add_action("data/o", "other"))
    log.commit(remove(B))
    before = log.copy()
    if preloaded:
        assert log.state.files.count == 2
    bad = log.commit(*UNFIT[name])
    table = "u" if "another table" in name or "after the file" in name else "t"
    log.commit(add_action("data/o2", "other"))
    for state in (log.state, log.replayed()):
        assert state.revision == 4
        assert state.history.holds(3)
        with pytest.raises(CorruptObject, match="can't be told") as caught:
            state.table_of(table)
        assert caught.value.key == bad.key
        with pytest.raises(CorruptObject):
            state.files.table(table)
        other = state.table_of("other")[0].table("other")
        assert other["path"].to_pylist() == ["data/o", "data/o2"]
    assert live_paths(before)["t"] == [A]
    assert live_paths(log.replayed(2))["t"] == [A]
    with pytest.raises(CorruptObject):
        log.checkpoint()


def test_two_tables_may_name_one_path_as_far_as_readers_are_concerned(log):
    log.commit(schema_action("u"), add(A))
    with pytest.raises(DuplicateFile):
        validate(log.state, [add_action(A, "u")])
    log.commit(add_action(A, "u"))
    assert log.live() == {"t": [A], "u": [A]}
    log.commit(remove(A))
    assert log.live() == {"t": [], "u": [A]}


def test_a_file_that_is_named_after_its_transaction_is_not_looked_up(log):
    """So a plain append reads nothing of the files before."""
    log.commit(*map(add, [A, B]))
    encoded = log.checkpoint()
    state = log.reload(encoded)
    state.older = state.fetch = None
    own = b"\x07" * 16
    validate(state, [add(data_path("", "t", 1, own, 0))], {own})
    assert state.loaded_files is None
    with pytest.raises(DuplicateFile):
        validate(log.state, [add(A)], {own})


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
                assert state.files.count == len(expected)


# --- Applications -------------------------------------------------------------------------------


def test_the_highest_version_of_each_application_is_kept(log):
    for app in [("x", 3), ("y", 1), ("x", 2), ("z", 0)]:
        log.commit(app=app)
    assert log.state.applications.versions() == {"x": 3, "y": 1, "z": 0}
    assert [log.state.applications.version(name) for name in "xyza"] == [3, 1, 0, -1]


def test_committers_ask_their_own_object_what_readers_will(log):
    many = [add(f"data/{number}") for number in range(300)]
    sound = log.decode(*log.encode(*many))
    check_written(log.state, sound)

    def change(message):
        message.actions[-1].add_batch.segments[0].segment.total_rows += 1

    with pytest.raises(CorruptObject):
        check_written(log.state, log.decode(*log.encode(*many, change=change)))
    with pytest.raises(BrokenChain):
        check_written(empty_state("w", "db"), sound)


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
    ids = [[m.transaction_id for m in t.message.commit.members] for t in log.transactions]
    assert table.column("transaction_ids").to_pylist() == ids


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
    copy = log.copy()
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
