"""Schemas: their fingerprints and messages, the identity of columns, and what can be written. Pure.

Source: docs/format.md, section 5.3; design of column identity from seed 003.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import pyarrow as pa

from ...errors import InvalidSchema

GENERATION: Final = b"lakelog.generation"
_GENERATION: Final = re.compile(rb"0|[1-9][0-9]{0,8}")


def generation(field: pa.Field) -> int:
    """The generation of a column: 0 until a column of its name was dropped and added again."""
    return int((field.metadata or {}).get(GENERATION, b"0"))


def normalize(schema: pa.Schema) -> pa.Schema:
    """The schema as the log keeps it: without metadata, but for a generation that isn't 0."""
    fields = []
    for field in schema:
        number = generation(field)
        fields.append(field.with_metadata({GENERATION: str(number)} if number else None))
    return pa.schema(fields)


def fingerprint(message: bytes) -> bytes:
    """The name of a schema in a log: the first 16 bytes of the SHA-256 of its message."""
    return hashlib.sha256(message).digest()[:16]


def encode_schema(schema: pa.Schema) -> tuple[bytes, bytes]:
    """The fingerprint (16 bytes) and the Arrow IPC schema message of a schema."""
    message: bytes = normalize(schema).serialize().to_pybytes()
    return fingerprint(message), message


def decode_schema(message: bytes) -> pa.Schema:
    """The schema of an Arrow IPC schema message.

    Raises:
        ValueError: Not a schema message, or one with an invalid name or generation.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
        names = schema.names
        for kind in schema.types:
            _read_text(kind)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"not an Arrow schema: {error}") from error
    for name, field in zip(names, schema):
        number = (field.metadata or {}).get(GENERATION, b"0")
        if _GENERATION.fullmatch(number) is None:
            raise ValueError(f"column {name!r} has the generation {number!r}")
    return schema


def _read_text(kind: pa.DataType) -> None:
    """Read the names and time zones inside a type once: Arrow decodes them only when asked."""
    if pa.types.is_timestamp(kind):
        _ = kind.tz
    elif pa.types.is_dictionary(kind):
        _read_text(kind.value_type)
    for index in range(kind.num_fields):
        inner = kind.field(index)
        _ = inner.name
        _read_text(inner.type)


def check_writable(schema: pa.Schema) -> None:
    """Refuse what Parquet can't hold or no reader could name.

    Raises:
        InvalidSchema: No columns, a name twice or empty, or a type without a Parquet form.
    """
    if len(schema) == 0:
        raise InvalidSchema(
            "Data without columns can't be written", hint="Give it at least one column"
        )
    seen: set[str] = set()
    for field in schema:
        if not field.name or field.name in seen:
            raise InvalidSchema(
                f"Column name {field.name!r} is empty or stands twice",
                key=field.name,
                hint="Rename it",
            )
        seen.add(field.name)
        problem = _unwritable(field.type)
        if problem:
            raise InvalidSchema(
                f"Column {field.name!r} has type {field.type}: {problem}",
                key=field.name,
                hint="Cast it to a type that Parquet has before writing",
            )


def _unwritable(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind) and kind.num_fields == 0:
        return "Parquet has no struct without fields"
    types = pa.types
    if types.is_union(kind) or types.is_interval(kind) or types.is_run_end_encoded(kind):
        return "Parquet has no such type"
    if types.is_fixed_size_binary(kind) and kind.byte_width == 0:
        return "Parquet has no binary of 0 bytes"
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return "Arrow can't turn it into a list safely"  # its cast makes invalid arrays
    if types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
        return "Parquet wants a decimal's scale between 0 and its precision"
    for index in range(kind.num_fields):
        problem = _unwritable(kind.field(index).type)
        if problem:
            return problem
    return ""
