"""Sound objects of every kind, which tests then spoil, and the states they apply to."""

from __future__ import annotations

import decimal
import hashlib
import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pyarrow as pa
from lakelog.catalog.format import frame
from lakelog.catalog.format.definitions import encode_definition
from lakelog.catalog.format.deletes import bitmap_rows, encode_bitmap
from lakelog.catalog.format.frame import (
    MAX_MESSAGE_BYTES,
    FrameKind,
    LogIdentity,
    decode_frame,
    encode_frame,
)
from lakelog.catalog.format.names import deletes_path, log_folder, segments_folder
from lakelog.catalog.log import build, checkpoint_files
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.testing.logs import LogBuilder, add_action, numbered, remove_action, schema_action
from loose import Loose

if TYPE_CHECKING:
    from lakelog.catalog.format.pieces import Piece
    from lakelog.catalog.log.state import State

FOLDER, SEGMENTS = log_folder("w", "db"), segments_folder("w", "db")
SCHEMA = pa.schema(
    [("a", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(30, 2)), ("f", pa.float64())]
)
WIDE = SCHEMA.append(pa.field("later", pa.bool_()))
OTHER = pa.schema(
    [("a", pa.int32()), ("t", pa.timestamp("ns", "UTC")), ("l", pa.list_(pa.struct([("x", "f8")])))]
)


def statistics(column: int, number: int) -> wire.ColumnStatistics:
    """Bounds around a number; those of text and decimals don't fit into their keys."""
    low, high = struct.pack("<q", number - 3), struct.pack("<q", number + 3)
    if column == 1:
        low, high = f"from {number:06d}".encode(), b"\xc3\xbc" * 9
    elif column == 2:
        low, high = (int(decimal.Decimal(n)).to_bytes(16, "little") for n in ("7e3", "8e25"))
    elif column == 3:
        low, high = struct.pack("<d", number - 0.5), struct.pack("<d", number + 0.5)
    return wire.ColumnStatistics(
        column=column, null_count=number % 3, min=low, max=high, min_exact=True,
        no_nan=column == 3, bloom_offset=4, bloom_bytes=32,
    )  # fmt: skip


def some_add(path: str, number: int, table: str = "t", schema: pa.Schema = SCHEMA) -> wire.Action:
    """An added file of some row groups, with statistics."""
    columns = range(1 if schema is OTHER else 4)
    groups = [
        wire.RowGroup(row_count=9, columns=[statistics(column, number) for column in columns])
        for _ in range(number % 3)
    ]
    return add_action(path, table, schema=schema, partition=f"p{number % 2}", row_groups=groups)


def definition(table: str, schema: pa.Schema) -> wire.Definition:
    """All columns, the first of them with a default."""
    first = schema.field(0).name
    value = pa.scalar(7, schema.field(0).type)
    found = numbered(schema)
    return encode_definition(table, found, {first: value}, len(found) + 2, key=[first])


def define(table: str, schema: pa.Schema) -> wire.Action:
    return wire.Action(definition=definition(table, schema))


def bury(table: str, number: int, *paths: str) -> wire.Action:
    """A tombstone of a table, or of some of its files."""
    columns = definition(table, pa.schema([("a", pa.int64())]))
    columns.ClearField("key")
    found = wire.Tombstone(table=table, predicate=f"a > {number}", columns=columns, paths=paths)
    return wire.Action(tombstone=found)


@cache
def bitmap(number: int) -> bytes:
    """A few rows, of all kinds of containers."""
    rows = [*range(number, 9), *range(1 << 17, (1 << 17) + 9_000, 2), *range(1 << 18, 1 << 19)]
    return encode_bitmap(np.array(rows))


def strike(path: str, number: int, table: str = "t", below: int = 0) -> wire.Action:
    """Row deletes of a file."""
    data = bitmap(number)
    found = wire.RowDeletes(
        table=table, path=path, object=deletes_path(table, 1, bytes(16), number), offset=number,
        length=len(data), cardinality=len(bitmap_rows(data)), covers_below=below,
        digest=hashlib.sha256(data).digest(),
    )  # fmt: skip
    return wire.Action(row_deletes=found)


@dataclass(frozen=True)
class Seed:
    """One sound object.

    Attributes:
        kind: What it is.
        key: Where it would lie.
        body: Its bytes.
        log: The log it belongs to.
        base: The state that a transaction applies to.
    """

    kind: FrameKind
    key: str
    body: bytes
    log: LogIdentity
    base: State | None = None

    def parts(self) -> tuple[bytes, bytes]:
        """Its message and its attachments."""
        decoded = decode_frame(self.body, self.kind, self.key)
        return decoded.message, bytes(decoded.attachments)

    def signed(self, message: bytes, attachments: bytes) -> bytes:
        """Another content in its place, with a right digest, also where it is over the caps: those
        are for a reader to refuse."""
        with mock.patch.object(frame, "MAX_MESSAGE_BYTES", max(len(message), MAX_MESSAGE_BYTES)):
            return encode_frame(self.kind, self.log, message, attachments)[0]


