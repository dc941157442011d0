"""Damage inside a batch of added files costs the tables of its range, and no others."""

from __future__ import annotations

from unittest import mock

import pytest
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.format.names import data_path
from lakelog.catalog.format.objects import (
    encode_transaction,
)
from lakelog.catalog.log import piece_sink
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import apply
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject
from lakelog.testing.logs import (
    LogBuilder,
    add_action,
    live_paths,
    schema_action,
)  # fmt: skip
from lazy_cases import commit

TABLES = ["a", "b", "c"]


@pytest.fixture
def spilling():
    with mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0):
        yield


@pytest.fixture
def log(spilling):
    """Three tables, a checkpoint a commit of each, every piece an object; a short tail."""
    built = LogBuilder()
    built.commit(*map(schema_action, TABLES), app=("x", 1))
    for number, table in enumerate(TABLES):
        commit(built, table, 40 // 4**number, app=(f"app {table}", number))
        built.checkpoint()
    built.commit(schema_action("d"))
    return built


def big_batch(log, change=None):
    """Files of `a` and `b` in columns; `c` and `d` don't come into it."""
    mark = log.new_id()
    adds = [
        add_action(data_path("", table, 1, mark, n), table)
        for table in ("a", "b")
        for n in range(200)
    ]
    name, body = log.encode(*adds, transaction_id=mark)
    if change is None:
        return name, body
    decoded = log.decode(name, body)
    attached = bytearray(body[len(body) - int.from_bytes(body[16:24], "little") :])
    change(decoded.message, attached)
    return name, encode_transaction(log.log, decoded.message, bytes(attached))[0]


def bad_bytes(message, attached):
    attached[message.actions[-1].add_batch.segments[0].length - 8] ^= 255  # length of the footer


def bad_range(message, attached):
    message.actions[-1].add_batch.segments[0].segment.last_table = "aa"


def bad_sum(message, attached):
    message.actions[-1].add_batch.segments[0].segment.total_bytes += 1


@pytest.mark.parametrize("change", [bad_bytes, bad_sum, bad_range])
def test_a_damaged_batch_costs_the_tables_of_its_range(log, change):
    state = log.copy()
    name, body = big_batch(log, change)
    bad = log.decode(name, body)
    apply(state, bad)
    assert state.history.table()["files_added"].to_pylist()[-1] == 400
    lost = ["a"] if change is bad_range else ["a", "b"]
    for table in [*TABLES, "aa"]:
        hurt = table in lost or (table == "aa")
        if hurt:
            with pytest.raises(CorruptObject) as caught:
                state.table_of(table)[0]
            assert caught.value.key == bad.key
        else:
            assert state.table_of(table)[0].table(table).num_rows == len(
                live_paths(log.state)[table]
            )
    with pytest.raises(CorruptObject):
        encode_state(state)


def test_a_batch_of_another_revision_is_damage(log):
    body = big_batch(log)[1]
    other = LogBuilder(seed=3)
    other.log, other.state = log.log, log.copy()
    other.commit()
    name, wrong = other.encode(
        change=lambda m: m.actions.extend(log.decode(*big_batch(log)).message.actions)
    )
    attached = body[len(body) - int.from_bytes(body[16:24], "little") :]
    message = wire.Transaction()
    message.ParseFromString(decode_frame(wrong, FrameKind.TRANSACTION, "k").message)
    decoded = other.decode(name, encode_transaction(log.log, message, attached)[0])
    apply(other.state, decoded)
    for table in ("a", "aa", "b"):
        with pytest.raises(CorruptObject):
            other.state.table_of(table)[0]
    assert other.state.table_of("c")[0].table("c").num_rows == 2
