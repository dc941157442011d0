"""Transactions and checkpoints to bytes and back: frame and protobuf together, with every rule
that one object can break on its own. What needs the objects before it is in `log.state`. Pure.

In an object whose digest is right, what is too new is told before what is damaged: a later version
may have changed the rule that looks broken.

Source: docs/format.md, sections 4 to 6.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from ...errors import CorruptObject, InvalidPath, UnsupportedFeature
from ..wire import lakelog_checkpoint_pb2 as checkpoint_wire
from ..wire import lakelog_transaction_pb2 as wire
from . import definitions, deletes
from .frame import FrameKind, LogIdentity, decode_frame, encode_frame, parse_message
from .names import (
    LOCATIONS,
    MAX_INCARNATION,
    MAX_LOCATIONS,
    LogObject,
    check_path,
    fits_name,
    is_id,
    location_problem,
    parse_log_object,
    successor_uuid,
)
from .pieces import OF_A_PART, Piece, check_kind, has_sound_columns, has_sound_range, piece_of_ref
from .schema import PARTITION_COLUMNS, fingerprint
from .segments import FILES, MAX_NUMBER, MAX_TIME_US, REFERENCES

MAX_APP_ID_BYTES: Final = 1_024
MAX_FEATURES: Final = 256
MAX_REFERENCES: Final = 1 << 20  # each takes half a kilobyte of memory, however small its bytes are
MAX_FEATURE_CHARS: Final = 64
READER_FEATURES: Final[frozenset[str]] = frozenset(
    {
        definitions.FEATURE,
        deletes.ROW_DELETES,
        deletes.TOMBSTONES,
        LOCATIONS,
        PARTITION_COLUMNS,
    }
)
WRITER_FEATURES: Final[frozenset[str]] = READER_FEATURES
OPERATIONS = frozenset({"append", "delete", "overwrite", "rewrite", "row_delta", "maintenance"})


@dataclass(frozen=True, slots=True)
class DecodedTransaction:
    """A transaction object that is sound in itself.

    Attributes:
        message: The protobuf message.
        digest: Frame digest, 32 bytes.
        key: Its object, for messages.
        log: The log it belongs to.
        batches: References of `AddBatch` actions, by their position; not yet decoded.
    """

    message: wire.Transaction
    digest: bytes
    key: str
    log: LogIdentity
    batches: dict[int, tuple[Piece, ...]] = field(default_factory=dict)

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
        log: The log it belongs to.
        references: The segment that names all others.
        attachments: Bytes of the inline segments.
    """

    message: checkpoint_wire.Checkpoint
    key: str
    log: LogIdentity
    references: Piece
    attachments: memoryview


def encode_transaction(
    log: LogIdentity, message: wire.Transaction, attachments: bytes = b""
) -> tuple[bytes, bytes]:
    """The object's bytes and digest."""
    return encode_frame(
        FrameKind.TRANSACTION, log, message.SerializeToString(deterministic=True), attachments
    )


def decode_transaction(data: bytes, key: str) -> DecodedTransaction:
    """Decode and check one transaction object.

    Args:
        data: The whole object.
        key: Its key or name; the part after the last `/` must be a transaction's name.
    Raises:
        CorruptObject: Damaged, or breaking a rule of the format.
        UnsupportedFeature: A format version, feature, or kind of action or segment of the future.
    """
    name = _name(key, "transaction")
    frame = decode_frame(data, FrameKind.TRANSACTION, key, incarnation=name.incarnation)
    message = wire.Transaction()
    parse_message(message, frame.message, key)
    for action in message.actions:
        check_known(action, key)
    _check_head(message, name, key)
    _check_commit(message, key)
    batches: dict[int, tuple[Piece, ...]] = {}
    for position, action in enumerate(message.actions):
        kind = action.WhichOneof("kind")
        if kind == "add_batch":
            batches[position] = _batch(action.add_batch, frame.attachments, key)
        elif kind is not None:
            CHECKS[kind](getattr(action, kind), key)
    _check_special(message, frame.log.incarnation, key)
    return DecodedTransaction(message, frame.digest, key, frame.log, batches)


def check_known(action: wire.Action, key: str) -> None:
    """Refuse what a later version has brought in."""
    kind = action.WhichOneof("kind")
    problem = ""
    if kind is None and not action.optional:
        problem = "holds an action of a kind this lakelog doesn't know"
    elif kind == "upgrade":
        unknown = set(action.upgrade.required_reader_features) - READER_FEATURES
        problem = f"requires {', '.join(sorted(unknown))} from here on" if unknown else ""
    elif kind == "add_batch":
        for ref in action.add_batch.segments:
            check_kind(int(ref.segment.kind), key)
    if problem:
        raise UnsupportedFeature(
            f"{key} {problem}", key=key, hint="Upgrade lakelog, or read a revision before it"
        )


