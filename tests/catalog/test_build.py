"""From actions to the object: many adds become columns, and mean what they meant."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.names import LogObject, successor_uuid
from lakelog.catalog.format.objects import decode_transaction
from lakelog.catalog.log.build import BATCH_FROM_FILES, Intent, build_transaction, identity_action
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import empty_state
from lakelog.catalog.read.statistics import table_statistics
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import UsageError
from lakelog.testing.logs import (
    START_US,
    LogBuilder,
    add_action,
    live_paths,
    remove_action,
    schema_action,
)


def kinds(found):
    return [action.WhichOneof("kind") for action in found.message.actions]


def paths(count, first=0):
    return [f"data/{number:05d}" for number in range(first, first + count)]


def build(state, *intents, now_us=START_US, epoch=1, guest=False):
    uuid = state.next_uuid
    log = state.log or LogIdentity(b"\x04" * 16, 1)
    body, _ = build_transaction(
        state,
        intents,
        log=log,
        uuid=uuid,
        slot_seed=b"\x05" * 16,
        epoch=epoch,
        guest=guest,
        now_us=now_us,
    )
    name = LogObject(1, state.revision + 1, uuid[:4].hex(), "transaction").name
    return decode_transaction(body, name)


def said(state, *, row_groups=False):
    return table_statistics(state, "t", row_groups=row_groups).to_pylist()


def intent(number, *actions, **more):
    return Intent(bytes([number]) * 16, 1, list(actions), **more)


# --- Batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 255, 256, 257, 300, 5_000])
def test_many_adds_become_one_batch_with_the_same_meaning(log, count):
    found = log.commit(*map(add_action, paths(count)))
    if count > BATCH_FROM_FILES:
        assert kinds(found) == ["add_batch"]
        assert len(found.message.SerializeToString()) < 1_000
    else:
        assert kinds(found) == ["add"] * count
    assert log.live() == {"t": paths(count)}
    table = log.state.files.table("t")
    assert table.column("row_count").to_pylist() == [10] * count
    assert set(table.column("revision").to_pylist()) == {1}
    row = log.state.history.table().slice(1).to_pylist()[0]
    assert (row["files_added"], row["rows_added"], row["bytes_added"]) == (
        count,
        10 * count,
        110 * count,
    )


def test_batches_of_several_tables(log):
    log.commit(
        schema_action("u"),
        *(add_action(path, "u" if number % 2 else "t") for number, path in enumerate(paths(600))),
    )
    assert kinds(log.transactions[-1]) == ["schema", "add_batch"]
    assert log.live() == {"t": paths(600)[::2], "u": paths(600)[1::2]}


def test_an_unsorted_commit_becomes_a_sorted_batch(log):
    log.commit(*map(add_action, paths(300)[::-1]))
    assert log.state.files.table("t").column("path").to_pylist() == paths(300)


def test_many_statistics_are_batched_too(log):
    """Few files, but more about them than a message should hold."""
    text = wire.ColumnStatistics(column=1, min=b"a" * 60, max=b"b" * 60)
    groups = [wire.RowGroup(row_count=1, columns=[text] * 40)] * 10
    adds = [add_action(path, row_groups=groups) for path in paths(25)]
    assert sum(action.ByteSize() for action in adds) > 1 << 20
    found = log.commit(*adds)
    assert kinds(found) == ["add_batch"]
    assert said(log.state, row_groups=True) == [], "a column that is named twice is unknown"
    once = [wire.RowGroup(row_count=1, columns=[text])] * 40
    log.commit(*(add_action(path, row_groups=once) for path in paths(300, first=1000)))
    told = said(log.state, row_groups=True)
    assert len(told) == 300 * 40
    assert {row["min"] for row in told} == {b"a" * 60}


@pytest.mark.parametrize("removed_in", ["the same transaction", "an earlier one", "a checkpoint"])
def test_a_removed_path_comes_back_with_a_large_commit(log, removed_in):
    every = paths(300)
    log.commit(*map(add_action, every))
    again = [add_action(path, row_count=99) for path in every]
    if removed_in == "the same transaction":
        log.commit(*map(remove_action, every), *again)
    else:
        log.commit(*map(remove_action, every))
        assert log.live() == {"t": []}
        log.commit(*again)
    assert log.live() == {"t": every}
    table = log.state.files.table("t")
    assert set(table.column("row_count").to_pylist()) == {99}
    log.commit(*map(remove_action, every[::2]))
    assert log.live() == {"t": every[1::2]}


def test_removed_and_added_again_in_another_table_with_a_large_commit(log):
    every = paths(300)
    log.commit(*map(add_action, every))
    log.commit(
        schema_action("u"),
        *map(remove_action, every),
        *(add_action(path, "u") for path in every),
    )
    assert log.live() == {"t": [], "u": every}


def test_added_and_removed_in_one_large_commit(log):
    every = paths(400)
    log.commit(*map(add_action, every), *map(remove_action, every[:100]))
    assert log.live() == {"t": every[100:]}


STEPS = st.lists(st.lists(st.integers(0, 7), max_size=6), min_size=1, max_size=4)


@given(STEPS)
def test_any_history_means_the_same_with_and_without_batches(steps):
    """Each file of a step changes hands together with 300 others, or alone."""
    many, few = LogBuilder(), LogBuilder()
    for log in (many, few):
        log.commit(schema_action())
    live = set()
    for number, step in enumerate(steps):
        actions = []
        for file in step:
            path = f"data/x{file}"
            actions.append(remove_action(path) if path in live else add_action(path))
            live ^= {path}
        few.commit(*actions)
        filler = paths(300, first=1000 * (number + 1))
        many.commit(*actions[:3], *map(add_action, filler), *actions[3:])
        many.commit(*map(remove_action, filler))
    assert set(few.live().get("t", [])) == live
    assert set(many.live()["t"]) == live


# --- Members --------------------------------------------------------------------------------------


def test_several_intents_share_one_object_in_their_order(log):
    found = build(
        log.state,
        intent(1, add_action("data/a"), app_id="x", app_version=4),
        intent(2, remove_action("data/a"), add_action("data/b"), summary={"why": "test"}),
        intent(3),
    )
    members = found.message.commit.members
    assert [member.operation for member in members] == ["append", "overwrite", "maintenance"]
    assert [member.action_count for member in members] == [1, 2, 0]
    assert (members[0].app_id, members[0].app_version) == ("x", 4)
    assert dict(members[1].summary) == {"why": "test"}
    apply(log.state, found)
    assert live_paths(log.state) == {"t": ["data/b"]}
    assert found.transaction_ids == {b"\x01" * 16, b"\x02" * 16, b"\x03" * 16}
    assert log.state.transaction_id == b"\x03" * 16


def test_the_operation_given_stands(log):
    found = build(log.state, intent(1, add_action("data/a"), operation="rewrite"))
    assert found.message.commit.members[0].operation == "rewrite"


def test_a_remove_alone_is_a_delete(log):
    log.commit(add_action("data/a"))
    found = build(log.state, intent(1, remove_action("data/a")))
    assert found.message.commit.members[0].operation == "delete"


@pytest.mark.parametrize(("now_us", "expected"), [(5, 1), (START_US + 77, 77)])
def test_commit_times_follow_the_clock_but_always_ascend(log, now_us, expected):
    found = build(log.state, intent(1), now_us=now_us)
    assert found.message.commit.committed_at_us == START_US + expected


def test_the_first_transaction_links_to_nothing():
    state = empty_state("w", "db")
    message = build(state, intent(1)).message
    assert (message.revision, message.previous_uuid, message.previous_digest) == (0, b"", b"")
    assert message.uuid == state.next_uuid
    assert message.commit.slot_seed == b"\x05" * 16
    assert message.commit.successor_uuid == successor_uuid(b"\x05" * 16, 0)
    assert message.actions[0].identity == wire.Identity(writer="w", database="db")
    assert message.commit.members[0].action_count == 1


def test_an_identity_that_is_asked_for_is_not_said_twice():
    state = empty_state("w", "db")
    found = build(state, intent(1, identity_action("w", "db"), schema_action()))
    assert kinds(found) == ["identity", "schema"]
    batch = build(state, intent(1, schema_action(), *map(add_action, paths(300))))
    assert kinds(batch) == ["identity", "schema", "add_batch"]
    assert batch.message.commit.members[0].action_count == 3


def test_the_next_one_links_to_uuid_and_digest(log):
    message = build(log.state, intent(1), epoch=7, guest=True).message
    assert message.previous_uuid == log.transactions[-1].message.uuid
    assert message.previous_digest == log.transactions[-1].digest
    assert message.uuid == log.transactions[-1].message.commit.successor_uuid
    assert (message.epoch, message.guest) == (7, True)


def test_the_same_intents_make_the_same_bytes(log):
    intents = [intent(1, *map(add_action, paths(300)), summary={"b": "1", "a": "2"})]
    assert build(log.state, *intents).digest == build(log.state, *intents).digest


def test_a_transaction_too_large_is_refused_by_type(log):
    removes = [remove_action("data/" + "x" * 200 + f"/{number}") for number in range(50_000)]
    with pytest.raises(UsageError, match="too large") as caught:
        build(log.state, intent(1, *removes))
    assert caught.value.hint


def test_statistics_of_a_schema_of_the_same_transaction_are_kept(log):
    schema = pa.schema([pa.field("z", pa.int64())])
    low = (7).to_bytes(8, "little", signed=True)
    groups = [wire.RowGroup(row_count=1, columns=[wire.ColumnStatistics(column=0, min=low)])]
    adds = [add_action(path, schema=schema, row_groups=groups) for path in paths(300)]
    log.commit(schema_action("t", schema), *adds)
    assert {row["min"] for row in said(log.state)} == {low}
    assert len(said(log.state)) == 300