@dataclass(frozen=True)
class Corpus:
    """Sound objects of one log.

    Attributes:
        adds, batch: Transactions.
        inline, spilled: Checkpoints of the same state, pieces inside and as objects.
        segments: The objects that `spilled` refers to, by name.
        pieces: Their references, of each kind one or more.
        loose: The checkpoint taken apart.
        state: What both checkpoints say.
    """

    adds: Seed
    batch: Seed
    inline: Seed
    spilled: Seed
    segments: dict[str, Seed]
    pieces: list[Piece]
    loose: Loose
    state: State

    def one_of_each_kind(self) -> dict[int, tuple[Piece, Seed]]:
        """A segment of each kind, by its number."""
        return {piece.kind: (piece, self.segments[piece.name]) for piece in self.pieces}


def grown_log(spill_from: int, *, changing: bool = False) -> LogBuilder:
    """Two tables; two runs of files, some of them dead; all kinds of pieces, of some two. The same
    transactions in each process, whatever is spilled.

    Args:
        changing: With definitions, tombstones and row deletes.
    """
    with mock.patch.object(checkpoint_files, "SPILL_FROM_BYTES", spill_from):
        log = LogBuilder()
        paths = [f"data/p/{number:02d}.parquet" for number in range(14)]
        log.commit(
            schema_action(schema=SCHEMA), schema_action("u", OTHER), schema_action(schema=WIDE),
            *(some_add(path, number) for number, path in enumerate(paths)),
            *(some_add(f"data/u/{number}.parquet", number, "u", OTHER) for number in range(4)),
            some_add("data/p/wide.parquet", 1, "t", WIDE),
            app=("app", 3),
        )  # fmt: skip
        log.commit(app=("other", 1))
        log.commit(app=("third", 1))
        log.checkpoint()
        log.commit(
            some_add("data/q/00.parquet", 2), some_add("data/q/01.parquet", 1),
            remove_action(paths[3]), remove_action(paths[9]), app=("app", 4),
        )  # fmt: skip
        if changing:
            log.commit(
                define("t", WIDE), define("u", OTHER), bury("t", 0),
                bury("u", 1, "data/u/0.parquet"), bury("t", 3),
                strike(paths[1], 0), strike(paths[1], 1), strike("data/u/1.parquet", 2, "u"),
            )  # fmt: skip
        log.checkpoint()
    return log


def build_corpus() -> Corpus:
    """The same objects in each process."""
    log = grown_log(0, changing=True)
    spilled = Seed(FrameKind.CHECKPOINT, FOLDER + log.checkpoints[-1][0], b"", log.log)
    loose = Loose.of_checkpoint(log.checkpoints[-1][1], spilled.key, log.segments)
    body, objects = loose.build(spill=True)
    pieces = [*log.state.pieces, loose.references(body, spilled.key)]
    held = {
        name: Seed(FrameKind.SEGMENT, SEGMENTS + name, one, log.log)
        for name, one in objects.items()
    }
    state = log.copy()
    base = log.copy()
    adds = log.commit(
        schema_action(schema=OTHER),
        some_add("data/r/b.parquet", 2, "t", OTHER),
        some_add("data/r/c.parquet", 1),
        remove_action("data/p/00.parquet"),
        remove_action("data/q/01.parquet"),
        wire.Action(upgrade=wire.Upgrade(required_writer_features=["later"])),
        wire.Action(forget=wire.Forget(applications_before_us=1, tables=["gone"])),
        wire.Action(identity=wire.Identity(writer="w", database="db")),
        define("t", SCHEMA),
        bury("t", 2, "data/p/02.parquet", "data/p/04.parquet"),
        bury("t", 1),
        strike("data/p/02.parquet", 3),
        strike("data/p/04.parquet", 4, below=2),
        app=("app", 7),
    )
    adds_seed = Seed(FrameKind.TRANSACTION, adds.key, log.objects[-1][1], log.log, base)
    base = log.copy()
    with mock.patch.object(build, "BATCH_FROM_FILES", 2):
        batch = log.commit(
            *(some_add(f"data/s/{number:02d}.parquet", number) for number in range(6)),
            remove_action("data/p/01.parquet"),
        )
    batch_seed = Seed(FrameKind.TRANSACTION, batch.key, log.objects[-1][1], log.log, base)
    assert batch.batches
    inline = grown_log(1 << 30, changing=True).checkpoints[-1]
    return Corpus(
        adds_seed, batch_seed,
        Seed(FrameKind.CHECKPOINT, FOLDER + inline[0], inline[1], log.log),
        Seed(FrameKind.CHECKPOINT, spilled.key, body, log.log),
        held, pieces, loose, state,
    )  # fmt: skip