def _check_head(message: wire.Transaction, name: LogObject, key: str) -> None:
    _require(message.revision == name.revision, key, f"says it is revision {message.revision}")
    _require(len(message.uuid) == 16, key, "has a uuid that is not 16 bytes")
    _require(message.uuid[:4].hex() == name.uuid8, key, f"says its uuid is {message.uuid.hex()}")
    first = message.revision == 0
    sizes = (len(message.previous_uuid), len(message.previous_digest))
    _require(sizes == ((0, 0) if first else (16, 32)), key, "has a wrong link to the one before")
    _require(1 <= message.epoch < MAX_NUMBER, key, f"has epoch {message.epoch}")


def _check_commit(message: wire.Transaction, key: str) -> None:
    _require(message.HasField("commit"), key, "has no commit")
    commit = message.commit
    _require(len(commit.successor_uuid) == 16, key, "names no successor")
    _require(len(commit.slot_seed) == 16, key, "has a slot seed that is not 16 bytes")
    _check_time(commit.committed_at_us, key)
    _require(len(commit.members) > 0, key, "has a commit without members")
    for member in commit.members:
        _require(len(member.transaction_id) == 16, key, "has a transaction id that is not 16 bytes")
        _require(0 < len(member.operation) <= 64, key, f"has the operation {member.operation!r}")
        sane = member.app_version < MAX_NUMBER and len(member.app_id.encode()) <= MAX_APP_ID_BYTES
        _require(sane, key, "has an absurd application id or version")


def _check_special(message: wire.Transaction, incarnation: int, key: str) -> None:
    """Where Identity and Seal must and may stand."""
    found = (action.WhichOneof("kind") for action in message.actions)
    kinds = [kind for kind in found if kind is not None]  # without those that are ignored
    if message.revision == 0:
        _require(kinds[:1] == ["identity"], key, "doesn't say first whose log it begins")
    _require("seal" not in kinds or kinds == ["seal"], key, "has a seal among other actions")
    if kinds == ["seal"]:
        (seal,) = (a.seal for a in message.actions if a.WhichOneof("kind") == "seal")
        following = seal.next_incarnation
        right = incarnation < following <= MAX_INCARNATION
        _require(right, key, f"seals the log for incarnation {following}")


def _check_time(time_us: int, key: str) -> None:
    _require(0 < time_us < MAX_TIME_US, key, f"has the commit time {time_us} µs")


def _check_add(add: wire.Add, key: str) -> None:
    _check_file(add, key)
    _require(fits_name(add.partition), key, f"adds {add.path} to a partition with too long a name")
    _require(len(add.schema_fingerprint) == 16, key, f"adds {add.path} without a schema")
    _require(len(add.footer_digest) in (0, 8), key, f"adds {add.path} with a wrong footer digest")
    numbers = (add.size_bytes, add.row_count, add.footer_bytes)
    sane = all(number < MAX_NUMBER for number in numbers) and all(
        group.row_count < MAX_NUMBER for group in add.row_groups
    )
    _require(sane, key, f"adds {add.path} with an absurd size")


def _check_file(file: wire.Add | wire.Remove, key: str) -> None:
    try:
        check_path(file.path)
    except InvalidPath as error:
        raise CorruptObject(
            f"{key} names a path that no log may hold: {error.message}", key=key
        ) from error
    _check_table(file.table, key)


def _check_table(table: str, key: str) -> None:
    _require(len(table) > 0 and fits_name(table), key, "names no table, or one of too long a name")


def _check_schema(schema: wire.Schema, key: str) -> None:
    _check_table(schema.table, key)
    found = fingerprint(schema.arrow_schema)
    _require(schema.fingerprint == found, key, "holds a schema that its fingerprint doesn't name")


def _check_identity(identity: wire.Identity, key: str) -> None:
    _require(is_id(identity.writer) and is_id(identity.database), key, "names a log that can't be")
    sane = 0 <= identity.begun_at_us < MAX_TIME_US
    _require(sane, key, f"says that it was begun at {identity.begun_at_us} µs")


def _check_seal(seal: wire.Seal, key: str) -> None:
    _require(len(seal.rebuild_id) == 16, key, "has a seal without a rebuild id")


