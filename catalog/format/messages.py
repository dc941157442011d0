"""Protobuf messages from bytes that nobody vouches for, and what a later version put in. Pure.

Source: docs/format.md, section 3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ...errors import CorruptObject

if TYPE_CHECKING:
    from google.protobuf.message import Message


def parse_message(message: Message, data: bytes, key: str) -> None:
    """Parse a frame's message.

    Raises:
        CorruptObject: No such message.
    """
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
