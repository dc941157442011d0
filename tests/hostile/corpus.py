"""Sound objects of every kind, which the fuzzer then spoils, and the states they apply to."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.log import build, piece_sink
from lakelog.catalog.log.checkpoint import EncodedCheckpoint, encode_state
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import LogBuilder, add_action, remove_action, schema_action

if TYPE_CHECKING:
    from lakelog.catalog.log.state import State

FOLDER = "w/db/transactions/"
SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
OTHER = pa.schema(
    [("a", pa.int32()), ("t", pa.timestamp("ns", "UTC")), ("l", pa.list_(pa.struct([("x", "f8")])))]
)


def statistics(column: int, number: int) -> wire.ColumnStatistics:
    """Bounds around a number."""
    low, high = (struct.pack("<q", number - 3), struct.pack("<q", number + 3))
    if column:
        low, high = b"aa", "üü".encode()
    return wire.ColumnStatistics(
        column=column, null_count=number % 3, min=low, max=high, min_exact=True, bloom_offset=4
    )


def some_add(path: str, number: int, schema: pa.Schema = SCHEMA) -> wire.Action:
    """An added file of some row groups."""
    groups = [
        wire.RowGroup(row_count=9, columns=[statistics(0, number), statistics(1, number)])
        for _ in range(number % 3)
    ]
    return add_action(path, schema=schema, partition=f"p{number % 2}", row_groups=groups)


@dataclass(frozen=True)
class Seed:
    """One sound object.

    Attributes:
        kind: What it is.
        key: Where it would lie.
        body: Its bytes.
        base: The state that a transaction applies to.
    """

    kind: FrameKind
    key: str
    body: bytes
    base: State | None = None

    def parts(self) -> tuple[bytes, bytes]:
        """Its message and its attachments."""
        frame = decode_frame(self.body, self.kind, self.key)
        return frame.message, bytes(frame.attachments)


@dataclass(frozen=True)
class Corpus:
    """Sound objects of one log.

    Attributes:
        adds, batch: Transactions.
        inline, spilled: Checkpoints of the same state.
        segments: The objects that `spilled` refers to.
        state: What both checkpoints say.
    """

    adds: Seed
    batch: Seed
    inline: Seed
    spilled: Seed
    segments: list[Seed]
    state: State


def build_corpus() -> Corpus:
    """The same objects in each process."""
    log = LogBuilder()
    log.commit(schema_action(schema=SCHEMA), some_add("data/a.parquet", 1))
    log.commit(
        *(some_add(f"data/p/{number}.parquet", number) for number in range(3)), app=("app", 3)
    )
    base = log.state.copy()
    adds = log.commit(
        schema_action(schema=OTHER),
        some_add("data/p/t/b.parquet", 2, OTHER),
        some_add("data/p/t/c.parquet", 1),
        remove_action("data/a.parquet"),
        app=("app", 7),
    )
    adds_seed = Seed(FrameKind.TRANSACTION, adds.key, log.objects[-1][1], base)
    base = log.state.copy()
    with mock.patch.object(build, "BATCH_FROM_FILES", 2):
        batch = log.commit(
            *(some_add(f"data/q/{number:02d}.parquet", number) for number in range(6)),
            remove_action("data/p/1.parquet"),
        )
    batch_seed = Seed(FrameKind.TRANSACTION, batch.key, log.objects[-1][1], base)
    inline = encode_state(log.state)
    with mock.patch.object(piece_sink, "SPILL_FROM_BYTES", 0):
        spilled = encode_state(log.state)
    assert batch.batches
    assert spilled.spilled
    segments = [Seed(FrameKind.SEGMENT, FOLDER + name, body) for name, body in spilled.spilled]
    return Corpus(
        adds_seed, batch_seed, _checkpoint(inline), _checkpoint(spilled), segments, log.state
    )


def _checkpoint(encoded: EncodedCheckpoint) -> Seed:
    return Seed(FrameKind.CHECKPOINT, FOLDER + encoded.name, encoded.body)
