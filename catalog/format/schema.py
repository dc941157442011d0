"""Schemas: their fingerprints and messages, the ids of columns, and what can be written. Pure.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import InvalidSchema
from .ipc_sizes import check_schema_form

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set


COLUMN_ID: Final = b"PARQUET:field_id"  # Arrow's name for the id of a column in a Parquet schema
MAX_COLUMN_ID: Final = (1 << 31) - 1
PARTITION: Final = {b"lakelog.partition": b"name"}  # of a column that is not in the file
PARTITION_COLUMNS: Final = "partition_columns"  # the feature that such a column needs
MAX_LEVELS: Final = 99  # of a column: Arrow reads no deeper Parquet schema; a list takes two
ONCE: Final = {b"lakelog.key": b"once"}  # of columns whose values together no two rows have


@dataclass(frozen=True, slots=True)
class EncodedSchema:
    """A schema as the log keeps it.

    Attributes:
        fingerprint: 16 bytes that name it.
        message: Arrow IPC schema message, without metadata but for ids and marks of columns.
    """

    fingerprint: bytes
    message: bytes


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


def column_id(field: pa.Field) -> int:
    """The id of a column in its table's log; 0 if it has none, or what is no id."""
    text = (field.metadata or {}).get(COLUMN_ID, b"")
    number = int(text) if text.isdigit() and len(text) <= 10 else 0
    return number if number <= MAX_COLUMN_ID and str(number).encode() == text else 0


