"""Predicates for Polars. Pure.

Polars orders NaN as predicates do. Some types become others there: seconds are milliseconds, times
of day nanoseconds, and dates in milliseconds are points in time.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import InvalidPredicate, MissingDependency
from .arrow import joined
from .kinds import DAY_S, PER_SECOND, compared, family
from .normal import settled, within_day
from .tree import And, Compare, Constant, In, IsNull, Not, Or, Predicate, StartsWith

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import polars

    from .tree import Value

_TYPES: Final = {
    "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64",
    "uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "halffloat": "Float32", "float": "Float32", "double": "Float64",
    "bool": "Boolean", "string": "String", "binary": "Binary", "date32[day]": "Date",
}  # fmt: skip


def to_polars(predicate: Predicate) -> polars.Expr:
    """A predicate as an expression of Polars, over the columns as Polars takes them from Arrow.

    Raises:
        MissingDependency: Polars is not installed.
        InvalidPredicate: Polars has no such type, or its type doesn't hold the value.
    """
    try:
        import polars as pl
    except ImportError as error:
        hint = "pip install polars"
        raise MissingDependency("Polars is not installed", key="polars", hint=hint) from error
    return _Translation(pl).of(predicate)


class _Translation:
    def __init__(self, pl: ModuleType) -> None:
        self._pl = pl

    def of(self, predicate: Predicate) -> Any:
        pl = self._pl
        if isinstance(predicate, Constant):
            return pl.lit(predicate.value, pl.Boolean)
        if isinstance(predicate, And):
            return joined([self.of(item) for item in predicate.items], lambda a, b: a & b)
        if isinstance(predicate, Or):
            return joined([self.of(item) for item in predicate.items], lambda a, b: a | b)
        if isinstance(predicate, Not):
            return ~self.of(predicate.item)
        column = self._column(predicate.column.name)
        if isinstance(predicate, IsNull):
            return column.is_null()
        kind = compared(predicate.column.kind)
        if predicate.column.kind != kind or str(kind) == "halffloat":
            column = column.cast(self._type(kind))
        if isinstance(predicate, StartsWith):
            return column.str.starts_with(pl.lit(predicate.prefix, pl.String))
        if isinstance(predicate, In):
            return column.is_in(self._series(kind, predicate.values).implode())
        return self._compare(column, kind, predicate)

    def _column(self, name: str) -> Any:
        """`pl.col` takes some names for patterns."""
        pl = self._pl
        pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
        return pl.selectors.by_name(name).as_expr() if pattern else pl.col(name)

    def _compare(self, column: Any, kind: pa.DataType, predicate: Compare) -> Any:
        pl = self._pl
        known = settled(predicate)
        if known is not None:
            null = pl.lit(None, pl.Boolean)
            return (column.is_not_null() | null) if known else (column.is_null() & null)
        predicate = within_day(predicate)
        literal = pl.lit(self._series(kind, [predicate.value])).first()
        return {
            "=": column.__eq__,
            "<>": column.__ne__,
            "<": column.__lt__,
            "<=": column.__le__,
            ">": column.__gt__,
            ">=": column.__ge__,
        }[predicate.operator](literal)

    def _series(self, kind: pa.DataType, values: Sequence[Value]) -> Any:
        """Values as Polars holds them."""
        pl, wanted = self._pl, self._type(kind)
        factor = _factor(kind)
        if factor is None:
            return pl.Series(values, dtype=wanted)
        counts = [int(value) * factor for value in values]
        if any(not -(2**63) <= count < 2**63 for count in counts):
            raise InvalidPredicate(f"Polars has no such value of {kind}", key=str(kind))
        return pl.Series(counts, dtype=pl.Int64).cast(wanted)

    def _type(self, kind: pa.DataType) -> Any:
        pl, is_a = self._pl, pa.types
        if is_a.is_decimal128(kind):
            return pl.Decimal(kind.precision, kind.scale)
        if is_a.is_fixed_size_binary(kind) and family(kind) == "binary":
            return pl.Binary
        if is_a.is_timestamp(kind):
            return pl.Datetime("ms" if kind.unit == "s" else kind.unit, kind.tz)
        if is_a.is_time(kind):
            return pl.Time
        if is_a.is_date64(kind):
            return pl.Datetime("ms")
        if str(kind) not in _TYPES:
            hint = "Filter with pyarrow: `expression` or `mask`"
            raise InvalidPredicate(f"Polars has no {kind}", key=str(kind), hint=hint)
        return getattr(pl, _TYPES[str(kind)])


def _factor(kind: pa.DataType) -> int | None:
    """Polars' steps in one of a date's or time's; None for other types."""
    if pa.types.is_date64(kind):
        return DAY_S * 1000
    if pa.types.is_time(kind):
        return PER_SECOND["ns"] // PER_SECOND[kind.unit]
    if pa.types.is_timestamp(kind):
        return 1000 if kind.unit == "s" else 1
    return 1 if pa.types.is_date(kind) else None
