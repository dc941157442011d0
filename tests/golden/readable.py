"""Objects of the log as values that JSON can hold: the readable form beside golden objects."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf.unknown_fields import UnknownFieldSet
from lakelog.catalog.format.frame import FrameKind, decode_frame
from lakelog.catalog.format.schema import decode_schema
from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire
from lakelog.catalog.wire import lakelog_cut_pb2 as cut_wire
from lakelog.catalog.wire import lakelog_deletes_pb2 as deletes_wire
from lakelog.catalog.wire import lakelog_segment_pb2 as segment_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.message import Message

MESSAGES = {
    "transaction": wire.Transaction,
    "checkpoint": checkpoint_wire.Checkpoint,
    "segment": segment_wire.Segment,
    "deletes": deletes_wire.DeletesObject,
}
FILES = (wire, checkpoint_wire, segment_wire, cut_wire, deletes_wire)


def message_of(data: bytes, name: str) -> Message:
    """The protobuf message of an object, parsed without lakelog's checks."""
    kind = name.rsplit(".", 1)[-1]
    frame = decode_frame(data, FrameKind[kind.upper()], name)
    message = MESSAGES[kind]()
    message.ParseFromString(frame.message)
    return message


def readable_object(data: bytes, name: str) -> dict[str, Any]:
    """The readable form of a transaction, checkpoint or segment object."""
    kind = FrameKind[name.rsplit(".", 1)[-1].upper()]
    frame = decode_frame(data, kind, name)
    message = message_of(data, name)
    form: dict[str, Any] = {
        "name": name,
        "digest": frame.digest.hex(),
        "log_id": frame.log.log_id.hex(),
        "incarnation": frame.log.incarnation,
        "message": plain_message(message),
    }
    if kind is FrameKind.SEGMENT:
        return {**form, "rows": rows_of(frame.attachments)}
    if kind is FrameKind.DELETES:
        return {**form, "attachments": bytes(frame.attachments).hex()}
    pieces = [
        {"offset": offset, "length": length, "rows": rows_of(frame.attachments[offset:][:length])}
        for offset, length in _pieces(message, frame.attachments)
    ]
    return {**form, "attachments": pieces} if pieces else form


def _pieces(message: Message, attachments: memoryview) -> list[tuple[int, int]]:
    """Where the inline pieces of an object are."""
    if isinstance(message, checkpoint_wire.Checkpoint):
        ref = message.references
        rows = rows_of(attachments[ref.offset :][: ref.length])
        inside = [(row["offset"], row["length"]) for row in rows if "digest" not in row]
        return [*inside, (ref.offset, ref.length)]
    return [
        (ref.offset, ref.length) for action in message.actions for ref in action.add_batch.segments
    ]


def plain_message(message: Message) -> dict[str, Any]:
    """A message as a dict: fields that are set, bytes as hex, and the numbers of unknown ones."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = dict(sorted(value.items()))
        elif field.is_repeated:
            found[field.name] = [_plain_field(field, item) for item in value]
        else:
            found[field.name] = _plain_field(field, value)
    for unknown in UnknownFieldSet(message):
        found[f"field {unknown.field_number}"] = plain(unknown.data)
    return found


def _plain_field(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return plain_message(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return plain_schema(value) if field.name == "arrow_schema" else plain(value)


def plain_schema(message: bytes) -> dict[str, Any]:
    """An Arrow schema message: its hash, and its columns in words."""
    columns = [f"{item.name}: {item.type}" for item in decode_schema(message)]
    return {"sha256": hashlib.sha256(message).hexdigest(), "columns": columns}


def rows_of(data: memoryview | bytes) -> list[dict[str, Any]]:
    """The rows of an Arrow IPC segment; nulls left out."""
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    columns = {name: plain_column(table.column(name)) for name in table.schema.names}
    rows = [
        {name: values[row] for name, values in columns.items() if values[row] is not None}
        for row in range(table.num_rows)
    ]
    for row in rows:
        if "arrow_schema" in row:
            row["arrow_schema"] = plain_schema(bytes.fromhex(row["arrow_schema"]))
        if "definition" in row:
            found = wire.Definition.FromString(bytes.fromhex(row["definition"]))
            row["definition"] = plain_message(found)
    return rows


def plain_column(column: pa.ChunkedArray) -> list[Any]:
    """Values as JSON has them; times as numbers in their unit."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return [plain(value) for value in column.to_pylist()]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def descriptor_lines() -> list[str]:
    """Every field of every message, and every value of every enum, a line each, sorted."""
    lines: list[str] = []
    for module in FILES:
        descriptor: FileDescriptor = module.DESCRIPTOR
        for name in descriptor.message_types_by_name:
            lines += _message_lines(name, descriptor.message_types_by_name[name])
        for name, enum in descriptor.enum_types_by_name.items():
            lines += [f"{name} {value.number:2} {value.name}" for value in enum.values]
    return sorted(lines)


def _message_lines(path: str, descriptor: Any) -> list[str]:
    lines = []
    for field in descriptor.fields:
        many = "repeated " if field.is_repeated else ""
        kind = field.message_type or field.enum_type
        type_name = kind.name if kind is not None else _TYPE_NAMES[field.type]
        one_of = f" (one of {field.containing_oneof.name})" if field.containing_oneof else ""
        lines.append(f"{path} {field.number:2} {field.name}: {many}{type_name}{one_of}")
    for enum in descriptor.enum_types:
        lines += [f"{path}.{enum.name} {value.number:2} {value.name}" for value in enum.values]
    for nested in descriptor.nested_types:
        lines += _message_lines(f"{path}.{nested.name}", nested)
    return lines


_TYPE_NAMES = {4: "uint64", 8: "bool", 9: "string", 12: "bytes", 13: "uint32", 18: "sint64"}
