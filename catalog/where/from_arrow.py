"""Predicates out of pyarrow's expressions, as far as they can be understood. Pure.

An expression can't be looked into, but it can be pickled: as an Arrow IPC file of one row, whose
schema's metadata lists the calls, fields and literals in order, and whose columns hold the literals
and the options of the calls. What was read is built anew, and must equal the expression.

An expression means what pyarrow would do: IEEE's comparisons, in which NaN is neither less nor
greater than anything. So `f > 5` becomes `f > 5 AND f <= inf` here.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..format.ipc_sizes import Table, uint32
from ..format.schema import widen
from .tree import (
    DAY_S,
    FLIPPED,
    PER_SECOND,
    Column,
    Compare,
    Constant,
    IsNull,
    Operator,
    Predicate,
    all_of,
    any_of,
    compare,
    compared,
    family,
    negation,
    neighbours,
    one_of,
    starts_with,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COMPARISONS: Final[dict[str, Operator]] = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MATCH, _SKIP = 0, 1  # how is_in treats nulls
_MAX_PARTS = 20_000
_MAX_DEPTH = 200


def from_arrow(expression: pc.Expression, schema: pa.Schema) -> Predicate | None:
    """The tree of an expression over a table; None if it can't be understood, or means something
    that predicates can't say.

    Args:
        expression: As DuckDB and Polars give it to a pyarrow dataset, or as a user wrote it.
        schema: Of the table, in the cut that is read.
    """
    try:
        pickled = expression.__reduce__()[1][0]
        item = _read(_parts(memoryview(pickled)), _literals(pickled), schema).condition()
    except (Unknown, pa.ArrowException, LookupError, ValueError, TypeError, struct.error):
        return None
    return item.predicate if item.expression.equals(expression) else None


def _literals(pickled: pa.Buffer) -> list[pa.Scalar]:
    with pa.ipc.open_file(pickled) as file:
        return [column[0] for column in file.get_batch(0).columns]


def _parts(file: memoryview) -> list[tuple[str, str]]:
    """Keys and values of the schema's metadata, in order: pyarrow gives them as a dict, and keys
    repeat."""
    length = struct.unpack_from("<i", file, len(file) - 10)[0]
    footer = file[len(file) - 10 - length : len(file) - 10]
    schema = Table(footer, Table(footer, uint32(footer, 0)).indirect(1))
    first, count = schema.vector(2)
    if count > _MAX_PARTS:
        raise Unknown

    def text(pair: Table, slot: int) -> str:
        at, size = pair.vector(slot)
        return bytes(footer[at : at + size]).decode()

    places = range(first, first + 4 * count, 4)
    pairs = [Table(footer, at + uint32(footer, at)) for at in places]
    return [(text(pair, 0), text(pair, 1)) for pair in pairs]


def _read(parts: list[tuple[str, str]], literals: list[pa.Scalar], schema: pa.Schema) -> Item:
    """What the parts say: calls are open from `call` to `end`."""
    calls: list[Call] = [Call("")]
    for key, value in parts:
        if key == "call":
            calls.append(Call(value))
            if len(calls) > _MAX_DEPTH:
                raise Unknown
        elif key == "field_ref":
            calls[-1].arguments.append(Field.of(value, schema))
        elif key == "literal":
            calls[-1].arguments.append(Item.of(literals[int(value)]))
        elif key == "options":
            calls[-1].options = literals[int(value)]
        elif key == "end" and value == calls[-1].name and len(calls) > 1:
            done = understand(calls.pop())
            calls[-1].arguments.append(done)
        else:
            raise Unknown
    if len(calls) != 1 or len(calls[0].arguments) != 1:
        raise Unknown
    only: Item = calls[0].arguments[0]
    return only


# --- Calls ----------------------------------------------------------------------------------------


class Unknown(Exception):
    """An expression says what predicates can't, or what nobody looked into yet."""


