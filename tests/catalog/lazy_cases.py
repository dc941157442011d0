"""What the tests of states that are read by parts share."""

from __future__ import annotations

from lakelog.catalog.format.names import data_path
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import (
    LogBuilder,
    add_action,
    remove_action,
    schema_action,
)

TABLES = ["a", "b", "c"]


def commit(log, table, count=3, *, app=("", 0), gone=()):
    """Files named as lakelog names them, with statistics."""
    transaction_id = log.new_id()
    adds = []
    for number in range(count):
        stats = wire.ColumnStatistics(column=0, null_count=number)
        group = wire.RowGroup(row_count=9, columns=[stats])
        path = data_path("", table, 1, transaction_id, number)
        adds.append(add_action(path, table, row_count=9, row_groups=[group]))
    log.commit(
        *adds,
        *(remove_action(path, table) for path in gone),
        transaction_id=transaction_id,
        app=app,
    )
    return [action.add.path for action in adds]


def three_tables():
    """A checkpoint a commit of each table; a short tail."""
    built = LogBuilder()
    built.commit(*map(schema_action, TABLES), app=("x", 1))
    for number, table in enumerate(TABLES):
        commit(built, table, 40 // 4**number, app=(f"app {table}", number))
        built.checkpoint()
    built.commit(schema_action("d"))
    return built
