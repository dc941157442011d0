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

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

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
