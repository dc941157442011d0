"""Deletes as messages: what a tombstone and row deletes must say, and bitmaps of rows. Pure.

Source: docs/format.md, sections 5.6 and 5.7.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptObject, InvalidPath
from ..wire import lakelog_deletes_pb2 as deletes_wire
from .definitions import definition_problem
from .footer import FooterMetadata
from .frame import Frame, FrameKind, LogIdentity, decode_frame, encode_frame, parse_message
from .names import check_path, fits_name, parse_deletes_file
from .segments import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as wire


TOMBSTONES: Final = "tombstones"  # the features
ROW_DELETES: Final = "row_deletes"
MAX_PREDICATE_BYTES: Final = 1 << 16
MAX_ROWS: Final = 1 << 32  # of a file whose rows can be named by a bitmap
MAX_BITMAP_BYTES: Final = 1 << 30


def tombstone_problem(item: wire.Tombstone) -> str:
    """What no tombstone can say; empty if nothing is wrong. The schema of its columns and its
    predicate are looked into when rows are read."""
    if not item.table or not fits_name(item.table):
        return "deletes rows of no table, or one of too long a name"
    if not 0 < len(item.predicate.encode()) <= MAX_PREDICATE_BYTES:
        return "deletes rows by a predicate of no size that can be"
    try:
        paths = [check_path(path).encode() for path in item.paths]
    except InvalidPath as error:
        return f"names a path that no log may hold: {error.message}"
    if not all(low < high for low, high in itertools.pairwise(paths)):
        return "deletes rows of files out of order"
    if not item.HasField("columns"):
        return ""
    if item.columns.table != item.table or not item.columns.columns:
        return "deletes rows by columns of another table, or by none"
    return definition_problem(item.columns)


def row_deletes_problem(item: wire.RowDeletes) -> str:
    """What no row deletes can say; empty if nothing is wrong."""
    if not item.table or not fits_name(item.table):
        return "deletes rows of no table, or one of too long a name"
    try:
        check_path(item.path)
        check_path(item.object)
    except InvalidPath as error:
        return f"names a path that no log may hold: {error.message}"
    if parse_deletes_file(item.object) is None or not item.object.startswith("data/"):
        return f"names {item.object} as an object of deletes"
    numbers = (item.offset, item.length, item.covers_below)
    if max(numbers) >= MAX_NUMBER or not 0 < item.length <= MAX_BITMAP_BYTES:
        return f"deletes rows of {item.path} by a bitmap that can't be"
    if not 0 < item.cardinality <= MAX_ROWS or len(item.digest) != 32:
        return f"deletes rows of {item.path} by a bitmap of no rows, or without a digest"
    return ""


def encode_bitmap(rows: np.ndarray) -> bytes:
    """Numbers of rows, ascending and distinct, as a bitmap in Roaring's portable form."""
    from pyroaring import BitMap

    found = BitMap(rows.astype(np.uint32))
    found.run_optimize()
    data: bytes = found.serialize()
    return data


def decode_bitmap(
    data: Any, digest: bytes, cardinality: int, key: str, *, below: int = MAX_ROWS
) -> np.ndarray:
    """The numbers of rows in a bitmap, ascending.

    Args:
        below: How many rows the file has. What names more takes no memory here.
    Raises:
        CorruptObject: It is not the one that the log names.
    """
    data = bytes(data)
    if hashlib.sha256(data).digest() != digest:
        raise damaged(key, "does not hold the bitmap that the log names")
    try:
        found = _bitmap(data)
    except ValueError as error:
        raise damaged(key, f"holds a bitmap that can't be read: {error}") from error
    if not 0 < len(found) == cardinality:
        raise damaged(key, f"names {len(found)} rows, the log says {cardinality}")
    if found.max() >= below:
        raise damaged(key, f"names row {found.max()} of a file of {below}")
    return _rows(found)


def bitmap_rows(data: bytes) -> np.ndarray:
    """Returns the numbers of rows in a bitmap, ascending. Raises `ValueError` for other bytes."""
    return _rows(_bitmap(data))


def _bitmap(data: bytes) -> Any:
    from pyroaring import BitMap

    if not data:
        raise ValueError("it is empty")
    return BitMap.deserialize(data)


def _rows(found: Any) -> np.ndarray:
    return np.frombuffer(found.to_array(), np.uint32)


def damaged(key: str, problem: str) -> CorruptObject:
    """Of an object of deletes that can't be used."""
    return CorruptObject(
        f"{key} {problem}: which rows were deleted can't be told",
        key=key,
        hint="Restore the object from a copy, or read a point in time before the delete",
    )


# --- Objects of row deletes: bitmaps of rows of some files ----------------------------------------

# The message has these fields under the names of `FooterMetadata`.
_FIELDS: Final = (
    "writer",
    "database",
    "table",
    "transaction_id",
    "number",
    "base_revision",
    "base_transaction_id",
    "epoch",
    "slot_seed",
    "app_id",
    "app_version",
    "operation",
)


def encode_deletes(meta: FooterMetadata, found: Sequence[tuple[wire.RowDeletes, bytes]]) -> bytes:
    """An object of row deletes. Offset, length and digest of each message are set.

    Args:
        meta: As of a data file of the transaction.
        found: Per file the message and its bitmap.
    """
    message = deletes_wire.DeletesObject(clock=meta.last_clock)
    for name in _FIELDS:
        setattr(message, name, getattr(meta, name))
    offset = 0
    for item, bitmap in found:
        item.offset, item.length = offset, len(bitmap)
        item.digest = hashlib.sha256(bitmap).digest()
        offset += len(bitmap)
        message.files.append(item)
    log = LogIdentity(meta.log_id, meta.incarnation)
    body = message.SerializeToString(deterministic=True)
    return encode_frame(FrameKind.DELETES, log, body, b"".join(b for _, b in found))[0]


def bitmaps_of(data: bytes, key: str) -> memoryview:
    """Returns the bitmaps in an object of row deletes, end to end. Raises `CorruptObject`."""
    return _opened(data, key)[0].attachments


def _opened(data: bytes, key: str) -> tuple[Frame, deletes_wire.DeletesObject]:
    frame = decode_frame(data, FrameKind.DELETES, key)
    message = deletes_wire.DeletesObject()
    parse_message(message, frame.message, key)
    return frame, message


def decode_deletes(data: bytes, key: str) -> tuple[FooterMetadata, deletes_wire.DeletesObject]:
    """Returns the metadata in an object of row deletes, and the whole message. Raises
    `CorruptObject`."""
    frame, message = _opened(data, key)
    if len(message.transaction_id) != 16 or len(message.slot_seed) != 16:
        raise CorruptObject(f"{key} doesn't say what transaction it was written for", key=key)
    return _metadata_of(message, frame.log), message


def _metadata_of(message: deletes_wire.DeletesObject, log: LogIdentity) -> FooterMetadata:
    """Returns what a message says of its transaction; the schema is empty.

    Args:
        log: Of the object's frame.
    """
    return FooterMetadata(
        **{name: getattr(message, name) for name in _FIELDS},
        partition="",
        first_clock=message.clock,
        last_clock=message.clock,
        schema=pa.schema([]),
        log_id=log.log_id,
        incarnation=log.incarnation,
    )
