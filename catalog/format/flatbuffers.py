"""Reads tables of flatbuffers, the form of Arrow's headers, field by field. Pure."""

from __future__ import annotations

import struct


class Table:
    """A flatbuffer table: reads fields by their slot."""

    def __init__(self, view: memoryview, position: int) -> None:
        self.view, self.position = view, position
        self.vtable = position - int32(view, position)
        if self.vtable < 0:
            raise ValueError("vtable before the buffer")
        self.length = uint16(view, self.vtable)

    def field(self, slot: int) -> int:
        """Absolute position of a field, 0 if absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self.length:
            return 0
        offset = uint16(self.view, self.vtable + entry)
        return self.position + offset if offset else 0

    def indirect(self, slot: int) -> int:
        """Absolute position of what a field points to, 0 if absent."""
        at = self.field(slot)
        return at + uint32(self.view, at) if at else 0

    def vector(self, slot: int) -> tuple[int, int]:
        """Position of the first element and number of elements."""
        at = self.indirect(slot)
        return (at + 4, uint32(self.view, at)) if at else (0, 0)


def uint16(view: memoryview, at: int) -> int:
    return int(struct.unpack_from("<H", view, at)[0])


def int32(view: memoryview, at: int) -> int:
    return int(struct.unpack_from("<i", view, at)[0])


def uint32(view: memoryview, at: int) -> int:
    return int(struct.unpack_from("<I", view, at)[0])
