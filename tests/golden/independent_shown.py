"""What files show by a definition of their table, for the independent reader: docs/format.md,
section 5.5."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from independent_ipc import decode_schema, storage
from independent_wire import need

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from independent_wire import Message


@dataclass(frozen=True)
class Column:
    """A column that files of a schema show: its id, what they call it (None: they lack it), and the
    bytes of its value where they lack it (None: null)."""

    name: str
    kind: pa.DataType
    number: int
    stored: str | None
    default: bytes | None = None


def shown(
    own: Sequence[Column],
    definition: Message,
    common: Callable[[pa.DataType, pa.DataType], pa.DataType | None],
) -> list[Column]:
    """The columns of files by a definition."""
    schema = decode_schema(definition.arrow_schema)
    names = [column.name for column in definition.columns]
    need(schema.names == names, "a definition of other columns than its schema has")
    here = {column.number: column for column in own}
    found = []
    for field, column in zip(schema, definition.columns):
        kind = storage(field.type)
        default = column.default if "default" in column.there else None
        if default is not None:
            value_of(default, kind)  # refuses what is none
        made = Column(column.name, kind, column.id, None, default)
        held = here.get(column.id)
        if held is not None:
            fits = common(kind, held.kind) == kind
            made = replace(made, stored=held.name, kind=kind if fits else held.kind, default=None)
        found.append(made)
    for column in own:
        if column.number > definition.last_id and column.name not in names:
            found.append(column)
    return found


def value_of(raw: bytes, kind: pa.DataType) -> pa.Scalar:
    """A default by the bytes of a bound of its type (section 5.2)."""
    types = pa.types
    try:
        if types.is_string(kind):
            return pa.scalar(raw.decode("utf-8"), kind)
        if types.is_binary(kind):
            return pa.scalar(raw, kind)
        if types.is_boolean(kind):
            need(raw in (b"\0", b"\1"), "a bool")
            return pa.scalar(raw == b"\1", kind)
        if types.is_decimal128(kind):
            need(len(raw) == 16, "a decimal")
            need(abs(int.from_bytes(raw, "little", signed=True)) < 10**kind.precision, "digits")
            whole = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(raw)])
            return whole[0]
        need(len(raw) == 8, "a number")
        if types.is_floating(kind):
            real = struct.unpack("<d", raw)[0]
            need(pa.scalar(real, kind).as_py() == real, "a float")
            return pa.scalar(real, kind)
        number: Any = struct.unpack("<Q" if types.is_unsigned_integer(kind) else "<q", raw)[0]
        if types.is_integer(kind):
            return pa.scalar(number, kind)
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.scalar(number, width).cast(kind)
    except (pa.ArrowException, OverflowError, UnicodeDecodeError) as error:
        need(False, f"a default that is no {kind}: {error}")
        raise