@dataclass(frozen=True, slots=True)
class Item:
    """A part of an expression, understood.

    Attributes:
        expression: Built anew.
        meaning: As a condition, if it can be one.
        scalar: The value of a literal.
        where_valid: Of `is_in`: its column, and the condition that is null where the column is.
    """

    expression: pc.Expression
    meaning: Predicate | None = None
    scalar: pa.Scalar | None = None
    where_valid: tuple[Column, Predicate] | None = None

    @classmethod
    def of(cls, scalar: pa.Scalar) -> Item:
        """A literal."""
        boolean = pa.types.is_boolean(scalar.type)
        meaning = Constant(scalar.as_py()) if boolean else None
        return cls(pc.scalar(scalar), meaning, scalar)

    def condition(self) -> Item:
        """The same, which is a condition."""
        if self.meaning is None:
            raise Unknown
        return self

    @property
    def predicate(self) -> Predicate:
        """What it says."""
        if self.meaning is None:
            raise Unknown
        return self.meaning


@dataclass(frozen=True, slots=True)
class Field(Item):
    """A column, or a cast of one to a wider type.

    Attributes:
        column: The column.
        kind: The type that it is cast to, or its own.
    """

    column: Column = Column("", pa.null())  # noqa: RUF009
    kind: pa.DataType = pa.null()  # noqa: RUF009

    @classmethod
    def of(cls, name: str, schema: pa.Schema) -> Field:  # type: ignore[override]
        """The column of a name."""
        if len(schema.get_all_field_indices(name)) != 1:
            raise Unknown
        column = Column(name, schema.field(name).type)
        true = Compare(column, "=", True) if family(column.kind) == "bool" else None
        return cls(pc.field(name), true, column=column, kind=column.kind)


@dataclass(slots=True)
class Call:
    """A call that is being read."""

    name: str
    arguments: list[Any] = field(default_factory=list)
    options: pa.Scalar | None = None


def understand(call: Call) -> Item:
    """Returns the meaning of a call. Raises `Unknown` if there is none here."""
    if call.name in _COMPARISONS:
        return _comparison(call)
    known: dict[str, Callable[[Call], Item]] = {
        "and_kleene": _both,
        "or_kleene": _either,
        "invert": _inverted,
        "is_null": _is_null,
        "is_valid": _is_valid,
        "is_nan": _is_nan,
        "is_in": _is_in,
        "if_else": _if_else,
        "starts_with": _starts_with,
        "cast": _cast,
    }
    if call.name not in known:
        raise Unknown
    return known[call.name](call)


def _both(call: Call) -> Item:
    left, right = call.arguments
    meaning = all_of([left.predicate, right.predicate])
    return Item(pc.and_kleene(left.expression, right.expression), meaning)


def _either(call: Call) -> Item:
    left, right = call.arguments
    meaning = any_of([left.predicate, right.predicate])
    return Item(pc.or_kleene(left.expression, right.expression), meaning)


def _inverted(call: Call) -> Item:
    (item,) = call.arguments
    return Item(pc.invert(item.expression), negation(item.predicate))


def _field(call: Call) -> Field:
    (found,) = call.arguments
    if not isinstance(found, Field):
        raise Unknown
    return found


def _option(call: Call, name: str) -> Any:
    if call.options is None:
        raise Unknown
    return call.options[name]


def _is_null(call: Call) -> Item:
    item = _field(call)
    nan_too = _option(call, "nan_is_null").as_py()
    meaning: Predicate = IsNull(item.column)
    if nan_too and family(item.kind) == "float" and family(item.column.kind) == "float":
        meaning = any_of([meaning, Compare(item.column, ">", math.inf)])
    return Item(pc.is_null(item.expression, nan_is_null=nan_too), meaning)


def _is_valid(call: Call) -> Item:
    item = _field(call)
    return Item(pc.is_valid(item.expression), negation(IsNull(item.column)))


def _is_nan(call: Call) -> Item:
    item = _field(call)
    if family(item.column.kind) != "float":
        raise Unknown
    return Item(pc.is_nan(item.expression), Compare(item.column, ">", math.inf))


def _starts_with(call: Call) -> Item:
    item = _field(call)
    if family(item.column.kind) != "text" or _option(call, "ignore_case").as_py():
        raise Unknown
    prefix = _option(call, "pattern").as_py()
    return Item(pc.starts_with(item.expression, pattern=prefix), starts_with(item.column, prefix))


def _cast(call: Call) -> Item:
    item = _field(call)
    to = _option(call, "to_type").type
    if widen(item.kind, to) != to:
        raise Unknown
    return replace(item, expression=item.expression.cast(to), kind=to)


