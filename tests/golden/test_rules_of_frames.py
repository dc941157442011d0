"""Rule by rule, as `test_rules_of_both`: what a frame must be."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hand_log import Hooks
from hand_objects import Header, Tree, encode, frame
from hand_small import Small, add
from rule_outcome import told_by_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from three_readers import GoReader

OK, DAMAGED, TOO_NEW = "ok", "damaged", "too-new"


class Seen(Hooks):
    """Keeps the last message."""

    def message(self, what: str, message: Tree) -> Tree:
        self.last = message
        return message


def zstd(stored: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """A frame whose header says codec 1, with any stored bytes."""

    def reframe(raw: bytes) -> bytes:
        head = bytearray(frame(Header(1, b"L" * 16), stored(raw))[:48])
        head[6], head[12:16] = 1, len(raw).to_bytes(4, "little")
        body = stored(raw)
        return bytes(head) + hashlib.sha256(bytes(head) + body).digest() + body

    return reframe


def framed(**header: Any) -> Callable[[bytes], bytes]:
    return lambda raw: frame(Header(**{"kind": 1, "log_id": b"L" * 16} | header), raw)


def packed(raw: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(raw, asbytes=True))


def raw_block(raw: bytes, descriptor: int, *between: int) -> bytes:
    """A Zstandard frame of one raw block, its content size in 4 bytes."""
    size = len(raw).to_bytes(4, "little")
    block = (len(raw) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor, *between]) + size + block + raw


def padded(raw: bytes, length: int) -> bytes:
    """The message with an unknown field behind, so that it has this length."""
    room = length - len(raw) - 6
    lengths = bytes([room & 127 | 128, room >> 7 & 127 | 128, room >> 14 & 127 | 128, room >> 21])
    return raw + b"\xa2\x06" + lengths + bytes(room)


SKIPPABLE = b"\x50\x2a\x4d\x18\x01\0\0\0x"
FRAMES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "plain": (framed(), OK),
    "zstd": (framed(codec=1), OK),
    "zstd longer": (framed(codec=1, decoded=1 << 20), DAMAGED),
    "zstd shorter": (framed(codec=1, decoded=7), DAMAGED),
    "zstd of nothing of it": (zstd(bytes), DAMAGED),
    "zstd, one raw block": (zstd(lambda raw: raw_block(raw, 0xA0)), OK),
    "zstd, dictionary 0": (zstd(lambda raw: raw_block(raw, 0xA1, 0)), OK),
    "zstd, dictionary 0 in four bytes": (zstd(lambda raw: raw_block(raw, 0xA3, 0, 0, 0, 0)), OK),
    "zstd, dictionary 7": (zstd(lambda raw: raw_block(raw, 0xA1, 7)), DAMAGED),
    "zstd, dictionary 2^24": (zstd(lambda raw: raw_block(raw, 0xA3, 0, 0, 0, 1)), DAMAGED),
    "zstd, a window of 8 MiB": (zstd(lambda raw: raw_block(raw, 0x80, 13 << 3)), OK),
    "zstd, a wrong checksum": (zstd(lambda raw: raw_block(raw, 0xA4) + bytes(4)), DAMAGED),
    "zstd, two frames": (zstd(lambda raw: packed(raw[:9]) + packed(raw[9:])), OK),
    "zstd and a skippable frame": (zstd(lambda raw: packed(raw) + SKIPPABLE), OK),
    "a skippable frame and zstd": (zstd(lambda raw: SKIPPABLE + packed(raw)), OK),
    "zstd and a byte": (zstd(lambda raw: packed(raw) + b"\0"), DAMAGED),
    "two lengths": (framed(decoded=7), DAMAGED),
    "codec 2": (framed(codec=2), TOO_NEW),
    "codec 2, another incarnation": (framed(codec=2, incarnation=2), DAMAGED),
    "codec 2, another kind": (framed(codec=2, kind=2), DAMAGED),
    "codec 2, absurd sizes": (framed(codec=2, decoded=(1 << 23) + 1), DAMAGED),
    "version 2": (framed(version=2), TOO_NEW),
    "version 0": (framed(version=0), TOO_NEW),
    "version 2 of all unknown": (
        framed(version=2, kind=77, zero=1, zeros=1, codec=9, incarnation=0),
        TOO_NEW,
    ),
    "version 2, damaged": (lambda raw: framed(version=2)(raw)[:-1] + b"!", DAMAGED),
    "kind of a checkpoint": (framed(kind=2), DAMAGED),
    "kind of a ref": (framed(kind=4), DAMAGED),
    "byte 7": (framed(zero=1), DAMAGED),
    "bytes 44 to 47": (framed(zeros=1 << 31), DAMAGED),
    "another incarnation": (framed(incarnation=2), DAMAGED),
    "another log": (framed(log_id=b"M" * 16), DAMAGED),
    "magic": (framed(magic=b"lklg"), DAMAGED),
    "attachments that nobody names": (
        lambda raw: frame(Header(1, b"L" * 16), raw, b"x" * 100),
        OK,
    ),
    "longer than it says": (lambda raw: framed()(raw) + b"\0", DAMAGED),
    "shorter than it says": (lambda raw: framed()(raw)[:-1], DAMAGED),
    "shorter than a header": (lambda raw: framed()(raw)[:79], DAMAGED),
    "empty": (lambda raw: b"", DAMAGED),
    "field cut": (lambda raw: framed()(raw + b"\xa2\x06\x05ab"), DAMAGED),
    "varint cut": (lambda raw: framed()(raw + b"\xa0\x06\xff"), DAMAGED),
    "message cut": (lambda raw: framed()(raw[:-1]), DAMAGED),
    "message as long as may be": (lambda raw: framed()(padded(raw, 1 << 23)), OK),
    "message too long": (lambda raw: framed()(padded(raw, (1 << 23) + 1)), DAMAGED),
    "as long as may be, packed": (lambda raw: framed(codec=1)(padded(raw, 1 << 23)), OK),
    "too long, packed": (lambda raw: framed(codec=1)(padded(raw, (1 << 23) + 1)), DAMAGED),
}


@pytest.mark.parametrize("case", FRAMES)
def test_a_frame(case: str, maybe_go: GoReader | None) -> None:
    reframe, expected = FRAMES[case]
    hooks = Seen()
    log = Small(hooks).schema().commit(add("data/c"))
    name = min(log.log.transactions)
    log.log.transactions[name] = reframe(encode(hooks.last))
    assert told_by_all(log, maybe_go) == expected
