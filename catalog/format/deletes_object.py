"""Objects of row deletes: bitmaps of rows of some files, and what a data file's footer would say of
the transaction that they were written for. Pure.

Source: docs/format.md, section 5.7.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import CorruptObject
from ..wire import lakelog_deletes_pb2 as wire
from .footer import FooterMetadata
from .frame import Frame, FrameKind, LogIdentity, decode_frame, encode_frame
from .messages import parse_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as transaction_wire


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


def encode_deletes(
    meta: FooterMetadata, found: Sequence[tuple[transaction_wire.RowDeletes, bytes]]
) -> bytes:
    """An object of row deletes. Offset, length and digest of each message are set.

    Args:
        meta: As of a data file of the transaction.
        found: Per file the message and its bitmap.
    """
    message = wire.DeletesObject(clock=meta.last_clock)
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
    """The bitmaps in an object of row deletes, end to end.

    Raises:
        CorruptObject: It is damaged, or none.
    """
    return _opened(data, key)[0].attachments


def _opened(data: bytes, key: str) -> tuple[Frame, wire.DeletesObject]:
    frame = decode_frame(data, FrameKind.DELETES, key)
    message = wire.DeletesObject()
    parse_message(message, frame.message, key)
    return frame, message


def decode_deletes(data: bytes, key: str) -> tuple[FooterMetadata, wire.DeletesObject]:
    """What an object of row deletes says of its transaction, and the whole message.

    Raises:
        CorruptObject: It is damaged, or none.
    """
    frame, message = _opened(data, key)
    if len(message.transaction_id) != 16 or len(message.slot_seed) != 16:
        raise CorruptObject(f"{key} doesn't say what transaction it was written for", key=key)
    return _metadata_of(message, frame.log), message


def _metadata_of(message: wire.DeletesObject, log: LogIdentity) -> FooterMetadata:
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