def column_of(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    """A column with an id; 0: without."""
    return pa.field(name, kind, nullable, {COLUMN_ID: str(number)} if number else None)


def described(found: pa.Schema, data: pa.Schema) -> pa.Schema:
    """The schema that the files of data have: its own metadata, too, goes into their footers.

    Args:
        found: The columns of `data`, with their ids.
    Raises:
        InvalidSchema: More metadata than a footer should have.
    """
    fields = []
    for field, given in zip(found, data, strict=True):
        notes = _notes(given.metadata) | (field.metadata or {})
        fields.append(field.with_metadata(notes or None))
    size = sum(len(k) + len(v) for each in (data, *data) for k, v in _notes(each.metadata).items())
    if size > _MOST_NOTES:
        raise InvalidSchema(
            f"The schema of the data has {size:,} bytes of metadata",
            hint=f"At most {_MOST_NOTES:,} go into each file. "
            "Drop it: data.replace_schema_metadata(None)",
        )
    return pa.schema(fields, _notes(data.metadata) or None)


_MOST_NOTES: Final = 1 << 20
_OTHERS_NOTES: Final = (b"lakelog.", b"ARROW:", b"PARQUET:", b"pandas", b"org.apache.spark.")


def _notes(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """Metadata without what lakelog, Arrow, pandas and Spark keep about a file of their own."""
    found = (metadata or {}).items()
    return {key: value for key, value in found if not key.startswith(_OTHERS_NOTES)}


def with_column_id(field: pa.Field, number: int) -> pa.Field:
    """A column with this id and no other metadata, whichever it had."""
    return pa.field(field.name, _bare(field.type), field.nullable, {COLUMN_ID: str(number)})


def fingerprint(message: bytes) -> bytes:
    """The name of a schema in a log, 16 bytes. Source: docs/format.md, section 5.3."""
    return hashlib.sha256(message).digest()[:16]


def encode_schema(
    schema: pa.Schema, by_partition: Collection[str] = (), once: Collection[str] = ()
) -> EncodedSchema:
    """A schema as the log keeps it: of its metadata only the ids of columns stay.

    Args:
        by_partition: The columns whose values are told by the names of partitions. Only these are
            marked so, whatever metadata the schema brings along.
        once: The columns whose values together no two rows have; likewise.
    """
    marks = [(PARTITION, frozenset(by_partition)), (ONCE, frozenset(once))]
    plain = pa.schema([_marked(field, marks) for field in schema])
    message: bytes = plain.serialize().to_pybytes()
    return EncodedSchema(fingerprint(message), message)


def decode_schema(message: bytes) -> pa.Schema:
    """The schema of an Arrow IPC schema message.

    Returns:
        With the ids of its columns in the metadata of its fields, and the marks of columns whose
        values are told by the names of partitions, or that no two rows share.
    Raises:
        ValueError: Not an Arrow schema, or one with a name that is no text, or two columns of one
            name or of one id.
    """
    check_schema_form(message)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
        marks = [(PARTITION, partition_columns(schema)), (ONCE, once_columns(schema))]
        for field in schema:
            _read_text(field.type)
        fields = [_marked(field, marks) for field in schema]
    except Exception as error:  # extension types run code of whoever registered them
        raise ValueError(f"not an Arrow schema: {error}") from error
    if len({field.name for field in fields}) < len(fields):
        raise ValueError("two columns of one name")
    ids = [number for number in map(column_id, fields) if number]
    if len(set(ids)) < len(ids):
        raise ValueError("two columns of one id")
    return pa.schema(fields)


def decode_log_schema(message: bytes) -> pa.Schema:
    """The schema of a table's files, as its log names it.

    Raises:
        ValueError: As `decode_schema`; or a column has no id.
    """
    schema = decode_schema(message)
    if not all(map(column_id, schema)):
        raise ValueError("a column without an id")
    return schema


def _marked(
    field: pa.Field, marks: Iterable[tuple[Mapping[bytes, bytes], Collection[str]]]
) -> pa.Field:
    """A field with no metadata but its id, and the marks that it bears."""
    number = column_id(field)
    found: dict[bytes, bytes] = {COLUMN_ID: str(number).encode()} if number else {}
    for mark, names in marks:
        if field.name in names:
            found |= mark
    return pa.field(field.name, _bare(field.type), field.nullable, found or None)


def _bare(kind: pa.DataType) -> pa.DataType:
    """A type without metadata inside: ids of others there would meet those of the log's columns."""
    types = pa.types

    def inner(field: pa.Field) -> pa.Field:
        return pa.field(field.name, _bare(field.type), field.nullable)

    if types.is_struct(kind):
        return pa.struct([inner(kind.field(at)) for at in range(kind.num_fields)])
    if types.is_list(kind):
        return pa.list_(inner(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(inner(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_field), kind.list_size)
    if types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field), kind.keys_sorted)
    return kind


def pack_schema(schema: pa.Schema) -> bytes:
    """A schema with the ids of its columns as bytes, to be handed to another process."""
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


def check_depth(schema: pa.Schema) -> None:
    """Raises `InvalidSchema` for a column nested so deep that what is written can't be read."""
    for field in schema:
        level = [field.type]
        depth = 0
        while level:
            depth += 1
            if depth > MAX_LEVELS:
                raise InvalidSchema(
                    f"Column {field.name!r} is nested over {MAX_LEVELS} levels deep, which can't "
                    "be read from Parquet",
                    key=field.name,
                    hint="A struct takes one level, a list or map two. Keep deeper values as JSON "
                    "text",
                )
            level = [child for kind in level for child in _children(kind)]


def _children(kind: pa.DataType) -> Sequence[pa.DataType | _Entries]:
    """The types a level below one, in Parquet."""
    if isinstance(kind, _Entries):
        return kind.kinds
    if isinstance(kind, pa.BaseExtensionType):
        return _children(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _children(kind.value_type)
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
    return inner if not inner or pa.types.is_struct(kind) else [_Entries(inner)]


@dataclass(frozen=True, slots=True)
class _Entries:
    """The level that a list or map has between itself and its values."""

    kinds: Sequence[pa.DataType]


def check_writable(schema: pa.Schema) -> None:
    """Refuse what Parquet can't hold or no reader could name.

    Raises:
        InvalidSchema: No columns, a name twice or empty, a type without a Parquet form, or one too
            deep.
    """
    check_depth(schema)
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


# --- Which types unite, as what -------------------------------------------------------------------

_INTS: Final = ("int8", "int16", "int32", "int64")
_UINTS: Final = ("uint8", "uint16", "uint32", "uint64")
_REALS: Final = ("halffloat", "float", "double")
_DIGITS: Final = dict(zip((*_INTS, *_UINTS), (3, 5, 10, 19, 3, 5, 10, 20), strict=True))
_MOST_DIGITS: Final = 76
_UNITS: Final = ("s", "ms", "us", "ns")


def widen(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds every value of both without loss, or None if there is none."""
    return common_type((left, right))


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that holds every value of all of some types without loss; None if two of them have
    no such type.

    It is found of all at once: step by step, what comes out would depend on their order, and with
    it whether a table can be read. (int8 and uint64 have no common type, though each has one with a
    decimal.) Only the order of a struct's fields is that in which they are first met.

    Args:
        kinds: One at least.
    """
    own = _distinct(kinds)
    if len(own) == 1:
        return own[0]
    own = _distinct(map(plain, own))
    own = [kind for kind in own if not pa.types.is_null(kind)] or own
    if len(own) == 1:
        return own[0]
    for rule in (_common_number, _common_time, _common_list, _common_struct):
        found = rule(own)
        if found is not None:
            return found
    return None


def _distinct(kinds: Iterable[pa.DataType]) -> list[pa.DataType]:
    found: list[pa.DataType] = []
    for kind in kinds:
        if not any(kind.equals(other) for other in found):
            found.append(kind)
    return found


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the same values, however laid out: no dictionary, no long form."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_field)
    return kind


def _common_number(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    decimals = [kind for kind in kinds if pa.types.is_decimal(kind)]
    names = {str(kind) for kind in kinds if not pa.types.is_decimal(kind)}
    signed, unsigned, reals = (names.intersection(of) for of in (_INTS, _UINTS, _REALS))
    if len(signed) + len(unsigned) + len(reals) < len(names):
        return None
    if signed and "uint64" in unsigned:
        return None
    if decimals:
        return None if reals else _common_decimal([*decimals, *map(_as_decimal, signed | unsigned)])
    if reals:
        return _common_real(signed | unsigned, reals)
    if not signed:
        return pa.type_for_alias(max(unsigned, key=_UINTS.index))
    widths = [*map(_INTS.index, signed), *(_UINTS.index(name) + 1 for name in unsigned)]
    return pa.type_for_alias(_INTS[max(widths)])


def _common_real(wholes: Set[str], reals: Set[str]) -> pa.DataType | None:
    if not wholes.isdisjoint((_INTS[3], _UINTS[3])):
        return None
    if "double" in reals or not wholes.isdisjoint((_INTS[2], _UINTS[2])):
        return pa.float64()
    return pa.float32() if wholes or "float" in reals else pa.float16()


def _as_decimal(whole: str) -> pa.DataType:
    return pa.decimal128(_DIGITS[whole], 0)


def _common_decimal(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    scale = max(kind.scale for kind in kinds)
    digits = max(kind.precision - kind.scale for kind in kinds) + scale
    if digits > _MOST_DIGITS:
        return None
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _common_time(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    types = pa.types
    if all(map(types.is_date, kinds)):
        return pa.date64()
    stamps = [kind for kind in kinds if types.is_timestamp(kind)]
    if stamps and all(types.is_timestamp(kind) or types.is_date32(kind) for kind in kinds):
        zones = {kind.tz for kind in stamps}
        if zones != {None} and (None in zones or len(stamps) < len(kinds)):
            return None
        return pa.timestamp(_finest(stamps), zones.pop() if len(zones) == 1 else "UTC")
    if all(map(types.is_time, kinds)):
        unit = _finest(kinds)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if all(map(types.is_duration, kinds)):
        return pa.duration(_finest(kinds))
    return None


def _finest(kinds: Sequence[pa.DataType]) -> str:
    return max((str(kind.unit) for kind in kinds), key=_UNITS.index)


def _common_list(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    if not all(map(pa.types.is_list, kinds)):
        return None
    inner = common_type(kind.value_type for kind in kinds)
    return None if inner is None else pa.list_(inner)


def _common_struct(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    if not all(map(pa.types.is_struct, kinds)):
        return None
    types: dict[str, list[pa.DataType]] = {}
    for kind in kinds:
        if len(set(kind.names)) < len(kind.names):
            return None  # a name that stands twice names nothing
        for field in kind:
            types.setdefault(field.name, []).append(field.type)
    found = {name: common_type(own) for name, own in types.items()}
    if None in found.values():
        return None
    return pa.struct([pa.field(name, kind) for name, kind in found.items()])


# --- Types that columns of a key can have ---------------------------------------------------------


def is_key_type(kind: pa.DataType) -> bool:
    """Whether a key can have a column of a type. Null is one: such a column has no values."""
    types, kind = pa.types, plain(kind)
    return bool(
        types.is_null(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or types.is_decimal128(kind)
        or types.is_decimal256(kind)
    )


def hint_of_uuid(kind: pa.DataType) -> str:
    """What to do with a column of uuids, where only plain types serve; nothing for others."""
    if getattr(kind, "extension_name", "") != "arrow.uuid":
        return ""
    return ". Write a uuid as text (str), or as 16 bytes: column.cast(pa.binary(16))"


def check_key(fields: Iterable[pa.Field], table: str) -> None:
    """Raises `InvalidSchema` if a column can't be part of a key."""
    for field in fields:
        if not is_key_type(field.type):
            raise InvalidSchema(
                f"Column {field.name!r} of table {table!r} is {field.type}, and can't be of a key",
                key=field.name,
                hint="Integers, texts, binary, booleans, dates, times, timestamps and decimals can"
                + hint_of_uuid(field.type),
            )
