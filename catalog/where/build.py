"""Trees of predicates put together: flat, without what says nothing, negations at the leaves. Pure.

All of it is exact in three-valued logic.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .normal import NEGATED, one_of, settled
from .tree import And, Column, Compare, Constant, In, Not, Or, Predicate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .tree import Value


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
