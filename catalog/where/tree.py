"""Predicates as trees, in three-valued logic: what `where=` means, however it was written. Pure.

A tree is bound to the schema of a table in a cut: each column has its type there, and each value is
one of that type, so that nobody who translates or evaluates it decides anything anew. Comparisons
that no value of the type can tell apart from others are written as those: `n > 5.5` over integers
is `n > 5`, `n = 5.5` is `n < <the least integer>`, false for all that is not null.

Floating-point numbers are ordered as SQL engines order them: NaN equals NaN and is greater than
all other numbers, and -0.0 equals 0.0.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from ..format.schema import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


Operator = Literal["=", "<>", "<", "<=", ">", ">="]
# bool; int for integers, dates (days) and for times and timestamps (in the unit of the type, since
# 1970 UTC); float, as the type rounds it, never NaN; Decimal; str; bytes.
Value = bool | int | float | Decimal | str | bytes


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes:
        name: As the schema spells it.
        kind: The type it is compared in: its own in the cut. A cast to a wider one is worked into
            the value, by `normal.py`, so that it can neither overflow nor hide statistics.
    """

    name: str
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row: true, false or null."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value; null where the column is. A bool column alone is
    `= true`."""

    column: Column
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """A column is one of several values, ascending and distinct; null where the column is."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A text column begins with a text (`LIKE 'abc%'`); null where the column is."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null; never null itself. NaN is not null. Of any type, nested ones too."""

    column: Column


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of two or more."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary; null of null."""

    item: Predicate


Predicate = Constant | Compare | In | StartsWith | IsNull | And | Or | Not


def columns_of(predicate: Predicate) -> list[str]:
    """Names of the columns that a predicate looks at, in the order in which they occur."""
    return list(dict.fromkeys(_names(predicate)))


def _names(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, And | Or):
        for item in predicate.items:
            yield from _names(item)
    elif isinstance(predicate, Not):
        yield from _names(predicate.item)
    elif not isinstance(predicate, Constant):
        yield predicate.column.name


# --- Kinds of values, and the steps between them --------------------------------------------------

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


# --- The normal form of comparisons ---------------------------------------------------------------

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


# --- Putting trees together -----------------------------------------------------------------------


def all_of(items: Iterable[Predicate]) -> Predicate:
    """All of some: nothing is true."""
    flat = _flat(items, And, neutral=True)
    return _joined(flat, And, neutral=True)


def any_of(items: Iterable[Predicate]) -> Predicate:
    """One of some: nothing is false. Equalities of one column become one set of values."""
    flat = _with_sets(_flat(items, Or, neutral=False))
    return _joined(flat, Or, neutral=False)


def negation(item: Predicate) -> Predicate:
    """The contrary, with NOT as deep inside as can be: comparisons turn round."""
    if isinstance(item, Constant):
        return item if item.value is None else Constant(not item.value)
    if isinstance(item, Compare):
        return Compare(item.column, NEGATED[item.operator], item.value)
    if isinstance(item, And):
        return any_of(map(negation, item.items))
    if isinstance(item, Or):
        return all_of(map(negation, item.items))
    return item.item if isinstance(item, Not) else Not(item)


def _flat(
    items: Iterable[Predicate], kind: type[And] | type[Or], *, neutral: bool
) -> list[Predicate]:
    """The items, those of the same kind opened, each once; just one constant if it decides."""
    found: dict[Predicate, None] = {}
    for item in items:
        parts = item.items if isinstance(item, kind) else (item,)
        for part in parts:
            if part == Constant(not neutral):
                return [part]
            if part != Constant(neutral):
                found[part] = None
    return list(found)


def _joined(flat: list[Predicate], kind: type[And] | type[Or], *, neutral: bool) -> Predicate:
    if not flat:
        return Constant(neutral)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _with_sets(flat: list[Predicate]) -> list[Predicate]:
    values: dict[Column, list[Value]] = {}
    for item in flat:
        if isinstance(item, In):
            values.setdefault(item.column, []).extend(item.values)
        elif isinstance(item, Compare) and item.operator == "=":
            values.setdefault(item.column, []).append(item.value)
    sets = {column: one_of(column, several) for column, several in values.items()}
    found: dict[Predicate, None] = {}
    for item in flat:
        if isinstance(item, Compare) and item.column in sets and settled(item) is False:
            continue  # false or null, as the set is there
        if isinstance(item, In) or (isinstance(item, Compare) and item.operator == "="):
            found[sets[item.column]] = None
        else:
            found[item] = None
    return list(found)
