"""Frames, and Zstandard within, for the independent reader: docs/format.md, section 3."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

import pyarrow as pa
from independent_wire import Damaged, TooNew, need

TRANSACTION, CHECKPOINT, SEGMENT = 1, 2, 3
MAX_MESSAGE, MAX_WINDOW, MAX_ATTACHED = 1 << 23, 1 << 23, 1 << 30


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
    """The content of exactly one Zstandard frame (RFC 8878)."""
    check_zstd(body, decoded)
    try:
        found = pa.Codec("zstd").decompress(body, decompressed_size=decoded, asbytes=True)
    except (OSError, pa.ArrowException):
        raise Damaged("zstd") from None
    return bytes(found)


def check_zstd(body: bytes, decoded: int) -> None:
    """The header of the frame, and that its blocks end where the bytes do."""
    need(len(body) >= 6 and body[:4] == b"\x28\xb5\x2f\xfd", "no Zstandard frame")
    flags = body[4]
    single, reserved, checksum = flags >> 5 & 1, flags >> 3 & 1, flags >> 2 & 1
    need(not reserved, "reserved bit of Zstandard")
    at, window = 5, decoded
    if not single:
        base = 1 << (10 + (body[at] >> 3))
        window, at = base + base // 8 * (body[at] & 7), at + 1
    need(window <= MAX_WINDOW, "window of Zstandard")
    wide = (0, 1, 2, 4)[flags & 3]
    need(not any(body[at : at + wide]), "dictionary of Zstandard")
    at += wide
    size = (1 if single else 0, 2, 4, 8)[flags >> 6]
    need(size and at + size <= len(body), "content size of Zstandard")
    content = int.from_bytes(body[at : at + size], "little") + (256 if size == 2 else 0)
    need(content == decoded, "content size of Zstandard")
    at, last = at + size, 0
    while not last:
        need(at + 3 <= len(body), "blocks of Zstandard")
        block = int.from_bytes(body[at : at + 3], "little")
        last, kind, length = block & 1, block >> 1 & 3, block >> 3
        need(kind != 3, "reserved block of Zstandard")
        at += 3 + (1 if kind == 1 else length)
    need(at + 4 * checksum == len(body), "bytes behind the Zstandard frame")
