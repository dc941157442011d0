"""Predicates in words, as a person would write them: for messages, not to be parsed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from .tree import And, Compare, Constant, In, IsNull, Not, Or, StartsWith

if TYPE_CHECKING:
    from .tree import Predicate, Value

_SHOWN = 5  # of the values of an IN, and of the parts of an OR


def in_words(predicate: Predicate) -> str:
    """A predicate in SQL for people."""
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(_some([in_words(item) for item in predicate.items])) + ")"
    if isinstance(predicate, Not):
        return f"NOT ({in_words(predicate.item)})"
    if isinstance(predicate, Constant):
        return {True: "TRUE", False: "FALSE", None: "NULL"}[predicate.value]
    name, kind = predicate.column.name, predicate.column.kind
    if isinstance(predicate, Compare):
        return f"{name} {predicate.operator} {_value(predicate.value, kind)}"
    if isinstance(predicate, In):
        shown = _some([_value(value, kind) for value in predicate.values[: _SHOWN + 1]])
        return f"{name} IN ({', '.join(shown)})"
    if isinstance(predicate, StartsWith):
        return f"{name} LIKE {predicate.prefix + '%'!r}"
    assert isinstance(predicate, IsNull)
    return f"{name} IS NULL"


def _some(texts: list[str]) -> list[str]:
    return texts if len(texts) <= _SHOWN else [*texts[:_SHOWN], "…"]


def _value(value: Value, kind: pa.DataType) -> str:
    from .arrow import scalar

    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return str(scalar(kind, value).cast(pa.string()).as_py())
    return str(value)
