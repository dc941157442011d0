"""Objects of the log to bytes and back: frame, protobuf and Arrow together, with every rule that
one object can break on its own. What needs the objects before it is in `log.state`. Pure.

Source: docs/format.md, sections 4 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import DecodeError

from ...errors import CorruptObject, InvalidPath, UnsupportedFeature
from ..wire import lakelog_checkpoint_pb2 as checkpoint_wire
from ..wire import lakelog_transaction_pb2 as wire
from .frame import FrameKind, decode_frame, encode_frame
from .names import MAX_SEGMENT_BYTES, LogObject, check_path, parse_log_object
from .run import Batch, Run
from .schema import fingerprint
from .segment_bytes import REQUIRED, encode_ipc
from .segments import MAX_NUMBER

if TYPE_CHECKING:
    import pyarrow as pa

MAX_TIME_US = 1 << 55  # the year 3111: what datetime, and every engine, can hold
DENSE_FROM_BYTES = 1 << 20
MAX_TINY = 1 << 18
OPERATIONS = frozenset({"append", "delete", "overwrite", "rewrite", "row_delta", "maintenance"})


@dataclass(frozen=True, slots=True)
class DecodedTransaction:
    """A transaction object that is sound in itself.

    Attributes:
        message: The protobuf message.
        digest: Frame digest, 32 bytes.
        key: Its object, for messages.
        batches: Decoded `AddBatch` actions, by their position.
    """

    message: wire.Transaction
    digest: bytes
    key: str
    batches: dict[int, Batch] = field(default_factory=dict)

    @property
    def transaction_ids(self) -> frozenset[bytes]:
        """The ids of the transactions that it commits."""
        return frozenset(member.transaction_id for member in self.message.commit.members)


@dataclass(frozen=True, slots=True)
class DecodedCheckpoint:
    """A checkpoint object that is sound in itself; segments by reference are still to be fetched.

    Attributes:
        message: The protobuf message.
        key: Its object, for messages.
        attachments: Bytes of the inline segments.
    """

    message: checkpoint_wire.Checkpoint
    key: str
    attachments: memoryview


def encode_transaction(message: wire.Transaction, attachments: bytes = b"") -> tuple[bytes, bytes]:
    """The object's bytes and digest."""
    return encode_frame(
        FrameKind.TRANSACTION, message.SerializeToString(deterministic=True), attachments
    )


def decode_transaction(data: bytes, key: str) -> DecodedTransaction:
    """Decode and check one transaction object.

    Args:
        data: The whole object.
        key: Its key or name; the part after the last `/` must be a transaction's name.
    Raises:
        CorruptObject: Damaged, or breaking a rule of the format.
        UnsupportedFeature: A format version or a kind of action of the future.
    """
    name = _name(key, "transaction")
    frame = decode_frame(data, FrameKind.TRANSACTION, key)
    message = wire.Transaction()
    _check_density(frame.message, key)
    try:
        message.ParseFromString(frame.message)
    except DecodeError as error:
        raise CorruptObject(f"{key} is not a transaction message: {error}", key=key) from error
    _check_head(message, name, key)
    _check_commit(message, key)
    batches: dict[int, Batch] = {}
    for position, action in enumerate(message.actions):
        kind = action.WhichOneof("kind")
        if kind == "add":
            _check_add(action.add, key)
        elif kind == "remove":
            _checked_path(action.remove.path, key)
        elif kind == "add_batch":
            batches[position] = _decode_batch(
                action.add_batch, frame.attachments, message.revision, key
            )
        elif kind == "schema":
            _check_schema(action.schema, key)
        elif kind == "tombstone":
            raise UnsupportedFeature(
                f"{key} holds a soft delete, which needs the feature 'tombstones'",
                key=key,
                hint="Upgrade lakelog",
            )
        elif kind is None and not action.optional:
            raise UnsupportedFeature(
                f"{key} holds an action of a kind this lakelog doesn't know",
                key=key,
                hint="Upgrade lakelog",
            )
    return DecodedTransaction(message, frame.digest, key, batches)


