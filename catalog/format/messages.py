"""Protobuf messages from bytes that nobody vouches for, and what a later version put in. Pure.

Source: docs/format.md, section 3.2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ...errors import CorruptObject

MAX_TINY: Final = 1 << 18
_GROUP: Final = 3  # the wire type


def parse_message(message: Message, data: bytes, key: str) -> None:
    """Parse a frame's message, unless it is of so many tiny messages that they would take a hundred
    times its bytes.

    Raises:
        CorruptObject: No such message.
    """
    if len(data) > MAX_TINY:
        raw = np.frombuffer(data, np.uint8)
        tiny = (raw[:-1] & 7 == 2) & (raw[1:] < 8)  # a tag with a length, and a length below 8
        if int(np.count_nonzero(tiny)) > MAX_TINY:
            raise CorruptObject(f"{key} holds too many empty messages", key=key)
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptObject(f"{key} doesn't hold a message: {error}", key=key) from error
    if has_unknown_fields(message) and _has_group(message):
        raise CorruptObject(f"{key} holds a group, which no version writes", key=key)


def unknown_fields(message: Message) -> list[Any]:
    """The fields of a later version in a message itself, each with `field_number` and
    `wire_type`."""
    found: Any = UnknownFieldSet(message)
    return list(found)


def has_unknown_fields(message: Message) -> bool:
    """Whether a message holds fields of a later version, at any depth."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()


def _has_group(message: Message) -> bool:
    found: Any = UnknownFieldSet(message)
    if any(field.wire_type == _GROUP for field in found):
        return True
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        parts = [value] if isinstance(value, Message) else value
        if any(map(_has_group, parts)):
            return True
    return False
