"""Spoils protobuf messages and Arrow IPC bytes, knowing how they are built. Seeded, so that each
input can be made again from its number."""

from __future__ import annotations

import hashlib
import struct
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

NUMBERS = [
    0, 1, 2, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
    (1 << 55) - 1, 1 << 55, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
]  # fmt: skip
TEXTS = [
    b"", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"../../w2/db/x", b"data/../x", b"/etc/passwd",
    b"data/%2e%2e/x", b"data/a\\b", b"data/\x00", b"s3://b/k", b"data//x", b"data/" + b"x" * 300,
    b"data/" + b"y/" * 500 + b"z", b"data/a.parquet", b"t", "\u202e".encode(), b"x" * 100_000,
    b"data/p/0.parquet", b"{", b"a" * 16, bytes(16), bytes(32), bytes(8), b"\xff" * 8, b"\xff" * 16,
    b"\x00" * 6 + b"\xf8\x7f", "𐏿".encode() * 16,
]  # fmt: skip
MOST_BYTES = 4 << 20  # of a field that is repeated; the memory measured is lakelog's, not ours


@dataclass(frozen=True)
class Field:
    """One field of a message as it stands in its bytes.

    Attributes:
        number, wire_type: Of its tag.
        value: An int, bytes, or the fields of a message inside.
    """

    number: int
    wire_type: int
    value: int | bytes | list[Field]


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse(data: bytes, depth: int = 0) -> list[Field] | None:
    """The fields of a message, those inside too where they can be taken for messages."""
    fields, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if at < 0 or number == 0 or kind not in (0, 2):
            return None
        value, at = _varint(data, at)
        if at < 0:
            return None
        if kind == 2:
            if at + value > len(data):
                return None
            body, at = data[at : at + value], at + value
            inner = parse(body, depth + 1) if depth < 6 and len(body) > 1 else None
            fields.append(Field(number, kind, inner if inner else body))
        else:
            fields.append(Field(number, kind, value))
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, -1


def unparse(fields: list[Field]) -> bytes:
    """The bytes of a message."""
    out = []
    for field in fields:
        out.append(varint(field.number << 3 | field.wire_type))
        if isinstance(field.value, int):
            out.append(varint(field.value) if field.wire_type == 0 else field.value.to_bytes(8))
        else:
            body = field.value if isinstance(field.value, bytes) else unparse(field.value)
            out += [varint(len(body)), body] if field.wire_type == 2 else [body]
    return b"".join(out)


def spoil_message(
    data: bytes, random: random.Random, attached: list[bytes], *, strict: bool = False
) -> bytes:
    """A message with one to four things wrong.

    Args:
        attached: Bytes that may take the place of a field, beside those of `TEXTS`.
        strict: Only other numbers, so that it is still a message.
    """
    fields = parse(data)
    assert fields
    if strict:
        _other_number(fields, random)
        return unparse(fields)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _spoil_tree(fields, random, attached)
    out = unparse(fields)
    if random.random() < 0.08:
        out = spoil_bytes(out, random)
    return out


def _other_number(fields: list[Field], random: random.Random) -> None:
    places = [(fields, at) for at, field in enumerate(fields) if isinstance(field.value, int)]
    for field in fields:
        if isinstance(field.value, list):
            inner = field.value
            places += [(inner, at) for at, one in enumerate(inner) if isinstance(one.value, int)]
    if places:
        place, at = random.choice(places)
        _spoil_value(place, at, random, [])


