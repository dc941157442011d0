"""What a tombstone that names logs may say: rules (E), each broken, in a transaction and in a
checkpoint; and that it comes back from both as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lakelog.catalog.format.segments import TOMBSTONES_COLUMNS
from lakelog.catalog.log.deletes import Deletes
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action

UPGRADE = wire.Action(
    upgrade=wire.Upgrade(
        required_reader_features=["tombstones"], required_writer_features=["tombstones"]
    )
)


def log_at(number: int = 1, **said) -> wire.LogAt:
    whole = {
        "writer": "b",
        "log_id": bytes([number]) * 16,
        "incarnation": 1,
        "revision": 3,
        "transaction_id": b"\x07" * 16,
        "committed_at_us": 1_700_000_000_000_000,
    }
    return wire.LogAt(**{**whole, **said})


def tombstone(*logs: wire.LogAt, **said) -> wire.Action:
    return wire.Action(tombstone=wire.Tombstone(table="t", predicate="TRUE", logs=logs, **said))


BROKEN = {
    "no writer": [log_at(writer="")],
    "no name of a writer": [log_at(writer="_b")],
    "a path for a writer": [log_at(writer="../b")],
    "no log id": [log_at(log_id=b"")],
    "a short log id": [log_at(log_id=b"1" * 15)],
    "no incarnation": [log_at(incarnation=0)],
    "an incarnation too many": [log_at(incarnation=1_000)],
    "a revision too many": [log_at(revision=10**12)],
    "no transaction id": [log_at(transaction_id=b"")],
    "a long transaction id": [log_at(transaction_id=b"1" * 17)],
    "no time": [log_at(committed_at_us=0)],
    "a time before": [log_at(committed_at_us=-1)],
    "a time beyond": [log_at(committed_at_us=1 << 55)],
    "a log twice": [log_at(1), log_at(1)],
    "out of order": [log_at(2), log_at(1)],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_can_not_be_said_is_damage(name) -> None:
    log = LogBuilder()
    log.commit(schema_action(), add_action("data/a.parquet"))

    def broken(message: wire.Transaction) -> None:
        message.actions[-1].CopyFrom(tombstone(*BROKEN[name]))

    with pytest.raises(CorruptObject, match="deletes rows of"):
        log.decode(*log.encode(UPGRADE, tombstone(log_at()), change=broken))


def test_paths_and_logs_are_not_both_said() -> None:
    log = LogBuilder()
    log.commit(schema_action())
    with pytest.raises(CorruptObject, match="by their paths and by their logs"):
        log.decode(*log.encode(UPGRADE, tombstone(log_at(), paths=["data/a.parquet"])))


def test_bounds_are_taken_and_come_back(named_twice: LogBuilder) -> None:
    (item,) = named_twice.state.deletes.of_table("t")
    assert [(at.writer, at.incarnation, at.revision) for at in item.logs] == [
        ("b", 1, 0),
        ("b", 999, 10**12 - 1),
    ]
    kept = named_twice.reload(named_twice.checkpoint())
    assert kept.deletes.of_table("t") == [item]


@pytest.fixture
def named_twice() -> LogBuilder:
    log = LogBuilder()
    log.commit(schema_action(), add_action("data/a.parquet"))
    first = log_at(1, revision=0, committed_at_us=1)
    last = log_at(9, incarnation=999, revision=10**12 - 1, committed_at_us=(1 << 55) - 1)
    log.commit(UPGRADE, tombstone(first, last))
    return log


def test_it_outlives_the_files_and_the_table_of_its_own_log(named_twice: LogBuilder) -> None:
    log = named_twice
    said = list(log.state.deletes.of_table("t"))
    log.commit(wire.Action(tombstone=wire.Tombstone(table="t", predicate="FALSE")))
    log.commit(remove_action("data/a.parquet"))
    assert log.reload(log.checkpoint()).deletes.of_table("t") == said
    log.commit(wire.Action(forget=wire.Forget(tables=["t"])))
    assert log.state.deletes.of_table("t") == said
    assert log.reload(log.checkpoint()).deletes.of_table("t") == said
    assert log.state.schemas.tables() == set()


def test_a_checkpoint_that_says_it_wrongly_is_damaged(named_twice: LogBuilder) -> None:
    rows = named_twice.state.deletes.tombstone_rows()
    assert rows.schema.equals(TOMBSTONES_COLUMNS)
    message = wire.Tombstone.FromString(rows["tombstone"][0].as_py())
    message.logs[0].transaction_id = b"short"
    column = rows.schema.get_field_index("tombstone")
    wrong = rows.set_column(
        column, rows.schema.field(column), pa.array([message.SerializeToString()])
    )
    with pytest.raises(CorruptObject, match="at no place that can be"):
        Deletes()._load_tombstones(wrong, "x")
    Deletes()._load_tombstones(rows, "x")
