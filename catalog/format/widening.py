"""Which types unite, as what: the widest of a column's types holds the values of all. Pure.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_INTS: Final = ("int8", "int16", "int32", "int64")
_UINTS: Final = ("uint8", "uint16", "uint32", "uint64")
_UNITS: Final = ("s", "ms", "us", "ns")


def widen(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds every value of both without loss, or None if there is none."""
    if left.equals(right):
        return left
    left, right = plain(left), plain(right)
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