def _spoil_tree(fields: list[Field], random: random.Random, attached: list[bytes]) -> None:
    place = fields
    while place:
        at = random.randrange(len(place))
        inner = place[at].value
        if isinstance(inner, list) and inner and random.random() < 0.85:
            place = inner
            continue
        break
    if not place:
        return
    field = place[at]
    match random.randrange(10):
        case 0:
            place.insert(random.randrange(len(place) + 1), field)
        case 1:
            del place[at]
        case 2:
            other = random.randrange(len(place))
            a, b = place[at], place[other]
            place[at], place[other] = replace(a, value=b.value), replace(b, value=a.value)
            place[at] = replace(place[at], wire_type=b.wire_type)
            place[other] = replace(place[other], wire_type=a.wire_type)
        case 3:
            place[at] = replace(field, number=random.choice((*range(1, 17), 100, (1 << 29) - 1)))
        case 4:
            tag, inner_bytes = varint(field.number << 3 | 2), b""
            for _ in range(random.choice((2, 50, 99, 101, 5000)) - 1):
                inner_bytes = tag + varint(len(inner_bytes)) + inner_bytes
            place[at] = Field(field.number, 2, inner_bytes)
        case 5:
            place[at] = Field(field.number, random.choice((1, 3, 4, 5, 6, 7)), b"\x00\x01" * 6)
        case 6:
            count = random.choice((2, 10, 200))
            count = min(count, MOST_BYTES // len(unparse([field])))
            place.extend(deepcopy(field) for _ in range(count))  # each is spoiled apart
        case _:
            _spoil_value(place, at, random, attached)


def _spoil_value(place: list[Field], at: int, random: random.Random, attached: list[bytes]) -> None:
    field = place[at]
    if isinstance(field.value, int):
        near = [field.value + 1, max(0, field.value - 1), field.value ^ 1 << random.randrange(63)]
        place[at] = replace(field, value=random.choice(NUMBERS + near))
        return
    body = field.value if isinstance(field.value, bytes) else unparse(field.value)
    choice = random.random()
    if choice < 0.5:
        body = random.choice(TEXTS + attached)
    elif choice < 0.7:
        body = body[: random.randrange(len(body) + 1)]
    else:
        body = spoil_bytes(body, random)
    place[at] = replace(field, value=body)


def spoil_bytes(data: bytes, random: random.Random) -> bytes:
    """Bytes with some changed, cut or repeated."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        if not out:
            return random.randbytes(9)
        at = random.randrange(len(out))
        match random.randrange(6):
            case 0:
                out[at] ^= 1 << random.randrange(8)
            case 1:
                out[at] = random.choice((0, 1, 127, 128, 255))
            case 2:
                del out[at : at + random.randint(1, 40)]
            case 3:
                out[at:at] = random.randbytes(random.randint(1, 20))
            case 4:
                out[at:at] = out[at : at + random.randint(1, 40)]
            case 5:
                _number(out, at, random)
    return bytes(out)


def _number(out: bytearray, at: int, random: random.Random) -> None:
    """A number at a place where Arrow would have one."""
    form, width = random.choice((("<H", 2), ("<I", 4), ("<I", 4), ("<Q", 8), ("<Q", 8)))
    at -= at % width
    if at + width > len(out):
        return
    old = struct.unpack_from(form, out, at)[0]
    near = [old + 1, old - 1, old * 2, old + 8, old - 8, -old, len(out), old ^ 1 << width * 8 - 1]
    value = random.choice(NUMBERS + near) & (1 << width * 8) - 1
    struct.pack_into(form, out, at, value)


def spoil_ipc(data: bytes, random: random.Random) -> bytes:
    """An Arrow IPC file with numbers changed in place: in its footer, in the headers of its
    batches, or in its buffers. The length stays, so that what is said about it still holds."""
    if data[:6] != b"ARROW1":
        return spoil_bytes(data, random)
    out = bytearray(data)
    footer = max(8, len(out) - 10 - struct.unpack_from("<i", out, max(0, len(out) - 10))[0])
    if not 8 < footer < len(out):
        return spoil_bytes(data, random)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        choice = random.random()
        if choice < 0.3:
            at = random.randrange(footer, len(out))
        elif choice < 0.6:
            at = random.randrange(8, min(footer, 3_000))
        else:
            at = random.randrange(8, footer)
        if random.random() < 0.6:
            _number(out, at, random)
        else:
            out[at] = random.choice((out[at] ^ 1 << random.randrange(8), 0, 1, 2, 3, 4, 8, 255))
    return bytes(out)


def spoil_header(body: bytes, random: random.Random) -> bytes:
    """An object with another header, under a digest that is right again. Its message may be zstd of
    an odd form: several frames, skippable ones, trailing bytes, a size that is not declared."""
    out = bytearray(body)
    if random.random() < 0.3:
        out[80:] = spoil_bytes(bytes(out[80:]), random)
        attached = struct.unpack_from("<Q", out, 16)[0]
        struct.pack_into("<I", out, 8, max(0, len(out) - 80 - attached) & 0xFFFF_FFFF)
    for _ in range(random.choice((1, 1, 2))):
        at = random.choice((4, 5, 6, 7, 8, 12, 12, 16, 24, 40, 44))
        if random.random() < 0.6:
            out[at] = random.choice((0, 1, 2, 3, 4, 255, out[at] ^ 1 << random.randrange(8)))
        else:
            value = random.choice(NUMBERS) & 0xFFFF_FFFF
            struct.pack_into("<I", out, at & ~3, value)
    out[48:80] = hashlib.sha256(bytes(out[:48]) + bytes(out[80:])).digest()
    return bytes(out)
