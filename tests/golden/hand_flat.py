"""Pieces of Arrow IPC altered in their flatbuffers, byte for byte. See `logs_by_hand`."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from independent_ipc import Flat

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Parts:
    """A piece, its footer, the message of its record batch, and where they begin."""

    data: bytearray

    def __post_init__(self) -> None:
        length = struct.unpack_from("<i", self.data, len(self.data) - 10)[0]
        self.footer_at = len(self.data) - 10 - length
        self.footer = Flat.root(bytes(self.data[self.footer_at : -10]))
        (self.block,) = self.footer.vector(3, 24)
        self.message_at = self.footer.number("<q", self.block) + 8
        end = self.message_at - 8 + self.footer.number("<i", self.block + 8)
        self.message = Flat.root(bytes(self.data[self.message_at : end]))

    def in_footer(self, form: str, at: int | None, value: int) -> None:
        assert at is not None
        struct.pack_into(form, self.data, self.footer_at + at, value)

    def in_message(self, form: str, at: int | None, value: int) -> None:
        assert at is not None
        struct.pack_into(form, self.data, self.message_at + at, value)


def altered(change: Callable[[Parts], None]) -> Callable[[bytes], bytes]:
    """What changes a piece so."""

    def alter(data: bytes) -> bytes:
        parts = Parts(bytearray(data))
        change(parts)
        return bytes(parts.data)

    return alter


def old_footer(parts: Parts) -> None:
    """Metadata version V4, in the footer alone."""
    parts.in_footer("<h", parts.footer.where(0), 3)


def old_message(parts: Parts) -> None:
    parts.in_message("<h", parts.message.where(0), 3)


def big_endian(parts: Parts) -> None:
    """The schema has no such field: its slot points to a number that stands behind it."""
    schema = parts.footer.table(1)
    assert schema is not None
    assert schema.where(0) is None
    offset = next(at for at in range(4, 100, 2) if schema.number("<h", schema.at + at))
    parts.in_footer("<H", schema.slots + 4, offset)


def body_of_block(length: int) -> Callable[[Parts], None]:
    return lambda parts: parts.in_footer("<q", parts.block + 16, length)


def nulls_of_node(node: int, count: int) -> Callable[[Parts], None]:
    """A number of nulls; a negative node is counted from the last."""

    def change(parts: Parts) -> None:
        batch = parts.message.table(2)
        assert batch is not None
        parts.in_message("<q", batch.vector(1, 16)[node] + 8, count)

    return change
