"""Damage inside a batch of added files costs the tables of its range, and no others."""

from __future__ import annotations

import pytest
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.format.names import data_path
from lakelog.catalog.format.objects import (
    encode_transaction,
)
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import apply
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject
from lakelog.testing.logs import (
    LogBuilder,
    add_action,
    live_paths,
)  # fmt: skip
from lazy_cases import TABLES


def big_batch(log, change=None):
    """Files of `a` and `b` in columns; `c` and `d` don't come into it."""
    transaction_id = log.new_id()
    adds = [
        add_action(data_path("", table, 1, transaction_id, n), table)
        for table in ("a", "b")
        for n in range(200)
    ]
    name, body = log.encode(*adds, transaction_id=transaction_id)
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
def test_a_damaged_batch_costs_the_tables_of_its_range(spilled_log, change):
    state = spilled_log.copy()
    name, body = big_batch(spilled_log, change)
    bad = spilled_log.decode(name, body)
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
                live_paths(spilled_log.state)[table]
            )
    with pytest.raises(CorruptObject):
        encode_state(state)


def test_a_batch_of_another_revision_is_damage(spilled_log):
    body = big_batch(spilled_log)[1]
    other = LogBuilder(seed=3)
    other.log, other.state = spilled_log.log, spilled_log.copy()
    other.commit()
    name, wrong = other.encode(
        change=lambda m: m.actions.extend(
            spilled_log.decode(*big_batch(spilled_log)).message.actions
        )
    )
    attached = body[len(body) - int.from_bytes(body[16:24], "little") :]
    message = wire.Transaction()
    message.ParseFromString(decode_frame(wrong, FrameKind.TRANSACTION, "k").message)
    decoded = other.decode(name, encode_transaction(spilled_log.log, message, attached)[0])
    apply(other.state, decoded)
    for table in ("a", "aa", "b"):
        with pytest.raises(CorruptObject):
            other.state.table_of(table)[0]
    assert other.state.table_of("c")[0].table("c").num_rows == 2
