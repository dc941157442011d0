"""Which outcomes a predicate may have among the rows of files, by what is known of their columns:
true, false, null. Pure.

What is unknown may be anything. A file in which no row may be true is skipped; the two others are
kept for what `Not` makes of them.

Source: docs/format.md, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..format import compute as pc
from ..format.columns import column, numbers
from .lower import Test, lowered
from .tree import And, Compare, Constant, In, IsNull, Not, Or, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tree import Predicate

MANY_VALUES = 64  # of an IN: beyond, those of text are judged by the least and the greatest


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
    if len(real) > MANY_VALUES:
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
