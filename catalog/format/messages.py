"""Protobuf messages from bytes that nobody vouches for, and what a later version put in. Pure.

Source: docs/format.md, section 3.2.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ...errors import CorruptObject

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TINY: Final = 1 << 18
_GROUP: Final = 3  # the wire type


def parse_message(message: Message, data: bytes, key: str) -> None:
    """Parse a frame's message, unless it is of so many tiny messages that they would take a hundred
    times its bytes.

    Raises:
        CorruptObject: No such message.
    """
    if len(data) > MAX_TINY and tiny_places(data) > MAX_TINY:
        raise CorruptObject(f"{key} holds too many empty messages", key=key)
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptObject(f"{key} doesn't hold a message: {error}", key=key) from error
    if has_unknown_fields(message):
        plain = _without_maps(type(message).DESCRIPTOR)()
        plain.ParseFromString(data)
        if _has_group(plain):
            raise CorruptObject(f"{key} holds a group, which no version writes", key=key)
        _fill_maps(message, plain)


def tiny_places(data: bytes) -> int:
    """Where a tag with a length may be, and a length below 8."""
    raw = np.frombuffer(data, np.uint8)
    return int(np.count_nonzero((raw[:-1] & 7 == 2) & (raw[1:] < 8)))


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
    return any(_has_group(part) for _, part in _parts(message))


def _parts(message: Message) -> Iterator[tuple[tuple[str, int], Message]]:
    """The messages in a message, without entries of maps, by field and place."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None and not _is_map(descriptor):
            for place, part in enumerate([value] if isinstance(value, Message) else value):
                yield (descriptor.name, place), part


def _is_map(descriptor: Any) -> bool:
    kind = descriptor.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


@cache
def _without_maps(descriptor: Any) -> type[Message]:
    """A message of the same fields whose maps are lists of entries.

    The parser takes an entry of a map that holds an unknown field for an unknown field itself.
    """
    pool = descriptor_pool.DescriptorPool()
    for file in _with_dependencies(descriptor.file):
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        for kind in proto.message_type:
            for entry in kind.nested_type:
                entry.options.map_entry = False
        pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(descriptor.full_name))


def _with_dependencies(file: Any) -> list[Any]:
    """A file of messages behind all that it needs, each once."""
    found = {known.name: known for one in file.dependencies for known in _with_dependencies(one)}
    return [*found.values(), file]


def _fill_maps(message: Message, plain: Message) -> None:
    """Give the maps of a message what all their entries say, in order."""
    for descriptor in type(message).DESCRIPTOR.fields:
        if _is_map(descriptor):
            known = getattr(message, descriptor.name)
            known.clear()
            known.update((item.key, item.value) for item in getattr(plain, descriptor.name))
    twins = dict(_parts(plain))
    for place, part in _parts(message):
        _fill_maps(part, twins[place])
