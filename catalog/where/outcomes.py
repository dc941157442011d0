"""Which outcomes a predicate may have among the rows of files, by what is known of their columns:
true, false, null. Pure.

What is unknown may be anything. A file in which no row may be true is skipped; the two others are
kept for what `Not` makes of them.

Source: docs/format.md, section 5.2.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column, numbers
from ..format.schema import plain
from ..format.statistics import bound_type, key_function
from .tree import PER_SECOND, And, Compare, Constant, In, IsNull, Not, Or, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .tree import Operator, Predicate, Value


# --- Values as bounds have them -------------------------------------------------------------------

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


# --- Outcomes -------------------------------------------------------------------------------------

_MANY_VALUES = 64  # of an IN: beyond, those of text are judged by the least and the greatest


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lower (or upper) bounds of a column in some files.

    Attributes:
        values: Keys as int64; for text and binary columns the bounds, as an Arrow array of binary.
        known: Per file whether its bound is.
    """

    values: np.ndarray | pa.Array
    known: np.ndarray


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one column in some files of one schema (or in their row groups).

    Attributes:
        kind: The column's type in these files; None: they lack it, and it is null throughout.
        rows: Per file the number of rows.
        nulls: Per file the number of nulls; -1: unknown.
        low, high: Its bounds; None where nothing is known.
        no_nan: Per file whether no value is NaN for certain.
    """

    kind: pa.DataType | None
    rows: np.ndarray
    nulls: np.ndarray
    low: Bounds | None = None
    high: Bounds | None = None
    no_nan: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Per file whether a row of it may make the predicate true, false or null."""

    true: np.ndarray
    false: np.ndarray
    null: np.ndarray


def outcomes(predicate: Predicate, facts: Callable[[str], Facts]) -> Outcomes:
    """The outcomes that a predicate may have.

    Args:
        facts: By the name of a column; all of the same files.
    """
    if isinstance(predicate, Not):
        found = outcomes(predicate.item, facts)
        return Outcomes(found.false, found.true, found.null)
    if isinstance(predicate, And | Or):
        parts = [outcomes(item, facts) for item in predicate.items]
        if isinstance(predicate, And):
            return _all_of(parts)
        flipped = _all_of([Outcomes(part.false, part.true, part.null) for part in parts])
        return Outcomes(flipped.false, flipped.true, flipped.null)
    if isinstance(predicate, Constant):
        some = facts("").rows > 0
        none = np.zeros_like(some)
        value = predicate.value
        return Outcomes(
            some if value is True else none,
            some if value is False else none,
            some if value is None else none,
        )
    return _of_column(predicate, facts(predicate.column.name))


def _all_of(parts: list[Outcomes]) -> Outcomes:
    """Of a conjunction: true where all are; false where one is; null where one is and the rest are
    null or true."""
    true, false, null = parts[0].true, parts[0].false, parts[0].null
    for part in parts[1:]:
        null = (null & (part.null | part.true)) | (true & part.null)
        true = true & part.true
        false = false | part.false
    return Outcomes(true, false, null)


def _of_column(predicate: Any, facts: Facts) -> Outcomes:
    some = facts.rows > 0
    if facts.kind is None:
        none = np.zeros_like(some)
        if isinstance(predicate, IsNull):
            return Outcomes(some, none, none)
        return Outcomes(none, none, some)
    null = some & (facts.nulls != 0)
    filled = some & (facts.nulls != facts.rows)
    if isinstance(predicate, IsNull):
        return Outcomes(null, filled, np.zeros_like(some))
    if isinstance(predicate, Compare):
        true, false = _compared(predicate, facts)
        if _may_be_nan(facts):
            nan = ~facts.no_nan if facts.no_nan is not None else np.ones_like(some)
            above = predicate.operator in (">", ">=", "<>")
            true, false = (true | nan, false) if above else (true, false | nan)
    elif isinstance(predicate, In):
        true, false = _among(predicate, facts)
        if _may_be_nan(facts):
            false = np.ones_like(some)
    else:
        true, false = _begins(predicate, facts)
    return Outcomes(filled & true, filled & false, null)


def _may_be_nan(facts: Facts) -> bool:
    return bool(pa.types.is_floating(_plain(facts.kind)))


def _plain(kind: Any) -> Any:
    """A type without its dictionary."""
    while pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind


