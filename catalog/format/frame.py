"""The frame around every object: magic, sizes and one digest, so that no damage goes unseen. Pure.

Layout (all numbers little-endian):

    0   4  magic "LKLG"
    4   1  format version, 1
    5   1  kind: 1 transaction, 2 checkpoint, 3 segment, 4 ref, 5 deletes, 6 opening
    6   1  codec of the message: 0 none, 1 zstd
    7   1  zero
    8   4  length of the message as stored
    12  4  length of the message once decoded
    16  8  length of the attachments
    24 16  id of the log
    40  4  incarnation of the log
    44  4  zero
    48 32  SHA-256 of bytes 0 to 48 and of all that follows the header
    80     message, then attachments, then the end

Source: docs/format.md, section 3.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from ...errors import CorruptObject, UnsupportedFeature
from .names import MAX_INCARNATION

if TYPE_CHECKING:
    from google.protobuf.message import Message


MAGIC: Final = b"LKLG"
VERSION: Final = 1
HEADER_BYTES: Final = 80
MAX_MESSAGE_BYTES: Final = 8 << 20
MAX_ATTACHMENT_BYTES: Final = 1 << 30
MAX_OBJECT_BYTES: Final = HEADER_BYTES + MAX_MESSAGE_BYTES + MAX_ATTACHMENT_BYTES
_HEAD = struct.Struct("<4sBBBBIIQ16sII")
_COMPRESS_FROM: Final = 1024


@dataclass(frozen=True, slots=True, order=True)
class LogIdentity:
    """Which log an object belongs to, wherever it lies.

    Attributes:
        log_id: 16 random bytes, born with revision 0.
        incarnation: From 1; each rebuild begins the next.
    """

    log_id: bytes
    incarnation: int


class FrameKind(IntEnum):
    """What a frame holds. A frame of one kind under the name of another is corrupt."""

    TRANSACTION = 1
    CHECKPOINT = 2
    SEGMENT = 3
    REF = 4
    DELETES = 5
    OPENING = 6


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame.

    Attributes:
        kind: What it holds.
        message: The decoded protobuf message.
        attachments: Zero-copy view of what follows the message.
        digest: SHA-256 of the frame, 32 bytes: names these very bytes.
        log: The log it belongs to.
    """

    kind: FrameKind
    message: bytes
    attachments: memoryview
    digest: bytes
    log: LogIdentity


def encode_frame(
    kind: FrameKind, log: LogIdentity, message: bytes, attachments: bytes = b""
) -> tuple[bytes, bytes]:
    """Frame a message.

    Returns:
        The object's bytes, and its digest.
    Raises:
        ValueError: Over the size caps of the format.
    """
    if len(message) > MAX_MESSAGE_BYTES or len(attachments) > MAX_ATTACHMENT_BYTES:
        raise ValueError(
            f"message of {len(message)} or attachments of {len(attachments)} bytes: over the cap"
        )
    codec, stored = 0, message
    if len(message) >= _COMPRESS_FROM:
        packed = _zstd().compress(message, asbytes=True)
        if len(packed) < len(message):
            codec, stored = 1, packed
    sizes = (len(stored), len(message), len(attachments))
    head = _HEAD.pack(MAGIC, VERSION, kind, codec, 0, *sizes, log.log_id, log.incarnation, 0)
    digest = hashlib.sha256(head)
    digest.update(stored)
    digest.update(attachments)
    return b"".join((head, digest.digest(), stored, attachments)), digest.digest()


def log_id_in(header: bytes) -> bytes:
    """The id of the log that an object says it is of; empty of what is no frame. Nothing is
    checked."""
    sound = len(header) >= HEADER_BYTES and header.startswith(MAGIC)
    return bytes(_HEAD.unpack_from(header)[8]) if sound else b""


def decode_frame(
    data: bytes, kind: FrameKind, key: str, *, incarnation: int | None = None
) -> Frame:
    """Check and open a frame. Nothing is decompressed or parsed before the sizes and the digest are
    known to be right.

    Args:
        data: The whole object.
        kind: What its name says it is.
        key: Named in errors.
        incarnation: What its name says; None where the name says none.
    Raises:
        CorruptObject: Cut short, altered, or of another kind or incarnation.
        UnsupportedFeature: A format version or codec of the future.
    """
    if len(data) < HEADER_BYTES:
        raise _corrupt(key, f"has {len(data)} bytes, fewer than a header")
    head = _HEAD.unpack_from(data)
    magic, version, found, codec, zero, stored, decoded, attached, log_id, own, rest = head
    if magic != MAGIC:
        raise _corrupt(key, "does not begin with the magic of lakelog")
    if len(data) != HEADER_BYTES + stored + attached:
        raise _corrupt(
            key, f"has {len(data)} bytes, its header says {HEADER_BYTES + stored + attached}"
        )
    view = memoryview(data)
    digest = hashlib.sha256(view[: _HEAD.size])
    digest.update(view[HEADER_BYTES:])
    if digest.digest() != data[_HEAD.size : HEADER_BYTES]:
        raise _corrupt(key, "does not match its digest")
    if version != VERSION:
        raise UnsupportedFeature(
            f"{key} has format version {version}, this lakelog reads {VERSION}",
            key=key,
            hint="Upgrade lakelog",
        )
    if found != kind or zero != 0 or rest != 0:
        raise _corrupt(key, f"is of kind {found}, its name says {kind.value} ({kind.name.lower()})")
    if not 1 <= own <= MAX_INCARNATION or incarnation not in (None, own):
        raise _corrupt(key, f"says it is of incarnation {own}")
    if decoded > MAX_MESSAGE_BYTES or stored > MAX_MESSAGE_BYTES or attached > MAX_ATTACHMENT_BYTES:
        raise _corrupt(key, "declares sizes over the caps of the format")
    body = view[HEADER_BYTES : HEADER_BYTES + stored]
    message = _decode(body, codec, decoded, key)
    attachments = view[HEADER_BYTES + stored :]
    return Frame(kind, message, attachments, digest.digest(), LogIdentity(log_id, own))


def _decode(body: memoryview, codec: int, decoded: int, key: str) -> bytes:
    if codec == 0:
        if len(body) != decoded:
            raise _corrupt(key, "has two lengths for one message")
        return bytes(body)
    if codec != 1:
        raise UnsupportedFeature(f"{key} uses codec {codec}", key=key, hint="Upgrade lakelog")
    try:
        message: bytes = _zstd().decompress(body, decompressed_size=decoded, asbytes=True)
    except OSError as error:
        raise _corrupt(key, f"does not decompress to {decoded} bytes") from error
    if len(message) != decoded:
        raise _corrupt(key, f"does not decompress to {decoded} bytes")
    return message


_codec: list[Any] = []


def _zstd() -> Any:
    # pyarrow is loaded on first use: `import lakelog` must stay quick.
    if not _codec:
        import pyarrow as pa

        _codec.append(pa.Codec("zstd"))
    return _codec[0]


def _corrupt(key: str, problem: str) -> CorruptObject:
    return CorruptObject(
        f"{key} {problem}",
        key=key,
        hint="The object is damaged. Restore it from a copy, read an earlier point in time, or "
        "rebuild the log",
    )


# --- The message of a frame -----------------------------------------------------------------------


def parse_message(message: Message, data: bytes, key: str) -> None:
    """Parses a frame's message. Raises `CorruptObject`."""
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptObject(f"{key} doesn't hold a message: {error}", key=key) from error


def has_unknown_fields(message: Message) -> bool:
    """Whether a message holds fields of a later version, at any depth."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()
