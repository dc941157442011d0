"""Comparisons with exact numbers, written as comparisons with values of the column's type. Pure.

A literal is exact until it meets a column. Here it becomes a value of the column's type, and the
operator changes with it where that must be: no row is won or lost by rounding.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from .kinds import DAY_S, PER_SECOND, Steps, compared, family, float_form, steps
from .tree import Compare, In, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .tree import Column, Operator, Predicate, Value

# An exact number, or an infinity.
Exact = Fraction | float
FLIPPED: Final[dict[Operator, Operator]] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="
}  # fmt: skip
NEGATED: Final[dict[Operator, Operator]] = {
    "=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"
}  # fmt: skip


def never(column: Column) -> Predicate:
    """False for all that is not null."""
    return Compare(column, "<", least(column.kind))


def always(column: Column) -> Predicate:
    """True for all that is not null."""
    return Compare(column, ">=", least(column.kind))


def least(kind: pa.DataType) -> Value:
    """The least value of a type, in the order of predicates."""
    counted = steps(kind)
    if counted is not None:
        return value_of(kind, counted.least)
    kind = compared(kind)
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    others: dict[str, Value] = {"float": -math.inf, "bool": False, "text": "", "binary": b""}
    return others[family(kind)]


def value_of(kind: pa.DataType, count: int) -> Value:
    """The value of a type that is so many steps."""
    kind = compared(kind)
    if not pa.types.is_decimal(kind):
        return count
    digits = tuple(int(digit) for digit in str(abs(count)))
    return Decimal((int(count < 0), digits, -kind.scale))


def compare(column: Column, operator: Operator, number: Exact, *, exact: bool = False) -> Predicate:
    """A column of numbers or times compared with an exact number (of seconds, for times).

    Args:
        exact: A column of floats is compared with the number itself, and not with the value of its
            type that is nearest.
    """
    counted = steps(column.kind)
    if counted is not None:
        return _compare_steps(column, operator, number, counted)
    if isinstance(number, float):
        return Compare(column, operator, number)
    if not exact:
        near = nearest(column.kind, number)
        if math.isfinite(near):
            return Compare(column, operator, near)
    return _compare_floats(column, operator, number)


def _compare_steps(column: Column, operator: Operator, number: Exact, counted: Steps) -> Predicate:
    if isinstance(number, float):
        wanted: Fraction | int = counted.greatest + 1 if number > 0 else counted.least - 1
    else:
        wanted = number * counted.unit
    if wanted < counted.least:
        return always(column) if operator in ("<>", ">", ">=") else never(column)
    if wanted > counted.greatest:
        return always(column) if operator in ("<>", "<", "<=") else never(column)
    count = math.floor(wanted) if operator in (">", "<=") else math.ceil(wanted)
    if count != wanted:
        if operator == "=":
            return never(column)
        if operator == "<>":
            return always(column)
    return Compare(column, operator, value_of(column.kind, count))


def _compare_floats(column: Column, operator: Operator, number: Fraction) -> Predicate:
    below, above = neighbours(column.kind, number)
    if below == above:
        return Compare(column, operator, below)
    if operator in ("=", "<>"):
        return never(column) if operator == "=" else always(column)
    return Compare(column, operator, below if operator in (">", "<=") else above)


def nearest(kind: pa.DataType, number: Fraction) -> float:
    """The value of a floating-point type that is nearest to a number, the even one of two; an
    infinity if the number is beyond the type's range."""
    return _rounded(kind, number, round)


def neighbours(kind: pa.DataType, number: Fraction) -> tuple[float, float]:
    """The greatest value of a floating-point type that is not above a number, and the least that is
    not below it: twice the same if the number is one itself."""
    return _rounded(kind, number, math.floor), _rounded(kind, number, math.ceil)


def _rounded(kind: pa.DataType, number: Fraction, rule: Callable[[Fraction], int]) -> float:
    form = float_form(compared(kind))
    if not number:
        return 0.0
    size = abs(number)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1  # now 2**exponent <= size < 2**(exponent + 1)
    last = max(exponent - form.digits + 1, form.least_exponent)
    found = rule(number / Fraction(2) ** last) * Fraction(2) ** last
    if abs(found) <= form.greatest:
        return float(found)
    if rule is round or (rule is math.ceil) == (found > 0):
        return math.inf if found > 0 else -math.inf
    return form.greatest if found > 0 else -form.greatest


def compare_bytes(column: Column, operator: Operator, value: bytes) -> Predicate:
    """A column of bytes compared with bytes; of a fixed size, with bytes of that size."""
    kind = compared(column.kind)
    if not pa.types.is_fixed_size_binary(kind) or kind.byte_width == len(value):
        return Compare(column, operator, value)
    if operator in ("=", "<>"):
        return never(column) if operator == "=" else always(column)
    if len(value) < kind.byte_width:  # what begins with it is greater
        low = value + bytes(kind.byte_width - len(value))
        return Compare(column, "<" if operator in ("<", "<=") else ">=", low)
    return Compare(column, "<=" if operator in ("<", "<=") else ">", value[: kind.byte_width])


def one_of(column: Column, values: Iterable[Value]) -> Predicate:
    """A column is one of several values. A zero is 0.0 there, whichever was asked for: the engines'
    sets tell the two apart, and who translates adds -0.0."""
    is_float = family(column.kind) == "float"
    ordered = tuple(sorted({(value or 0.0) if is_float else value for value in values}))
    if not ordered:
        return never(column)
    return Compare(column, "=", ordered[0]) if len(ordered) == 1 else In(column, ordered)


def starts_with(column: Column, prefix: str) -> Predicate:
    return StartsWith(column, prefix) if prefix else always(column)


def settled(predicate: Compare) -> bool | None:
    """What a comparison is for all that is not null, if `never` or `always` made it; else None.

    Engines are told so in so many words: some don't have the least value of a type.
    """
    if predicate.operator not in ("<", ">=") or predicate.value != least(predicate.column.kind):
        return None
    return predicate.operator == ">="


def within_day(predicate: Compare) -> Compare:
    """A comparison of a time of day with 24:00, which engines don't have, as one with the last
    value before it."""
    kind = predicate.column.kind
    if family(kind) != "time" or predicate.operator not in ("<", ">="):
        return predicate
    if predicate.value != DAY_S * PER_SECOND[kind.unit]:
        return predicate
    operator: Operator = "<=" if predicate.operator == "<" else ">"
    return Compare(predicate.column, operator, int(predicate.value) - 1)
