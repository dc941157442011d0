"""A comparison of a table's column as one over the bounds that a file's own column has: the file
may hold integers where the table has doubles, seconds where it has microseconds. Pure.

Widening loses nothing and keeps the order, so each comparison with the wide value is exactly one in
the narrow type, over the keys of its bounds.

Source: docs/format.md, sections 5.2, 5.3 and 6.5.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..format.statistics import bound_type, key_function

if TYPE_CHECKING:
    from .tree import Operator

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S: Final = 86_400
_DOUBLE = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison over bounds.

    Attributes:
        operator: Of the comparison.
        low, high: Keys of the value: two for a zero, which has two forms; else equal.
        text: The value of a text or binary column, instead of keys.
    """

    operator: Operator
    low: int = 0
    high: int = 0
    text: bytes | None = None


def lowered(
    wide: pa.DataType, own: pa.DataType, operator: Operator, value: Any
) -> Test | bool | None:
    """The comparison over the bounds of a file's column.

    Args:
        wide: The type that the value is of, and that the file's values are cast to.
        own: The type of the file's column.
    Returns:
        True: each value that is not null meets it; False: none does. None: nothing can be told.
    """
    while pa.types.is_dictionary(own):
        own = own.value_type
    kind = bound_type(own)
    if kind is None:
        return None
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _over_text(kind, operator, value)
    if pa.types.is_boolean(kind):
        return Test(operator, int(value), int(value)) if isinstance(value, bool) else None
    if pa.types.is_float64(kind):
        return _over_doubles(operator, value)
    exact = exact_in(wide, kind, value)
    if exact is None:
        return None
    return _over_integers(operator, exact, kind)


def _over_text(kind: pa.DataType, operator: Operator, value: Any) -> Test | None:
    if isinstance(value, str) and pa.types.is_string(kind):
        return Test(operator, text=value.encode())
    if isinstance(value, bytes) and pa.types.is_binary(kind):
        return Test(operator, text=value)
    return None


def _over_doubles(operator: Operator, value: Any) -> Test | None:
    if not isinstance(value, float) or math.isnan(value):
        return None
    key_of = key_function(pa.float64())
    forms = (-0.0, 0.0) if value == 0 else (value, value)
    low, high = (key_of(_DOUBLE.pack(form)) for form in forms)
    return None if low is None or high is None else Test(operator, low[0], high[0])


def exact_in(wide: pa.DataType, kind: pa.DataType, value: Any) -> Fraction | float | None:
    """The value in the unit of a bound type of whole numbers, exactly; infinities as floats."""
    if isinstance(value, bool):
        return None
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        if not isinstance(value, int | float | Decimal) or not _is_number(wide):
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return None if math.isnan(value) else value
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        return Fraction(value) * Fraction(10) ** scale
    if not isinstance(value, int):
        return None
    if pa.types.is_date32(kind):
        if pa.types.is_date(wide):
            return Fraction(value)
        return Fraction(value, _DAY_S * _PER_SECOND[wide.unit]) if _is_naive(wide) else None
    same = (pa.types.is_timestamp, pa.types.is_time)
    if not any(is_a(kind) and is_a(wide) for is_a in same):
        return None
    return Fraction(value * _PER_SECOND[kind.unit], _PER_SECOND[wide.unit])


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_naive(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def _over_integers(
    operator: Operator, value: Fraction | float, kind: pa.DataType
) -> Test | bool | None:
    offset = _LEAST if pa.types.is_unsigned_integer(kind) else 0
    if isinstance(value, float):
        return operator in (("<", "<=", "<>") if value > 0 else (">", ">=", "<>"))
    whole = value.denominator == 1
    if operator in ("=", "<>") and not whole:
        return operator == "<>"
    number = math.floor(value)
    if not whole:  # x < 5.5 is x <= 5; x > 5.5 is x > 5
        operator = "<=" if operator in ("<", "<=") else ">"
    key = number + offset
    if pa.types.is_decimal(kind) and not _LEAST < key < _GREATEST:
        return None  # decimals go beyond their keys
    if key < _LEAST:
        return operator in (">", ">=", "<>")
    if key > _GREATEST:
        return operator in ("<", "<=", "<>")
    return Test(operator, key, key)
