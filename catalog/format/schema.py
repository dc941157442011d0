"""Schemas: their fingerprints and messages, the identity of columns, and what can be written. Pure.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import InvalidSchema
from .ipc_sizes import check_schema_form

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

GENERATION: Final = b"lakelog.generation"
PARTITION: Final = {b"lakelog.partition": b"name"}  # of a column that is not in the file
PARTITION_COLUMNS: Final = "partition_columns"  # the feature that such a column needs
ONCE: Final = {b"lakelog.key": b"once"}  # of columns whose values together no two rows have
MAX_GENERATION: Final = 999_999_999


@dataclass(frozen=True, slots=True)
class EncodedSchema:
    """A schema as the log keeps it.

    Attributes:
        fingerprint: 16 bytes that name it.
        message: Arrow IPC schema message, without metadata.
        generations: Top-level columns whose generation isn't 0, ascending by name (UTF-8 order).
    """

    fingerprint: bytes
    message: bytes
    generations: tuple[tuple[str, int], ...] = ()


def features_of(message: bytes) -> tuple[str, ...]:
    """The features that a schema message of the log needs its readers and writers to know."""
    try:
        return (PARTITION_COLUMNS,) if partition_columns(decode_schema(message)) else ()
    except ValueError:
        return ()


def partition_columns(schema: pa.Schema) -> list[str]:
    """The columns that a file lacks: their values are told by the name of its partition."""
    return [field.name for field in schema if PARTITION.items() <= (field.metadata or {}).items()]


def once_columns(schema: pa.Schema) -> list[str]:
    """The columns whose values together no two rows of such a file have; those with a null in one
    of them don't count."""
    return [field.name for field in schema if ONCE.items() <= (field.metadata or {}).items()]


def generation(field: pa.Field) -> int:
    """The generation of a column: 0 until a column of its name was dropped and added again."""
    return int((field.metadata or {}).get(GENERATION, b"0"))


def fingerprint(message: bytes, generations: Sequence[tuple[str, int]] = ()) -> bytes:
    """The name of a schema in a log, 16 bytes. Source: docs/format.md, section 5.3."""
    digest = hashlib.sha256(len(message).to_bytes(4, "little") + message)
    for name, number in generations:
        raw = name.encode()
        digest.update(len(raw).to_bytes(4, "little") + raw + number.to_bytes(4, "little"))
    return digest.digest()[:16]


def encode_schema(
    schema: pa.Schema, by_partition: Collection[str] = (), once: Collection[str] = ()
) -> EncodedSchema:
    """A schema as the log keeps it: metadata is left out, generations stand beside it.

    Args:
        by_partition: The columns whose values are told by the names of partitions. Only these are
            marked so, whatever metadata the schema brings along.
        once: The columns whose values together no two rows have; likewise.
    """
    found = {field.name: generation(field) for field in schema}
    numbers = sorted(((n, g) for n, g in found.items() if g), key=lambda item: item[0].encode())
    marks = [(PARTITION, frozenset(by_partition)), (ONCE, frozenset(once))]
    plain = pa.schema([_marked(field, marks) for field in schema])
    message: bytes = plain.serialize().to_pybytes()
    return EncodedSchema(fingerprint(message, numbers), message, tuple(numbers))


def decode_schema(message: bytes, generations: Sequence[tuple[str, int]] = ()) -> pa.Schema:
    """The schema of an Arrow IPC schema message.

    Returns:
        With the generations that aren't 0 in the metadata of its fields, and the marks of columns
        whose values are told by the names of partitions, or that no two rows share.
    Raises:
        ValueError: Not an Arrow schema, or one with a name that is no text, or two columns of one
            name.
    """
    check_schema_form(message)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
        numbers = dict(generations)
        fields = []
        marks = [(PARTITION, partition_columns(schema)), (ONCE, once_columns(schema))]
        for field in schema:
            _read_text(field.type)
            number = numbers.get(field.name)
            told: dict[bytes, Any] = {GENERATION: str(number)} if number else {}
            fields.append(_marked(field, marks, told))
    except Exception as error:  # extension types run code of whoever registered them
        raise ValueError(f"not an Arrow schema: {error}") from error
    if len({field.name for field in fields}) < len(fields):
        raise ValueError("two columns of one name")
    return pa.schema(fields)


def _marked(
    field: pa.Field,
    marks: Iterable[tuple[Mapping[bytes, bytes], Collection[str]]],
    told: Mapping[bytes, Any] | None = None,
) -> pa.Field:
    """A field with no metadata but this, and the marks that it bears."""
    found = dict(told or {})
    for mark, names in marks:
        if field.name in names:
            found |= mark
    return field.with_metadata(found or None)


def pack_schema(schema: pa.Schema) -> bytes:
    """A schema with its generations as bytes, to be handed to another process."""
    packed: bytes = schema.serialize().to_pybytes()
    return packed


def unpack_schema(packed: bytes) -> pa.Schema:
    """The schema that `pack_schema` packed."""
    return pa.ipc.read_schema(pa.py_buffer(packed))


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
