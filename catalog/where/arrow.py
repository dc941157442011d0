"""Predicates for pyarrow: of a batch, which rows; of a dataset, an expression. One code for both,
for the functions of pyarrow.compute take either. Pure.

pyarrow compares floating-point numbers as IEEE does, where NaN is neither less nor greater than
anything; here it is the greatest of all.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..format.columns import column
from .kinds import DAY_S, compared, family
from .tree import And, Column, Compare, Constant, In, IsNull, Not, Or, Predicate, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .tree import Value

_COUNTED: Final = ("date", "time", "timestamp", "instant")
_CHAIN: Final = 64
_NULL: Final = column([None], pa.bool_())[0]  # `pa.scalar` imports pandas
_FUNCTIONS: Final = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.Array:
    """Whether each row of a batch meets a predicate: true, false or null."""

    def values(column: Column) -> pa.Array:
        found = batch.column(batch.schema.get_field_index(column.name))
        wanted = compared(column.kind)
        if compared(found.type) != wanted and family(column.kind) != "other":
            found = found.cast(wanted)  # of a file whose own type is narrower
        return found

    found = _Translation(values, lambda value: value).of(predicate)
    if isinstance(found, pa.Scalar):
        return pa.repeat(found, batch.num_rows)
    return found


def expression(predicate: Predicate) -> pc.Expression:
    """A predicate as an expression, for the filters of pyarrow datasets and tables.

    Columns are named, and must have the types of the schema that the predicate was bound to.
    """
    return _Translation(lambda column: pc.field(column.name), pc.scalar).of(predicate)


class _Translation:
    """Arrays or expressions out of predicates.

    Args:
        values: The values of a column.
        constant: A scalar as such a thing.
    """

    def __init__(
        self, values: Callable[[Column], Any], constant: Callable[[pa.Scalar], Any]
    ) -> None:
        self._values = values
        self._constant = constant

    def of(self, predicate: Predicate) -> Any:
        """A predicate's values: booleans with nulls."""
        if isinstance(predicate, Constant):
            return self._constant(column([predicate.value], pa.bool_())[0])
        if isinstance(predicate, And):
            return _all_of([self.of(item) for item in predicate.items])
        if isinstance(predicate, Or):
            return _any_of([self.of(item) for item in predicate.items])
        if isinstance(predicate, Not):
            return pc.invert(self.of(predicate.item))
        if isinstance(predicate, IsNull):
            return pc.is_null(self._values(predicate.column))
        values = _comparable(self._values(predicate.column), predicate.column.kind)
        if isinstance(predicate, StartsWith):
            return pc.starts_with(values, pattern=predicate.prefix)
        if isinstance(predicate, In):
            return self._in(values, predicate)
        return self._compare(values, predicate)

    def _compare(self, values: Any, predicate: Compare) -> Any:
        literal = scalar(predicate.column.kind, predicate.value)
        found = _FUNCTIONS[predicate.operator](values, self._constant(literal))
        if predicate.operator in (">", ">=") and family(predicate.column.kind) == "float":
            return pc.or_kleene(found, pc.is_nan(values))
        return found

    def _in(self, values: Any, predicate: In) -> Any:
        """`is_in` is false of null, where this is null; and it tells 0.0 and -0.0 apart."""
        kind = predicate.column.kind
        wanted: list[Value] = list(predicate.values)
        if family(kind) == "float" and 0.0 in wanted:
            wanted.append(-0.0)
        found = pc.is_in(values, value_set=scalars(kind, wanted))
        return pc.if_else(pc.is_valid(values), found, self._constant(_NULL))


def _all_of(items: Sequence[Any]) -> Any:
    """All of some. A long chain of one function ends pyarrow's process when a dataset is filtered
    by it, however it is nested; so it is cut into short ones by De Morgan's law."""
    if len(items) <= _CHAIN:
        return joined(items, pc.and_kleene)
    return pc.invert(_any_of([pc.invert(_all_of(some)) for some in _cut(items)]))


def _any_of(items: Sequence[Any]) -> Any:
    if len(items) <= _CHAIN:
        return joined(items, pc.or_kleene)
    return pc.invert(_all_of([pc.invert(_any_of(some)) for some in _cut(items)]))


def _cut(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[at : at + _CHAIN] for at in range(0, len(items), _CHAIN)]


def joined(items: Sequence[Any], function: Callable[[Any, Any], Any]) -> Any:
    """Many joined two by two: a tree as shallow as can be, for engines descend it by recursion."""
    while len(items) > 1:
        pairs = [function(*items[at : at + 2]) for at in range(0, len(items) - 1, 2)]
        items = [*pairs, *items[len(items) - len(items) % 2 :]]
    return items[0]


def _comparable(values: Any, kind: pa.DataType) -> Any:
    """Values as the type that pyarrow compares them in."""
    wanted = scalar_type(kind)
    if wanted == kind or family(kind) == "other":
        return values
    return values.cast(wanted)


def scalar_type(kind: pa.DataType) -> pa.DataType:
    """The type that values of a type are compared in: there are no functions for half floats."""
    kind = compared(kind)
    return pa.float32() if pa.types.is_float16(kind) else kind


def scalar(kind: pa.DataType, value: Value) -> pa.Scalar:
    """A value of a predicate as a scalar of its type."""
    return scalars(kind, [value])[0]


def scalars(kind: pa.DataType, values: Sequence[Value]) -> pa.Array:
    """Values of a predicate as an array of their type."""
    kind, types = scalar_type(kind), pa.types
    if family(kind) in _COUNTED:
        counts = [int(value) for value in values]
        if types.is_date64(kind):
            counts = [count * DAY_S * 1000 for count in counts]
        return column(counts, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    if types.is_decimal(kind):
        unscaled = [int(Fraction(value) * 10**kind.scale) for value in values]  # type: ignore[arg-type]
        raw = b"".join(count.to_bytes(kind.byte_width, "little", signed=True) for count in unscaled)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(raw)])
    if types.is_integer(kind):
        wide = pa.uint64() if types.is_unsigned_integer(kind) else pa.int64()
        return column(values, wide).cast(kind)
    if types.is_floating(kind):
        return column(values, pa.float64()).cast(kind)
    return column(values, kind)
