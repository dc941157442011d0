"""Protobuf, paths and frames for the independent reader. See `independent_reader`."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pyarrow as pa

BIG = 1 << 62
TRANSACTION, CHECKPOINT, SEGMENT = 1, 2, 3


class Refused(Exception):
    """The format says: refuse."""


class TooNew(Exception):
    """Refused for something that this reader doesn't know (section 9)."""


def need(condition: object, problem: str) -> None:
    if not condition:
        raise Refused(problem)


# --- Protobuf wire format -------------------------------------------------------------------------


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        need(at < len(data) and shift < 70, "varint")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value & ((1 << 64) - 1), at


class Message:
    """A protobuf message: raw values by field number, in order."""

    def __init__(self, data: bytes) -> None:
        self.fields: dict[int, list[Any]] = {}
        at = 0
        while at < len(data):
            tag, at = varint(data, at)
            kind = tag & 7
            need(kind in (0, 1, 2, 5) and tag >> 3, "wire type")
            if kind == 0:
                value: Any
                value, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}.get(kind)
                if size is None:
                    size, at = varint(data, at)
                need(at + size <= len(data), "message cut short")
                value, at = data[at : at + size], at + size
            self.fields.setdefault(tag >> 3, []).append(value)

    def has(self, number: int) -> bool:
        return number in self.fields

    def uint(self, number: int) -> int:
        return int(self.fields.get(number, [0])[-1])

    def sint(self, number: int) -> int:
        raw = self.uint(number)
        return (raw >> 1) ^ -(raw & 1)

    def raw(self, number: int) -> bytes:
        return bytes(self.fields.get(number, [b""])[-1])

    def raws(self, number: int) -> list[bytes]:
        return [bytes(item) for item in self.fields.get(number, [])]

    def text(self, number: int) -> str:
        return utf8(self.raw(number))

    def texts(self, number: int) -> list[str]:
        return [utf8(item) for item in self.raws(number)]

    def sub(self, number: int) -> Message:
        # Parts of one sub-message merge, which is what joining their bytes does.
        return Message(b"".join(self.raws(number)))

    def subs(self, number: int) -> list[Message]:
        return [Message(item) for item in self.raws(number)]


def utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("text that is not UTF-8") from None


# --- Section 2 ------------------------------------------------------------------------------------


def check_path(path: str) -> str:
    parts = path.encode().split(b"/")
    need(path.startswith("data/") and len(path.encode()) <= 892, f"path {path!r}")
    need(all(0 < len(part) <= 255 and part not in (b".", b"..") for part in parts), path)
    need(not any(char == "\\" or char < " " or char == "\x7f" for char in path), repr(path))
    return path


# --- Section 3 ------------------------------------------------------------------------------------


def open_frame(data: bytes, kind: int) -> tuple[bytes, bytes, bytes]:
    """Message, attachments, digest."""
    need(len(data) >= 56 and data[:4] == b"LKLG", "no frame")
    version, found, codec, zero, stored, decoded, attached = struct.unpack_from("<BBBBIIQ", data, 4)
    need(len(data) == 56 + stored + attached, "length")
    need(hashlib.sha256(data[:24] + data[56:]).digest() == data[24:56], "digest")
    if version != 1:
        raise TooNew(f"format version {version}")
    need(found == kind and zero == 0, "kind")
    need(max(stored, decoded) <= 1 << 23 and attached <= 1 << 30, "size")
    body = data[56 : 56 + stored]
    if codec == 1:
        try:
            body = pa.Codec("zstd").decompress(body, decompressed_size=decoded, asbytes=True)
        except OSError:
            raise Refused("zstd") from None
    elif codec != 0:
        raise TooNew(f"codec {codec}")
    need(len(body) == decoded, "decoded length")
    return body, data[56 + stored :], data[24:56]
