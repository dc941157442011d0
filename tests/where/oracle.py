"""Predicates by hand: plain Python, three-valued logic, exact numbers. Shares nothing with the
package: it works on the trees that `draw.py` makes, before they are written as SQL.

A value is a Fraction (numbers; dates and times in seconds), a float (floating-point columns), a
str, bytes, a bool or None. A literal is the same, exact.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np

TESTS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def key(value):
    """Something that Python orders as predicates order values: NaN is the greatest."""
    if isinstance(value, float):
        return (1, 0) if math.isnan(value) else (0, value)
    return (0, value)


def nearest(kind: str, number: Fraction) -> Fraction | float:
    """The value of a floating-point type nearest to a number, by looking at those around it; the
    number itself if that is beyond the range."""
    make = FLOATS[kind]
    top = Fraction(float(np.finfo(make).max))
    beyond = top + (top - Fraction(float(np.nextafter(np.finfo(make).max, make(0))))) / 2
    if abs(number) >= beyond:
        return number
    with np.errstate(all="ignore"):
        start = make(float(max(min(number, top), -top)))
        near = [start, np.nextafter(start, make(np.inf)), np.nextafter(start, make(-np.inf))]
    finite = [item for item in near if np.isfinite(item)]

    def distance(item):
        even = int.from_bytes(item.tobytes(), "little") & 1
        return abs(Fraction(float(item)) - number), even

    return float(min(finite, key=distance))


def compare(kind: str, value, test: str, literal) -> bool | None:
    """A value compared with a literal, in a column of a kind."""
    if value is None or literal is None:
        return None
    if kind in FLOATS and isinstance(literal, Fraction):
        literal = nearest(kind, literal)
    return TESTS[test](key(value), key(literal))


def both(items):
    found = list(items)
    return False if False in found else None if None in found else True


def either(items):
    found = list(items)
    return True if True in found else None if None in found else False


def contrary(value):
    return None if value is None else not value


def evaluate(tree, row: dict) -> bool | None:
    """A tree for a row, a dict of (kind, value) by column."""
    head, *rest = tree
    if head == "constant":
        return rest[0]
    if head == "not":
        return contrary(evaluate(rest[0], row))
    if head in ("and", "or"):
        return (both if head == "and" else either)([evaluate(item, row) for item in rest[0]])
    kind, value = row[rest[0]]
    if head == "alone":
        return value
    if head == "null":
        return value is None
    if head == "compare":
        return compare(kind, value, rest[1], rest[2])
    if head == "in":
        return either(compare(kind, value, "=", literal) for literal in rest[1])
    if head == "between":
        low, high = rest[1:]
        return both([compare(kind, value, ">=", low), compare(kind, value, "<=", high)])
    if head == "prefix":
        return None if value is None else value.startswith(rest[1])
    raise AssertionError(head)
