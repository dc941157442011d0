"""Which types unite, as what: a column's type holds the values of all types that files give it.
Pure.

Source: docs/format.md, section 5.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

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