def _check_density(message: bytes, key: str) -> None:
    """Refuse a message of so many tiny messages that they would take a hundred times its bytes."""
    if len(message) <= DENSE_FROM_BYTES:
        return
    raw = np.frombuffer(message, np.uint8)
    tiny = (raw[:-1] & 7 == 2) & (raw[1:] < 8)  # a tag with a length, and a length below 8
    _require(int(np.count_nonzero(tiny)) <= MAX_TINY, key, "holds too many empty messages")


def _check_head(message: wire.Transaction, name: LogObject, key: str) -> None:
    _require(message.revision == name.revision, key, f"says it is revision {message.revision}")
    _require(len(message.uuid) == 16, key, "has a uuid that is not 16 bytes")
    _require(message.uuid[:4].hex() == name.uuid8, key, f"says its uuid is {message.uuid.hex()}")
    first = message.revision == 0
    _require(
        len(message.previous_uuid) == (0 if first else 16),
        key,
        "has a wrong link to the previous uuid",
    )
    _require(
        len(message.previous_digest) == (0 if first else 32),
        key,
        "has a wrong link to the previous digest",
    )
    _require(1 <= message.epoch < 1 << 62, key, f"has epoch {message.epoch}")


def _check_commit(message: wire.Transaction, key: str) -> None:
    _require(message.HasField("commit"), key, "has no commit")
    commit = message.commit
    _require(len(commit.successor_uuid) == 16, key, "names no successor")
    _require(
        0 < commit.committed_at_us < MAX_TIME_US,
        key,
        f"has the commit time {commit.committed_at_us} µs",
    )
    _require(len(commit.members) > 0, key, "has a commit without members")
    for member in commit.members:
        _require(len(member.transaction_id) == 16, key, "has a transaction id that is not 16 bytes")
        _require(0 < len(member.operation) <= 64, key, f"has the operation {member.operation!r}")


def _check_add(add: wire.Add, key: str) -> None:
    _checked_path(add.path, key)
    _checked_table(add.table, key)
    _require(_fits(add.partition), key, f"adds {add.path} to a partition with too long a name")
    _require(len(add.schema_fingerprint) == 16, key, f"adds {add.path} without a schema")
    numbers = (add.size_bytes, add.row_count, add.footer_bytes)
    sane = all(number < MAX_NUMBER for number in numbers) and all(
        group.row_count < MAX_NUMBER for group in add.row_groups
    )
    _require(sane, key, f"adds {add.path} with an absurd size")


def _check_schema(schema: wire.Schema, key: str) -> None:
    _checked_table(schema.table, key)
    right = schema.fingerprint == fingerprint(schema.arrow_schema)
    _require(right, key, "holds a schema that its fingerprint doesn't name")


def _decode_batch(batch: wire.AddBatch, attachments: memoryview, revision: int, key: str) -> Batch:
    _checked_table(batch.table, key)
    run = Run.of_segment(_slice(batch.files, attachments, key), batch.files.row_count, key)
    revisions = run.core.column("revision").unique().to_pylist()
    _require(revisions == [revision], key, "holds a batch of other revisions")
    groups = batch.row_groups
    raw = (_slice(groups, attachments, key), groups.row_count, key) if groups.row_count else None
    return Batch(run, raw)


def _slice(piece: wire.Attachment, attachments: memoryview, key: str) -> memoryview:
    end = piece.offset + piece.length
    _require(end <= len(attachments), key, "names an attachment that it doesn't have")
    return attachments[piece.offset : end]


def frame_segment(table: pa.Table) -> tuple[bytes, bytes]:
    """A segment object: its bytes and digest."""
    return encode_frame(FrameKind.SEGMENT, b"", encode_ipc(table))


