"""Frames, and Zstandard within, for the independent reader: docs/format.md, section 3."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import pyarrow as pa
from independent_wire import Damaged, TooNew, need

TRANSACTION, CHECKPOINT, SEGMENT = 1, 2, 3
MAX_MESSAGE, MAX_ATTACHED = 1 << 23, 1 << 30


@dataclass(frozen=True)
class Frame:
    """An opened frame, its message decoded but not parsed."""

    message: bytes
    attached: bytes
    log_id: bytes
    incarnation: int
    digest: bytes
    length: int


def open_frame(data: bytes, kind: int, incarnation: int | None = None) -> Frame:
    """The checks 1 to 5 of section 3.1.

    Args:
        incarnation: That of the name; None for segments.
    """
    need(len(data) >= 80 and data[:4] == b"LKLG", "no frame")
    version, found, codec, zero, stored, decoded, attached = struct.unpack_from("<4BIIQ", data, 4)
    own, zeros = struct.unpack_from("<II", data, 40)
    need(len(data) == 80 + stored + attached, "length of a frame")
    digest = data[48:80]
    need(hashlib.sha256(data[:48] + data[80:]).digest() == digest, "digest of a frame")
    if version != 1:
        raise TooNew(f"format version {version}")
    need(zero == 0 and zeros == 0 and found == kind, "header")
    need(max(stored, decoded) <= MAX_MESSAGE and attached <= MAX_ATTACHED, "size of a frame")
    need(1 <= own <= 999 and incarnation in (None, own), "incarnation")
    if codec not in (0, 1):
        raise TooNew(f"codec {codec}")
    body = data[80 : 80 + stored]
    if codec == 1:
        body = decompress(body, decoded)
    need(len(body) == decoded, "decoded length")
    return Frame(body, data[80 + stored :], data[24:40], own, digest, len(data))


def decompress(body: bytes, decoded: int) -> bytes:
    """What a Zstandard decoder makes of it, never more bytes than this."""
    try:
        found = pa.Codec("zstd").decompress(body, decompressed_size=decoded, asbytes=True)
    except (OSError, pa.ArrowException):
        raise Damaged("zstd") from None
    return bytes(found)