def _comparison(call: Call) -> Item:
    left, right = call.arguments
    operator = _COMPARISONS[call.name]
    made = getattr(pc, call.name)(left.expression, right.expression)
    if isinstance(left, Field) and right.scalar is not None:
        return Item(made, _compared(left, operator, right.scalar))
    if isinstance(right, Field) and left.scalar is not None:
        return Item(made, _compared(right, FLIPPED[operator], left.scalar))
    raise Unknown


def _compared(item: Field, operator: Operator, scalar: pa.Scalar) -> Predicate:
    column, wanted = item.column, family(item.kind)
    if wanted in ("null", "other") or not _exactly_compared(item.kind, scalar):
        raise Unknown
    if not scalar.is_valid:
        return Constant(None)
    value = scalar.as_py() if wanted in ("bool", "text", "binary") else exact(scalar)
    if not isinstance(value, Fraction | float):
        return Compare(column, operator, value)
    if isinstance(value, float) and math.isnan(value):
        raise Unknown
    found = compare(column, operator, value, exact=True)
    if operator in (">", ">=") and family(column.kind) == "float":
        return all_of([found, Compare(column, "<=", math.inf)])
    return found


def _exactly_compared(kind: pa.DataType, scalar: pa.Scalar) -> bool:
    """Whether pyarrow compares a column's values with a scalar without rounding either."""
    ours, theirs = family(kind), family(scalar.type)
    if ours == "integer" and theirs == "float":
        return bool(widen(kind, scalar.type) == scalar.type)
    if ours == "float" and theirs == "integer":
        return not scalar.is_valid or len(set(neighbours(kind, Fraction(scalar.as_py())))) == 1
    return widen(kind, scalar.type) is not None


def exact(scalar: pa.Scalar) -> Fraction | float:
    """The exact value of a number; of a date or a time in seconds."""
    kind = compared(scalar.type)
    if family(kind) in ("integer", "decimal"):
        return Fraction(scalar.as_py())
    if family(kind) == "float":
        value = float(scalar.as_py())
        return Fraction(value) if math.isfinite(value) else value
    count = scalar.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).as_py()
    if pa.types.is_date32(kind):
        return Fraction(count * DAY_S)
    return Fraction(count, PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit])


def _is_in(call: Call) -> Item:
    """Never null: a null is in the set or it isn't."""
    item = _field(call)
    values, nulls = _option(call, "value_set").values, _option(call, "null_matching_behavior")
    if nulls.as_py() not in (_MATCH, _SKIP) or item.kind != item.column.kind:
        raise Unknown
    skips = nulls.as_py() == _SKIP
    made = pc.is_in(item.expression, value_set=values, skip_nulls=skips)
    found = _one_of(item, [value for value in values if value.is_valid])
    if values.null_count and not skips:
        return Item(made, any_of([IsNull(item.column), found]))
    meaning = all_of([negation(IsNull(item.column)), found])
    return Item(made, meaning, where_valid=(item.column, found))


def _one_of(item: Field, values: Sequence[pa.Scalar]) -> Predicate:
    """Of integers any kind will do: pyarrow casts the set, and refuses what doesn't fit. It tells
    0.0 and -0.0 apart in sets, which predicates don't."""
    kinds = {compared(value.type) for value in values}
    same = kinds <= {compared(item.kind)}
    if not same and {family(kind) for kind in kinds} | {family(item.kind)} != {"integer"}:
        raise Unknown
    if family(item.kind) == "float" and any(value.as_py() == 0 for value in values):
        raise Unknown
    if not values:
        return one_of(item.column, [])
    return any_of([_compared(item, "=", value) for value in values])


def _if_else(call: Call) -> Item:
    """`is_in` made null where its column is: how DuckDB says IN."""
    condition, found, otherwise = call.arguments
    if found.where_valid is None or otherwise.scalar is None or otherwise.scalar.is_valid:
        raise Unknown
    column, predicate = found.where_valid
    if condition.predicate != negation(IsNull(column)):
        raise Unknown
    made = pc.if_else(condition.expression, found.expression, otherwise.expression)
    return Item(made, predicate)
