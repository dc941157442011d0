"""Definitions: what the columns of a table are, and what files call them. Pure.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptObject, InvalidSchema
from ..wire import lakelog_transaction_pb2 as wire
from .messages import parse_message
from .schema import GENERATION, MAX_GENERATION, decode_schema, encode_schema, generation
from .statistics import bound_type, decode_bounds, encode_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FEATURE: Final = "definitions"
MAX_DEFAULT_BYTES: Final = 1 << 16
Identity = tuple[str, int]  # of a column in files: name and generation


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What the columns of one table are in one log.

    Attributes:
        table: Whose.
        schema: The columns that are declared, with their generations.
        sources: By column what files call it, the newest first.
        defaults: By column its value in files that have none of its sources; null where there is
            none.
        dropped: Columns of files that are not read any more.
        key: Columns of which readers give one row for each value; empty for none.
        name: 16 bytes that tell it from others.
    """

    table: str
    schema: pa.Schema
    sources: Mapping[str, tuple[Identity, ...]]
    defaults: Mapping[str, pa.Scalar]
    dropped: frozenset[Identity]
    key: tuple[str, ...] = ()
    name: bytes = b""

    def identities(self) -> set[Identity]:
        """All columns of files that it knows."""
        return set(self.dropped).union(*self.sources.values())


def field_of(name: str, kind: pa.DataType, number: int) -> pa.Field:
    """A column of a generation."""
    return pa.field(name, kind, metadata={GENERATION: str(number)} if number else None)


def encode_definition(
    table: str,
    schema: pa.Schema,
    sources: Mapping[str, Iterable[Identity]],
    defaults: Mapping[str, pa.Scalar],
    dropped: Iterable[Identity],
    *,
    key: Iterable[str] = (),
) -> wire.Definition:
    """A definition as the log has it."""
    message = wire.Definition(table=table, arrow_schema=encode_schema(schema).message, key=key)
    for field in schema:
        column = message.columns.add()
        for name, number in sources[field.name]:
            column.sources.add(column=name, generation=number)
        if field.name in defaults:
            column.default = encode_value(defaults[field.name], field.name)
    for name, number in sorted(dropped, key=lambda item: (item[0].encode(), item[1])):
        message.dropped.add(column=name, generation=number)
    return message


def definition_problem(message: wire.Definition) -> str:
    """Which rule (E) a definition breaks; empty for none."""
    if not message.columns or not all(column.sources for column in message.columns):
        return "defines a table without columns, or a column that files call nothing"
    sources = [_identity(item) for column in message.columns for item in column.sources]
    dropped = [_identity(item) for item in message.dropped]
    everything = [*sources, *dropped]
    if not all(name and number <= MAX_GENERATION for name, number in everything):
        return "defines columns of names or generations that can't be"
    if len(set(everything)) < len(everything):
        return "defines two columns that files call the same"
    names = [column.sources[0].column for column in message.columns]
    if len(set(names)) < len(names):
        return "defines two columns of one name"
    if len(set(message.key)) < len(message.key) or not set(names).issuperset(message.key):
        return "has a key of columns that it doesn't declare, or of one twice"
    ordered = [(name.encode(), number) for name, number in dropped]
    if not all(low < high for low, high in itertools.pairwise(ordered)):
        return "drops columns out of order"
    if any(len(column.default) > MAX_DEFAULT_BYTES for column in message.columns):
        return "defines a default of too many bytes"
    return ""


def parse_definition(data: bytes, where: str) -> wire.Definition:
    """A definition from a segment.

    Raises:
        CorruptObject: It breaks a rule.
    """
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
    sources = {
        column.sources[0].column: tuple(_identity(item) for item in column.sources)
        for column in message.columns
    }
    numbers = [(name, found[0][1]) for name, found in sources.items() if found[0][1]]
    try:
        schema = decode_schema(message.arrow_schema, numbers)
        if schema.names != list(sources):
            raise ValueError("its schema has other columns than it declares")
        defaults = {
            field.name: decode_value(column.default, field.type)
            for field, column in zip(schema, message.columns, strict=True)
            if column.HasField("default")
        }
    except ValueError as error:
        raise CorruptObject(
            f"{where} holds an invalid definition of table {message.table!r}: {error}",
            key=where,
            hint="Its files can be listed, its rows can't be read. Was it written by a newer "
            "Arrow?",
        ) from error
    dropped = frozenset(_identity(item) for item in message.dropped)
    name = name_of(message.SerializeToString(deterministic=True))
    key = tuple(message.key)
    return Definition(message.table, schema, sources, defaults, dropped, key, name)


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
    """A default of a column.

    Raises:
        ValueError: No value of its type.
    """
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


def generations_in(schema: pa.Schema) -> set[Identity]:
    """The columns of a file, by what identifies them."""
    return {(field.name, generation(field)) for field in schema}


def _identity(item: wire.ColumnIdentity) -> Identity:
    return item.column, item.generation
