"""Definitions: what the columns of a table are now, each by its id. Pure.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptObject, InvalidSchema
from ..wire import lakelog_transaction_pb2 as wire
from .frame import parse_message
from .schema import MAX_COLUMN_ID, column_id, decode_schema, encode_schema, with_column_id
from .statistics import bound_type, decode_bounds, encode_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FEATURE: Final = "definitions"
MAX_DEFAULT_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What the columns of one table are in one log.

    Attributes:
        table: Whose.
        schema: The columns that are declared, with their ids.
        defaults: By column its value in files that lack it; null where there is none.
        last_id: The highest id that the table has given away: columns of files up to it that are
            not declared are not read.
        key: Key columns: readers return one row for each key; empty for none.
        name: 16 bytes that tell it from others.
    """

    table: str
    schema: pa.Schema
    defaults: Mapping[str, pa.Scalar]
    last_id: int
    key: tuple[str, ...] = ()
    name: bytes = b""

    def ids(self) -> dict[str, int]:
        """The ids of the declared columns, by their names."""
        return {field.name: column_id(field) for field in self.schema}


def encode_definition(
    table: str,
    schema: pa.Schema,
    defaults: Mapping[str, pa.Scalar],
    last_id: int,
    *,
    key: Iterable[str] = (),
) -> wire.Definition:
    """A definition as the log has it.

    Args:
        schema: The columns, with their ids.
    """
    plain = pa.schema([field.remove_metadata() for field in schema])
    message = wire.Definition(
        table=table, arrow_schema=encode_schema(plain).message, last_id=last_id, key=key
    )
    for field in schema:
        column = message.columns.add(id=column_id(field), name=field.name)
        if field.name in defaults:
            column.default = encode_value(defaults[field.name], field.name)
    return message


def no_columns(table: str, last_id: int) -> wire.Definition:
    """What a log says of a table that it has forgotten: which ids are not to be given again."""
    return encode_definition(table, pa.schema([]), {}, last_id)


def definition_problem(message: wire.Definition) -> str:
    """Which rule (E) a definition breaks; empty for none."""
    ids = [column.id for column in message.columns]
    names = [column.name for column in message.columns]
    if not message.last_id <= MAX_COLUMN_ID:
        return "has a last id that can't be"
    if not all(1 <= number <= message.last_id for number in ids) or not all(names):
        return "defines columns of names or ids that can't be"
    if len(set(ids)) < len(ids):
        return "defines two columns of one id"
    if len(set(names)) < len(names):
        return "defines two columns of one name"
    if len(set(message.key)) < len(message.key) or not set(names).issuperset(message.key):
        return "has a key of columns that it doesn't declare, or of one twice"
    if any(len(column.default) > MAX_DEFAULT_BYTES for column in message.columns):
        return "defines a default of too many bytes"
    return ""


def parse_definition(data: bytes, where: str) -> wire.Definition:
    """Returns a definition from a segment. Raises `CorruptObject` if it breaks a rule."""
    message = wire.Definition()
    parse_message(message, data, where)
    problem = definition_problem(message)
    if problem:
        raise CorruptObject(f"{where} {problem}", key=where)
    return message


def decode_definition(message: wire.Definition, where: str) -> Definition:
    """A definition that rows can be read by.

    Raises:
        CorruptObject: Its schema can't be read by this Arrow, or doesn't fit the rest.
    """
    try:
        schema = decode_schema(message.arrow_schema)
        if schema.names != [column.name for column in message.columns]:
            raise ValueError("its schema has other columns than it declares")
        columns = list(zip(schema, message.columns, strict=True))
        defaults = {
            field.name: decode_value(column.default, field.type)
            for field, column in columns
            if column.HasField("default")
        }
    except ValueError as error:
        raise CorruptObject(
            f"{where} holds an invalid definition of table {message.table!r}: {error}",
            key=where,
            hint="Its files can be listed, its rows can't be read. Was it written by a newer "
            "Arrow?",
        ) from error
    schema = pa.schema([with_column_id(field, column.id) for field, column in columns])
    name = name_of(message.SerializeToString(deterministic=True))
    return Definition(message.table, schema, defaults, message.last_id, tuple(message.key), name)


def name_of(message: bytes) -> bytes:
    """What tells a definition from others."""
    return hashlib.sha256(message).digest()[:16]


def encode_value(value: pa.Scalar, name: str) -> bytes:
    """A default in its byte form.

    Args:
        value: Not null.
        name: Of the column, for errors.
    Raises:
        InvalidSchema: Its type has no such form, or it is NaN, or too long.
    """
    kind = bound_type(value.type)
    if kind is None:
        raise InvalidSchema(
            f"Column {name!r} is {value.type}, and such a column can't have a default",
            key=name,
            hint="Add it without: it is null in the files that lack it",
        )
    types, plain = pa.types, value.as_py() if not pa.types.is_temporal(value.type) else value.value
    if types.is_floating(kind) and math.isnan(plain):
        raise InvalidSchema(
            f"NaN can't be the default of column {name!r}", key=name, hint="Give a number"
        )
    if types.is_decimal(kind):
        sign, digits, _ = plain.as_tuple()  # with the type's scale
        plain = int("".join(map(str, digits))) * (-1 if sign else 1)
    raw = encode_bound(plain.encode() if types.is_string(kind) else plain, kind)
    if len(raw) > MAX_DEFAULT_BYTES:
        raise InvalidSchema(
            f"The default of column {name!r} takes {len(raw)} bytes",
            key=name,
            hint=f"At most {MAX_DEFAULT_BYTES} are taken",
        )
    return raw


def decode_value(raw: bytes, kind: pa.DataType) -> pa.Scalar:
    """Returns the default of a column. Raises `ValueError` if it isn't of its type."""
    bounds = bound_type(kind)
    if bounds is None or pa.types.is_dictionary(kind):
        raise ValueError(f"a default of type {kind}")
    found: Any = decode_bounds([raw], bounds)
    if found.null_count:
        raise ValueError(f"a default that is no {kind}")
    value = found.cast(kind)
    if not value.cast(bounds).equals(found):
        raise ValueError(f"a default that is no {kind}")
    return value[0]