def _check_forget(forget: wire.Forget, key: str) -> None:
    for table in (*forget.tables, *(item.table for item in forget.schemas)):
        _check_table(table, key)
    right = all(len(item.fingerprint) == 16 for item in forget.schemas)
    _require(right, key, "forgets a schema by a wrong fingerprint")


def _check_upgrade(upgrade: wire.Upgrade, key: str) -> None:
    _check_features(upgrade.required_reader_features, key)  # how many: `log.state` counts them
    _check_features(upgrade.required_writer_features, key)


def _check_location(location: wire.Location, key: str) -> None:
    problem = location_problem(location.url)  # how many: `log.state` counts them
    _require(not problem, key, f"names the location {location.url[:200]!r}, which {problem}")


def _check_definition(definition: wire.Definition, key: str) -> None:
    _check_table(definition.table, key)
    problem = definitions.definition_problem(definition)
    _require(not problem, key, problem)


def _check_tombstone(item: wire.Tombstone, key: str) -> None:
    problem = deletes.tombstone_problem(item)
    _require(not problem, key, problem)


def _check_row_deletes(item: wire.RowDeletes, key: str) -> None:
    problem = deletes.row_deletes_problem(item)
    _require(not problem, key, problem)


def _check_features(names: Any, key: str) -> None:
    sane = all(0 < len(name) <= MAX_FEATURE_CHARS for name in names)
    _require(sane, key, "requires features of names that can't be")


CHECKS: Final[dict[str, Any]] = {
    "add": _check_add,
    "remove": _check_file,
    "schema": _check_schema,
    "upgrade": _check_upgrade,
    "identity": _check_identity,
    "seal": _check_seal,
    "forget": _check_forget,
    "location": _check_location,
    "definition": _check_definition,
    "tombstone": _check_tombstone,
    "row_deletes": _check_row_deletes,
}


def _batch(batch: wire.AddBatch, attachments: memoryview, key: str) -> tuple[Piece, ...]:
    pieces = [
        piece_of_ref(ref, attachments, key, folder="", inline_only=True) for ref in batch.segments
    ]
    kinds = [piece.kind for piece in pieces]
    right = kinds[:1] == [FILES] and all(kind == FILES or kind in OF_A_PART for kind in kinds)
    _require(right, key, "has a batch of other segments than files")
    sound = all(map(has_sound_columns, pieces))
    _require(sound, key, "has statistics of columns that can't be")
    _require(all(map(has_sound_range, pieces)), key, "has a batch of an impossible range")
    return tuple(pieces)


def encode_checkpoint(
    log: LogIdentity, message: checkpoint_wire.Checkpoint, attachments: bytes
) -> tuple[bytes, bytes]:
    """The object's bytes and digest."""
    return encode_frame(
        FrameKind.CHECKPOINT, log, message.SerializeToString(deterministic=True), attachments
    )


def decode_checkpoint(data: bytes, key: str) -> DecodedCheckpoint:
    """Decode and check one checkpoint object, without its segments.

    Raises:
        CorruptObject: Damaged, or breaking a rule of the format.
        UnsupportedFeature: Of a format version or with a kind of segment of the future.
    """
    name = _name(key, "checkpoint")
    frame = decode_frame(data, FrameKind.CHECKPOINT, key, incarnation=name.incarnation)
    message = checkpoint_wire.Checkpoint()
    parse_message(message, frame.message, key)
    unknown = set(message.required_reader_features) - READER_FEATURES
    if unknown:
        raise UnsupportedFeature(
            f"{key} requires {', '.join(sorted(unknown))}",
            key=key,
            hint="Upgrade lakelog, or read a point in time before the feature came in",
        )
    references = piece_of_ref(
        message.references, frame.attachments, key, folder=segments_beside(key), inline_only=False
    )
    references = replace(references, log=frame.log)
    _require(message.revision == name.revision, key, f"says it is revision {message.revision}")
    own = len(message.uuid) == 16 and message.uuid[:4].hex() == name.uuid8
    _require(own, key, "has another uuid than its name")
    _require(len(message.successor_uuid) == 16, key, "names no successor")
    _require(len(message.digest) == 32, key, "has no chain digest")
    _require(len(message.transaction_id) == 16, key, "has a transaction id that is not 16 bytes")
    _require(1 <= message.epoch < MAX_NUMBER, key, f"has epoch {message.epoch}")
    _check_time(message.committed_at_us, key)
    first = message.first_epoch
    _require(1 <= first <= message.epoch, key, f"says that its first epoch was {first}")
    _check_time(message.begun_at_us, key)
    _require(is_id(message.writer) and is_id(message.database), key, "names a log that can't be")
    _check_features(message.required_reader_features, key)
    _check_features(message.required_writer_features, key)
    for names in (message.required_reader_features, message.required_writer_features):
        ordered = [name.encode() for name in names]
        ascending = all(low < high for low, high in itertools.pairwise(ordered))
        sane = ascending and len(ordered) <= MAX_FEATURES
        _require(sane, key, "requires features out of order, or too many")
    _check_locations(message.locations, key)
    sane = references.kind == REFERENCES and references.rows <= MAX_REFERENCES
    _require(sane, key, "doesn't refer to its segments, or to too many")
    return DecodedCheckpoint(message, key, frame.log, references, frame.attachments)