def _compared(predicate: Compare, facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Where the comparison may be true, and where it may be false, of values that are not null."""
    test = lowered(predicate.column.kind, facts.kind, predicate.operator, predicate.value)
    return _tested(test, facts)


def _tested(test: Test | bool | None, facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    anything = np.ones(len(facts.rows), np.bool_)
    if isinstance(test, bool):
        return (anything, ~anything) if test else (~anything, anything)
    if test is None or facts.low is None or facts.high is None:
        return anything, anything
    low, high = facts.low, facts.high
    # Bounds against the value: `x < v` may be true if the least x is below v, and so on.
    first, last = (test.low, test.high) if test.text is None else (test.text, test.text)
    least_below = _holds(low, "<", last)
    least_upto = _holds(low, "<=", last)
    greatest_above = _holds(high, ">", first)
    greatest_from = _holds(high, ">=", first)
    match test.operator:
        case "<":
            return least_below, greatest_from
        case "<=":
            return least_upto, greatest_above
        case ">":
            return greatest_above, least_upto
        case ">=":
            return greatest_from, least_below
    within = least_upto & greatest_from
    other = _holds(low, "<", first) | _holds(high, ">", last)
    return (within, other) if test.operator == "=" else (other, within)


def _holds(bounds: Bounds, operator: str, value: int | bytes) -> np.ndarray:
    """Whether each bound compares so with a value; also where it is unknown."""
    if isinstance(value, bytes):
        names = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
        compare = getattr(pc, names[operator])
        found = numbers(compare(bounds.values, column([value], pa.binary())[0]))
    elif operator == "<":
        found = bounds.values < value
    elif operator == "<=":
        found = bounds.values <= value
    elif operator == ">":
        found = bounds.values > value
    else:
        found = bounds.values >= value
    return found | ~bounds.known  # type: ignore[no-any-return]


def _among(predicate: In, facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Of IN: one of the values lies within the bounds."""
    anything = np.ones(len(facts.rows), np.bool_)
    tests = [lowered(predicate.column.kind, facts.kind, "=", value) for value in predicate.values]
    if facts.low is None or facts.high is None or any(test is None for test in tests):
        return anything, anything
    real = [test for test in tests if isinstance(test, Test)]  # False: no value of the type
    if not real:
        return ~anything, anything
    if all(test.text is None for test in real):
        return _among_keys(real, facts), anything
    if len(real) > _MANY_VALUES:
        texts = [test.text for test in real if test.text is not None]
        upto = _holds(facts.low, "<=", max(texts))
        return upto & _holds(facts.high, ">=", min(texts)), anything
    true = ~anything
    for test in real:
        true = true | _tested(test, facts)[0]
    return true, anything


def _among_keys(tests: list[Test], facts: Facts) -> np.ndarray:
    assert facts.low is not None
    assert facts.high is not None
    keys = np.unique(np.array([key for test in tests for key in (test.low, test.high)], np.int64))
    at = np.searchsorted(keys, np.where(facts.low.known, facts.low.values, keys[0]))
    next_key = keys[np.minimum(at, len(keys) - 1)]
    within = (at < len(keys)) & ((next_key <= facts.high.values) | ~facts.high.known)
    return within  # type: ignore[no-any-return]


def _begins(predicate: StartsWith, facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Of a prefix: the least value is not beyond it, and the greatest not below it."""
    anything = np.ones(len(facts.rows), np.bool_)
    kind = _plain(facts.kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if facts.low is None or facts.high is None or not is_text:
        return anything, anything
    prefix = predicate.prefix.encode()
    low = numbers(pc.starts_with(facts.low.values, predicate.prefix)) | _holds(
        facts.low, "<", prefix
    )
    both = numbers(pc.starts_with(facts.high.values, predicate.prefix)) & facts.high.known
    first = numbers(pc.starts_with(facts.low.values, predicate.prefix)) & facts.low.known
    return low & _holds(facts.high, ">=", prefix), ~(first & both)


# --- Equalities that bloom filters can be asked ---------------------------------------------------

_MANY_EQUALITIES: Final = 1_000  # of an IN: beyond, filters say little
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
        if is_equality or (isinstance(part, In) and len(part.values) <= _MANY_EQUALITIES):
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
