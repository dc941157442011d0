"""The golden objects of deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from lakelog.catalog.format.definitions import encode_definition
from lakelog.catalog.format.deletes import ROW_DELETES, TOMBSTONES, encode_bitmap, encode_deletes
from lakelog.catalog.format.footer import FooterMetadata
from lakelog.catalog.format.names import deletes_path
from lakelog.catalog.format.schema import column_id
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from make_fixtures import Objects


def make_deletes(log: Objects, schema: pa.Schema, path: str) -> None:
    """Deletes of both kinds, with the object that one points to.

    Args:
        schema: Of the table `hourly`.
        path: Of a live file of it.
    """
    names = [TOMBSTONES, ROW_DELETES]
    upgrade = wire.Upgrade(required_reader_features=names, required_writer_features=names)
    columns = pa.schema([schema.field("temp"), schema.field("name")])
    last = max(map(column_id, columns))
    tombstone = wire.Tombstone(
        table="hourly",
        predicate="temp > 30 OR name LIKE 'a%'",
        columns=encode_definition("hourly", columns, {"name": pa.scalar("none")}, last),
    )
    intent = log.intent(wire.Action(upgrade=upgrade), wire.Action(tombstone=tombstone))
    item = wire.RowDeletes(table="hourly", path=path, cardinality=3, covers_below=2)
    item.object = deletes_path("hourly", 3, intent.transaction_id, 0)
    meta = FooterMetadata(
        writer="EWR",
        database="weather",
        table="hourly",
        partition="",
        transaction_id=intent.transaction_id,
        number=0,
        base_revision=1,
        base_transaction_id=log.state.transaction_id,
        epoch=3,
        first_clock=0,
        last_clock=0,
        schema=pa.schema([]),
        log_id=log.log.log_id,
        incarnation=2,
        slot_seed=log.slot_seed,
        app_id="loader",
        app_version=7,
        operation="delete",
    )
    inner = wire.RowDeletes(table="hourly", path=path, cardinality=3, covers_below=2)
    body = encode_deletes(meta, [(inner, encode_bitmap(np.array([0, 4, 9])))])
    item.offset, item.length, item.digest = inner.offset, inner.length, inner.digest
    intent.actions.append(wire.Action(row_deletes=item))
    log.commit("deletes", intent, epoch=3)
    log.put("deletes", item.object.rsplit("/", 1)[-1], body)
    log.checkpoint("checkpoint-deletes")