def _check_locations(found: Any, key: str) -> None:
    ordered = [url.encode() for url in found]
    ascending = all(low < high for low, high in itertools.pairwise(ordered))
    sane = ascending and len(ordered) <= MAX_LOCATIONS
    _require(sane, key, "names locations out of order, or too many")
    for url in found:
        problem = location_problem(url)
        _require(not problem, key, f"names the location {url[:200]!r}, which {problem}")


def segments_beside(key: str) -> str:
    """The folder of the segments that a checkpoint of this key refers to."""
    return f"{key.rpartition('transactions/')[0]}segments/"


def _name(key: str, kind: str) -> LogObject:
    name = parse_log_object(key.rsplit("/", 1)[-1])
    if name is None or name.kind != kind:
        raise CorruptObject(f"{key} is not the name of a {kind}", key=key)
    return name


def _require(condition: bool, key: str, problem: str) -> None:
    if not condition:
        raise CorruptObject(
            f"{key} {problem}",
            key=key,
            hint="The object was not written by a sound lakelog. Read an earlier point in time, "
            "or rebuild the log",
        )


# --- Seals: the end of an incarnation, or of a name that was still promised -----------------------

_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class StandingSeal:
    """A seal that is there.

    Attributes:
        log: What it ends.
        revision, uuid: Its name.
        rebuild_id, next_incarnation: Of the rebuild that it was made for.
        epoch: Its own.
    """

    log: LogIdentity
    revision: int
    uuid: bytes
    rebuild_id: bytes
    next_incarnation: int
    epoch: int


def read_seal(body: bytes, key: str) -> StandingSeal | None:
    """Returns the seal that an object holds, whether or not it fits a chain; None if it is no seal.
    Raises `CorruptObject` or `UnsupportedFeature` if that can't be decided."""
    frame = decode_frame(body, FrameKind.TRANSACTION, key)
    message = wire.Transaction()
    try:
        message.ParseFromString(frame.message)
    except DecodeError:
        return None
    if [action.WhichOneof("kind") for action in message.actions] != ["seal"]:
        return None
    seal = message.actions[0].seal
    following = frame.log.incarnation < seal.next_incarnation <= MAX_INCARNATION
    if len(seal.rebuild_id) != _ID_BYTES or not following:
        return None
    return StandingSeal(
        frame.log,
        message.revision,
        message.uuid,
        seal.rebuild_id,
        seal.next_incarnation,
        message.epoch,
    )


def encode_seal(seal: StandingSeal, previous: tuple[bytes, bytes], at_us: int) -> bytes:
    """Returns the bytes of a seal: the same for each execution of a rebuild.

    Args:
        previous: Slot uuid and digest of the transaction before it; zero if that can't be read.
        at_us: Its commit time.
    """
    previous_uuid, previous_digest = previous if seal.revision else (b"", b"")
    sealed = wire.Seal(next_incarnation=seal.next_incarnation, rebuild_id=seal.rebuild_id)
    member = wire.Member(transaction_id=seal.rebuild_id, operation="maintenance", action_count=1)
    message = wire.Transaction(
        revision=seal.revision,
        uuid=seal.uuid,
        previous_uuid=previous_uuid,
        previous_digest=previous_digest,
        epoch=seal.epoch,
        actions=[wire.Action(seal=sealed)],
        commit=wire.Commit(
            members=[member],
            committed_at_us=at_us,
            successor_uuid=successor_uuid(seal.rebuild_id, seal.revision),
            slot_seed=seal.rebuild_id,
        ),
    )
    return encode_transaction(seal.log, message)[0]
