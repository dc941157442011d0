"""The one schema that a cut is read with: the widest type of each column, and files conformed to
it. Pure.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...errors import SchemaConflict
from ..format.schema import GENERATION, encode_schema, generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_INTS: Final = ("int8", "int16", "int32", "int64")
_UINTS: Final = ("uint8", "uint16", "uint32", "uint64")
_UNITS: Final = ("s", "ms", "us", "ns")


def widen(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds every value of both without loss, or None if there is none."""
    if left.equals(right):
        return left
    left, right = _plain(left), _plain(right)
    if left.equals(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_null(right):
        return left
    for rule in (_widen_numbers, _widen_decimals, _widen_times, _widen_nested):
        found = rule(left, right)
        if found is not None:
            return found
    return None


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_field)
    return kind


def _widen_numbers(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    a, b = str(left), str(right)
    for family in (_INTS, _UINTS, ("halffloat", "float", "double")):
        if a in family and b in family:
            return left if family.index(a) > family.index(b) else right
    for small, big in ((a, b), (b, a)):
        if small in _UINTS[:3] and big in _INTS:
            need = _INTS[_UINTS.index(small) + 1]
            return pa.type_for_alias(max(need, big, key=_INTS.index))
        if small in (*_INTS[:3], *_UINTS[:3]) and big == "double":
            return pa.float64()
        if small in (*_INTS[:2], *_UINTS[:2]) and big == "float":
            return pa.float32()
        if small in (_INTS[2], _UINTS[2]) and big == "float":
            return pa.float64()
    return None


def _widen_decimals(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    shapes = [_decimal_shape(left), _decimal_shape(right)]
    if None in shapes or not (pa.types.is_decimal(left) or pa.types.is_decimal(right)):
        return None
    scale = max(shape[1] for shape in shapes if shape)
    digits = max(shape[0] - shape[1] for shape in shapes if shape)
    if digits + scale > 76:
        return None
    return (
        pa.decimal128(digits + scale, scale)
        if digits + scale <= 38
        else pa.decimal256(digits + scale, scale)
    )


def _decimal_shape(kind: pa.DataType) -> tuple[int, int] | None:
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    digits = {
        "int8": 3,
        "int16": 5,
        "int32": 10,
        "int64": 19,
        "uint8": 3,
        "uint16": 5,
        "uint32": 10,
        "uint64": 20,
    }
    found = digits.get(str(kind))
    return (found, 0) if found else None


def _widen_times(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        if (left.tz is None) != (right.tz is None):
            return None
        zone = left.tz if left.tz == right.tz else "UTC"
        return pa.timestamp(max(left.unit, right.unit, key=_UNITS.index), zone)
    if pa.types.is_date(left) and pa.types.is_date(right):
        return pa.date64()
    for day, stamp in ((left, right), (right, left)):
        if pa.types.is_date32(day) and pa.types.is_timestamp(stamp) and stamp.tz is None:
            return stamp
    if pa.types.is_time(left) and pa.types.is_time(right):
        unit = max(left.unit, right.unit, key=_UNITS.index)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(max(left.unit, right.unit, key=_UNITS.index))
    return None


def _widen_nested(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(left) and pa.types.is_list(right):
        inner = widen(left.value_type, right.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        ours, theirs = left.names, right.names
        if len(set(ours)) < len(ours) or len(set(theirs)) < len(theirs):
            return None  # a name that stands twice names nothing
        names = [*ours, *(name for name in theirs if name not in ours)]
        fields = []
        for name in names:
            a, b = left.get_field_index(name), right.get_field_index(name)
            if a < 0 or b < 0:
                kind = left.field(a).type if a >= 0 else right.field(b).type
            else:
                kind = widen(left.field(a).type, right.field(b).type)
            if kind is None:
                return None
            fields.append(pa.field(name, kind))
        return pa.struct(fields)
    return None


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema that some files of a cut have.

    Attributes:
        schema: As they have it.
        writer: Whose they are, for messages.
        example: Finds one of them, for messages: its path, or nothing if none is live.
        words: What messages call them instead.
    """

    schema: pa.Schema
    writer: str
    example: Callable[[], str] = dataclasses.field(default=lambda: "", compare=False)
    words: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        if self.words:
            return self.words
        path = self.example()
        return f"files of {self.writer!r}" + (f" ({path} for one)" if path else "")


def unify(schemas: Sequence[FileSchema], table: str) -> pa.Schema:
    """The one schema that a cut's files of a table are read with.

    Columns come in the order in which they are first seen; each has the widest of its types; a
    column whose name has several generations counts in its newest only. All columns are nullable.

    Raises:
        SchemaConflict: Two types of one column have no safe common type. Names column, types,
            writers and a file of each.
    Source: docs/format.md, section 5.3.
    """
    newest: dict[str, int] = {}
    for item in schemas:
        for field in item.schema:
            newest[field.name] = max(newest.get(field.name, 0), generation(field))
    types: dict[str, pa.DataType] = {}
    source: dict[str, FileSchema] = {}
    for item in schemas:
        for field in item.schema:
            if generation(field) != newest[field.name]:
                continue
            known = types.get(field.name)
            if known is None:
                types[field.name], source[field.name] = _plain(field.type), item
                continue
            wider = widen(known, field.type)
            if wider is None:
                raise SchemaConflict(
                    f"Column {field.name!r} of table {table!r} is {known} in "
                    f"{source[field.name]} and {field.type} in {item}",
                    key=field.name,
                    writers=(source[field.name].writer, item.writer),
                    hint="No safe common type exists. Rewrite one side with the other's type",
                )
            if wider != known:
                types[field.name], source[field.name] = wider, item
    return pa.schema(
        [
            pa.field(name, kind, metadata={GENERATION: str(newest[name])} if newest[name] else None)
            for name, kind in types.items()
        ]
    )


def readable_columns(own: pa.Schema, target: pa.Schema) -> list[str]:
    """The columns of the target that a file with schema `own` holds: same name, same generation; in
    target order."""
    found = []
    for field in target:
        index = own.get_field_index(field.name)
        if index >= 0 and generation(own.field(index)) == generation(field):
            found.append(field.name)
    return found


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """A batch of `readable_columns` of one file, in the order and types of the cut's schema; the
    others are null.

    Raises:
        pyarrow.ArrowInvalid: A value doesn't fit (a timestamp out of the finer unit's range).
    """
    columns = []
    for field in target:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(index)
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def distinct(schemas: Iterable[FileSchema]) -> list[FileSchema]:
    """The schemas without repeats, in order."""
    seen: set[bytes] = set()
    kept = []
    for item in schemas:
        fingerprint = encode_schema(item.schema).fingerprint
        if fingerprint not in seen:
            seen.add(fingerprint)
            kept.append(item)
    return kept
