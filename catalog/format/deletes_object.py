"""Objects of row deletes: bitmaps of rows of some files, and what a data file's footer would say of
the transaction that they were written for. Pure.

Source: docs/format.md, section 5.7.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ...errors import CorruptObject
from ..wire import lakelog_deletes_pb2 as wire
from .frame import Frame, FrameKind, LogIdentity, decode_frame, encode_frame
from .messages import parse_message
from .own_objects import is_told, metadata_of, tell_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..wire import lakelog_transaction_pb2 as transaction_wire
    from .footer import FooterMetadata


def encode_deletes(
    meta: FooterMetadata, found: Sequence[tuple[transaction_wire.RowDeletes, bytes]]
) -> bytes:
    """An object of row deletes. Offset, length and digest of each message are set.

    Args:
        meta: As of a data file of the transaction.
        found: Per file the message and its bitmap.
    """
    message = wire.DeletesObject()
    tell_metadata(message, meta)
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
    if not is_told(message):
        raise CorruptObject(f"{key} doesn't say what transaction it was written for", key=key)
    return metadata_of(message, frame.log), message
