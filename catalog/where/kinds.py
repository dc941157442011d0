"""Arrow types as predicates see them: families, and the numbers that a type holds. Pure.

Whatever counts in equal steps (integers, decimals, dates, timestamps, times) holds whole numbers of
steps, from a least to a greatest one: `Steps`. A predicate over it is decided in whole numbers.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa

from ..format.schema import plain

Family = Literal[
    "integer", "decimal", "float", "bool", "text", "binary", "date", "timestamp", "instant", "time",
    "null", "other",
]  # fmt: skip
DAY_S: Final = 86_400
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# For messages: what a column of a family is called, and a literal that can be compared with it.
CALLED: Final[dict[Family, tuple[str, str]]] = {
    "integer": ("an integer column", "a number, like 5"),
    "decimal": ("a decimal column", "a number, like 5.25"),
    "float": ("a floating-point column", "a number, like 1.5 or 1e3, or 'inf'"),
    "bool": ("a boolean column", "TRUE or FALSE"),
    "text": ("a text column", "a text in single quotes, like 'abc'"),
    "binary": ("a binary column", "bytes, like X'00ff'"),
    "date": ("a date column", "a date, like DATE '2026-11-30', or a TIMESTAMP without an offset"),
    "timestamp": (
        "a timestamp column without a time zone",
        "a time without an offset, like TIMESTAMP '2026-11-30 12:00:00', or a DATE",
    ),
    "instant": (
        "a timestamp column with a time zone",
        "a time with Z or an offset, like TIMESTAMPTZ '2026-11-30 12:00:00Z'",
    ),
    "time": ("a column of times of day", "a time of day, like TIME '12:00:00'"),
    "null": ("a column without values", "anything"),
    "other": ("a nested, interval or duration column", "IS NULL or IS NOT NULL only"),
}


@lru_cache(1_000)
def compared(kind: pa.DataType) -> pa.DataType:
    """The type that values of a type are compared as, however they are laid out."""
    kind = plain(kind)
    if isinstance(kind, pa.Decimal32Type | pa.Decimal64Type):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


@lru_cache(1_000)
def family(kind: pa.DataType) -> Family:
    """The family of a type: types that take the same literals."""
    kind, is_a = compared(kind), pa.types
    if is_a.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "instant"
    if is_a.is_decimal(kind):
        return "decimal" if kind.scale >= 0 else "other"
    if is_a.is_fixed_size_binary(kind) or is_a.is_binary(kind):
        return "binary"
    tests = {
        "integer": is_a.is_integer,
        "float": is_a.is_floating,
        "bool": is_a.is_boolean,
        "text": is_a.is_string,
        "date": is_a.is_date,
        "time": is_a.is_time,
        "null": is_a.is_null,
    }
    for name, test in tests.items():
        if test(kind):
            return name  # type: ignore[return-value]
    return "other"


@dataclass(frozen=True, slots=True)
class Steps:
    """What a type holds: whole numbers of steps.

    Attributes:
        least: Least number of steps.
        greatest: Greatest number of steps.
        unit: Steps in one (a number, or a second).
    """

    least: int
    greatest: int
    unit: Fraction


@lru_cache(1_000)
def steps(kind: pa.DataType) -> Steps | None:
    """The steps that a type counts in; None for types that don't."""
    kind, is_a = compared(kind), pa.types
    if is_a.is_integer(kind):
        signed = is_a.is_signed_integer(kind)
        bits = kind.bit_width - signed
        return Steps(-(2**bits) if signed else 0, 2**bits - 1, Fraction(1))
    if is_a.is_decimal(kind):
        greatest = 10**kind.precision - 1
        return Steps(-greatest, greatest, Fraction(10) ** kind.scale)
    if is_a.is_date32(kind):
        return Steps(-(2**31), 2**31 - 1, Fraction(1, DAY_S))
    if is_a.is_date64(kind):
        days = 2**63 // (DAY_S * 1000)
        return Steps(-days, days, Fraction(1, DAY_S))
    if is_a.is_timestamp(kind) or is_a.is_time(kind):
        bits = kind.bit_width - 1
        return Steps(-(2**bits), 2**bits - 1, Fraction(PER_SECOND[kind.unit]))
    return None


@dataclass(frozen=True, slots=True)
class FloatForm:
    """A binary floating-point type: digits of its significand, and the exponent of its least."""

    digits: int
    least_exponent: int
    greatest: float


_FORMS: Final = {
    "halffloat": FloatForm(11, -24, 65_504.0),
    "float": FloatForm(24, -149, float.fromhex("0x1.fffffep127")),
    "double": FloatForm(53, -1074, float.fromhex("0x1.fffffffffffffp1023")),
}


def float_form(kind: pa.DataType) -> FloatForm:
    return _FORMS[str(kind)]
