"""The independent reader's messages are those of proto/*.proto, field by field: one that it doesn't
know it would take for a later version's, and never find damaged."""

from __future__ import annotations

import independent_messages as messages
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from independent_wire import BOOL, BYTES, ENUM, SINT, TEXT, UINT, UINT32, Field, Shape
from lakelog.catalog.wire import (
    lakelog_checkpoint_pb2,
    lakelog_cut_pb2,
    lakelog_deletes_pb2,
    lakelog_segment_pb2,
    lakelog_transaction_pb2,
)

WORDS = {
    FieldDescriptor.TYPE_UINT64: UINT,
    FieldDescriptor.TYPE_UINT32: UINT32,
    FieldDescriptor.TYPE_ENUM: ENUM,
    FieldDescriptor.TYPE_SINT64: SINT,
    FieldDescriptor.TYPE_BOOL: BOOL,
    FieldDescriptor.TYPE_BYTES: BYTES,
    FieldDescriptor.TYPE_STRING: TEXT,
}
MESSAGES = [
    (messages.TRANSACTION, lakelog_transaction_pb2.Transaction),
    (messages.CHECKPOINT, lakelog_checkpoint_pb2.Checkpoint),
    (messages.SEGMENT, lakelog_segment_pb2.Segment),
    (messages.DELETES_OBJECT, lakelog_deletes_pb2.DeletesObject),
    (messages.CUT, lakelog_cut_pb2.Cut),
]


def differences(own: Shape, proto: Descriptor) -> list[str]:
    apart = own.fields.keys() ^ set(proto.fields_by_number)
    found = [f"{proto.name}: fields {sorted(apart)}"] if apart else []
    for number, field in own.fields.items():
        if number in proto.fields_by_number:
            found += _of_field(field, proto.fields_by_number[number])
    return found


def _of_field(own: Field, proto: FieldDescriptor) -> list[str]:
    where = f"{proto.containing_type.name}.{proto.name}"
    found = [] if own.name == proto.name else [f"{where}: its name is {own.name}"]
    if (own.often != "one") != proto.is_repeated:
        found.append(f"{where}: how often")
    if isinstance(own.kind, Shape):
        return found + differences(own.kind, proto.message_type)
    return found if own.kind == WORDS.get(proto.type) else [*found, f"{where}: its type"]


@pytest.mark.parametrize(("own", "proto"), MESSAGES, ids=[of.__name__ for _, of in MESSAGES])
def test_its_messages_are_those_of_the_format(own: Shape, proto: type) -> None:
    assert differences(own, proto.DESCRIPTOR) == []