def open_segment(data: bytes, digest: bytes, key: str) -> memoryview:
    """The Arrow IPC bytes of a segment object.

    Raises:
        CorruptObject: Damaged, or not the object that the checkpoint refers to.
    """
    frame = decode_frame(data, FrameKind.SEGMENT, key)
    _require(frame.digest == digest, key, "is not the segment that the checkpoint refers to")
    return frame.attachments


def encode_checkpoint(
    message: checkpoint_wire.Checkpoint, attachments: bytes
) -> tuple[bytes, bytes]:
    """The object's bytes and digest."""
    return encode_frame(
        FrameKind.CHECKPOINT, message.SerializeToString(deterministic=True), attachments
    )


def decode_checkpoint(data: bytes, key: str) -> DecodedCheckpoint:
    """Decode and check one checkpoint object, without its segments.

    Raises:
        CorruptObject: Damaged, or breaking a rule of the format.
        UnsupportedFeature: Of a format version or with a kind of segment of the future.
    """
    name = _name(key, "checkpoint")
    frame = decode_frame(data, FrameKind.CHECKPOINT, key)
    message = checkpoint_wire.Checkpoint()
    _check_density(frame.message, key)
    try:
        message.ParseFromString(frame.message)
    except DecodeError as error:
        raise CorruptObject(f"{key} is not a checkpoint message: {error}", key=key) from error
    _require(message.revision == name.revision, key, f"says it is revision {message.revision}")
    _require(
        len(message.uuid) == 16 and message.uuid[:4].hex() == name.uuid8,
        key,
        "has another uuid than its name",
    )
    _require(len(message.successor_uuid) == 16, key, "names no successor")
    _require(len(message.digest) == 32, key, "has no chain digest")
    _require(1 <= message.epoch < 1 << 62, key, f"has epoch {message.epoch}")
    _require(
        0 < message.committed_at_us < MAX_TIME_US,
        key,
        f"has the commit time {message.committed_at_us} µs",
    )
    for ref in message.segments:
        _check_ref(ref, frame.attachments, key)
    return DecodedCheckpoint(message, key, frame.attachments)


def _check_ref(ref: checkpoint_wire.SegmentRef, attachments: memoryview, key: str) -> None:
    if ref.kind not in REQUIRED:
        raise UnsupportedFeature(
            f"{key} holds a segment of kind {ref.kind}, which this lakelog doesn't know",
            key=key,
            hint="Upgrade lakelog",
        )
    if ref.name:
        name = parse_log_object(ref.name)
        _require(
            name is not None and name.kind == "segment",
            key,
            f"refers to a segment named {ref.name[:80]!r}",
        )
        _require(len(ref.digest) == 32, key, f"refers to {ref.name} without its digest")
    else:
        _require(
            ref.offset + ref.length <= len(attachments),
            key,
            "names an inline segment that it doesn't have",
        )


def _name(key: str, kind: str) -> LogObject:
    name = parse_log_object(key.rsplit("/", 1)[-1])
    if name is None or name.kind != kind:
        raise CorruptObject(f"{key} is not the name of a {kind}", key=key)
    return name


def _checked_path(path: str, key: str) -> None:
    try:
        check_path(path)
    except InvalidPath as error:
        raise CorruptObject(
            f"{key} names a path that no log may hold: {error.message}", key=key
        ) from error


def _checked_table(table: str, key: str) -> None:
    _require(len(table) > 0 and _fits(table), key, "names no table, or one with too long a name")


def _fits(name: str) -> bool:
    return len(name) <= MAX_SEGMENT_BYTES and len(name.encode()) <= MAX_SEGMENT_BYTES


def _require(condition: bool, key: str, problem: str) -> None:
    if not condition:
        raise CorruptObject(
            f"{key} {problem}",
            key=key,
            hint="The object was not written by a sound lakelog. Read an earlier point in time, "
            "or rebuild the log",
        )
