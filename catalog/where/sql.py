"""Predicates as SQL for an engine: every name quoted, every literal with its type. Pure.

Both engines order NaN as predicates do. What decides for all rows at once is written so: the least
value of a type is not a literal everywhere.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ...errors import InvalidPredicate
from .kinds import family
from .normal import settled, within_day
from .sql_literals import DUCKDB, SPARK, Engine
from .tree import And, Compare, Constant, In, IsNull, Not, Or, Predicate, StartsWith

if TYPE_CHECKING:
    from .tree import Column

Dialect = Literal["duckdb", "spark"]
_ENGINES: dict[str, Engine] = {"duckdb": DUCKDB, "spark": SPARK}


def to_sql(predicate: Predicate, dialect: Dialect) -> str:
    """A predicate as a condition in an engine's SQL, over the columns as it takes them from Arrow
    or Parquet.

    Raises:
        InvalidPredicate: The engine has no such type, or its type doesn't hold the value.
    """
    if dialect not in _ENGINES:
        raise InvalidPredicate(
            f"There is no dialect {dialect!r}", key=dialect, hint="Use duckdb or spark"
        )
    return _Translation(_ENGINES[dialect]).of(predicate)


class _Translation:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, predicate: Predicate) -> str:
        """A condition, in parentheses unless it is a single one."""
        if isinstance(predicate, Constant):
            return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[predicate.value]
        if isinstance(predicate, And):
            return self._engine.join([self.of(item) for item in predicate.items], "AND")
        if isinstance(predicate, Or):
            return self._engine.join([self.of(item) for item in predicate.items], "OR")
        if isinstance(predicate, Not):
            return f"(NOT {self.of(predicate.item)})"
        name = self._engine.name(predicate.column.name)
        if isinstance(predicate, IsNull):
            return f"({name} IS NULL)"
        if isinstance(predicate, StartsWith):
            return f"{self._engine.starts_with}({name}, {self._engine.text(predicate.prefix)})"
        if family(predicate.column.kind) == "text":
            name = self._engine.by_bytes(name)
        if isinstance(predicate, In):
            return self._in(name, predicate)
        return self._compare(name, predicate)

    def _in(self, name: str, predicate: In) -> str:
        values = [self._engine.literal(predicate.column.kind, value) for value in predicate.values]
        if _has_zero(predicate.column, predicate):  # hash tables may tell them apart
            values.append(self._engine.literal(predicate.column.kind, -0.0))
        most = self._engine.most_in
        parts = [values[at : at + most] for at in range(0, len(values), most)]
        found = [f"({name} IN ({', '.join(part)}))" for part in parts]
        return found[0] if len(found) == 1 else self._engine.join(found, "OR")

    def _compare(self, name: str, predicate: Compare) -> str:
        known = settled(predicate)
        if known is not None:
            null = self.of(Constant(None))
            return f"({name} IS NOT NULL OR {null})" if known else f"({name} IS NULL AND {null})"
        predicate = within_day(predicate)
        literal = self._engine.literal(predicate.column.kind, predicate.value)
        return f"({name} {predicate.operator} {literal})"


def _has_zero(column: Column, predicate: In) -> bool:
    return family(column.kind) == "float" and 0.0 in predicate.values
