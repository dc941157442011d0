"""Equalities of a predicate as bloom filters of a file's column can be asked for them: the bytes
that Parquet would have for a value. Pure.

The log knows a file's Arrow types, and not how Parquet stores them: decimals stand there as
integers or as bytes of some length, times in one of several units. A filter is asked for each form
that there is; only what none of them is in can't be in the file.

Source: docs/reading.md, "Bloom filters".
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ..format.schema import plain
from .kinds import PER_SECOND
from .lower import exact_in
from .tree import And, Compare, In

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tree import Predicate, Value

MANY_VALUES: Final = 1_000  # of an IN: beyond, filters say little
_DIGITS_OF_16: Final = 38  # of a decimal that Arrow has in 16 bytes
_SIZES: Final = {
    8: 4,
    16: 4,
    32: 4,
    64: 8,
}  # bytes of an integer in Parquet, by the bits of its type


def equalities(predicate: Predicate) -> Iterator[Compare | In]:
    """The parts of a predicate that each row which meets it meets, as far as they say that a column
    is one of some values."""
    for part in predicate.items if isinstance(predicate, And) else (predicate,):
        is_equality = isinstance(part, Compare) and part.operator == "="
        if is_equality or (isinstance(part, In) and len(part.values) <= MANY_VALUES):
            yield part  # type: ignore[misc]


def plain_forms(part: Compare | In, own: pa.DataType) -> list[bytes] | None:
    """All forms that the values of an equality may have in a file.

    Args:
        own: The type of the column there; the values are of that which it has in the cut.
    Returns:
        None: it can't be told.
    """
    values = part.values if isinstance(part, In) else (part.value,)
    forms: list[bytes] = []
    for value in values:
        found = _forms(part.column.kind, plain(own), value)
        if not found:
            return None
        forms += found
    return forms


def _forms(wide: pa.DataType, own: pa.DataType, value: Value) -> list[bytes] | None:
    types = pa.types
    if types.is_string(own):
        return [value.encode()] if isinstance(value, str) else None
    if types.is_binary(own) or types.is_fixed_size_binary(own):
        return [value] if isinstance(value, bytes) else None
    if types.is_float32(own) or types.is_float64(own):
        return _of_float("<f" if types.is_float32(own) else "<d", value)
    if types.is_decimal(own) and own.scale < 0:
        return None
    counted = types.is_decimal(own) or types.is_timestamp(own) or types.is_time(own)
    if not (counted or types.is_signed_integer(own) or types.is_date32(own)):
        return None
    exact = exact_in(wide, own, value)
    if not isinstance(exact, Fraction):
        return None
    if types.is_decimal(own):
        return _of_decimal(exact, own)
    if counted:
        return _of_time(exact / PER_SECOND[own.unit], own)
    return _of_integer(exact, _SIZES[own.bit_width])


def _of_float(form: str, value: Value) -> list[bytes] | None:
    """Zero has two forms, which are equal; NaN, of many, is no value of a predicate."""
    if not isinstance(value, float) or math.isnan(value):
        return None
    try:
        found = struct.pack(form, value)
    except OverflowError:
        return None
    if struct.unpack(form, found)[0] != value:
        return None
    return [struct.pack(form, 0.0), struct.pack(form, -0.0)] if value == 0 else [found]


def _of_integer(exact: Fraction, size: int) -> list[bytes] | None:
    bound = 1 << (8 * size - 1)
    if exact.denominator != 1 or not -bound <= exact < bound:
        return None
    return [int(exact).to_bytes(size, "little", signed=True)]


def _of_decimal(exact: Fraction, own: pa.DataType) -> list[bytes] | None:
    """Integers of both sizes; else big-endian in as many bytes as the writer liked."""
    if exact.denominator != 1 or abs(exact) >= 10**own.precision:
        return None
    number = int(exact)
    shortest = (number.bit_length() if number >= 0 else (number + 1).bit_length()) // 8 + 1
    longest = 16 if own.precision <= _DIGITS_OF_16 else 32
    found = [number.to_bytes(size, "big", signed=True) for size in range(shortest, longest + 1)]
    for size in (4, 8):
        found += _of_integer(exact, size) or []
    return found


def _of_time(seconds: Fraction, own: pa.DataType) -> list[bytes] | None:
    """Parquet has no seconds, and the unit of a file need not be that of its Arrow type."""
    size = 8
    units = ["ms", "us", "ns"]
    if pa.types.is_time32(own):
        size, units = 4, ["ms"]
    elif pa.types.is_time64(own):
        units = ["us", "ns"]
    found: list[bytes] = []
    for unit in units:
        found += _of_integer(seconds * PER_SECOND[unit], size) or []
    return found or None
