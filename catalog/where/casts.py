"""Casts that can't lose anything: which SQL types there are, and literals turned into them. Pure.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

from . import literals as lit
from .kinds import family, steps
from .literals import Clock, Literal, Moment, NotThis, Null, Number, Text
from .normal import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kinds import Family

_T = exp.DType
_TYPES: Final = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.UTINYINT: pa.uint8(),
    _T.USMALLINT: pa.uint16(),
    _T.UINT: pa.uint32(),
    _T.UBIGINT: pa.uint64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.VARBINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIME: pa.time64("us"),
    _T.TIMESTAMP: pa.timestamp("us"),
    _T.TIMESTAMPNTZ: pa.timestamp("us"),
    _T.TIMESTAMP_S: pa.timestamp("s"),
    _T.TIMESTAMP_MS: pa.timestamp("ms"),
    _T.TIMESTAMP_NS: pa.timestamp("ns"),
    _T.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}
# A literal of these takes any fraction of a second: it is exact until it meets a column.
_LOOSE: Final = {_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.TIMESTAMPTZ, _T.TIME}


def arrow_type(to: exp.DataType) -> pa.DataType | None:
    """The Arrow type that an SQL type means here; None for types that there are not."""
    parameters = [item.this for item in to.expressions]
    if to.this is _T.DECIMAL:
        if not all(type(item) is exp.Literal and item.this.isdigit() for item in parameters):
            return None
        sizes = [int(item.this) for item in parameters]
        precision, scale = (*sizes, 0)[:2] if sizes else (0, 0)
        if len(sizes) > 2 or not (1 <= precision <= 76 and scale <= precision):
            return None
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    found = _TYPES.get(to.this)
    return None if parameters or to.args.get("nested") else found


def cast_literal(literal: Literal, to: exp.DataType, kind: pa.DataType) -> Literal:
    """A literal as another type: the same value, or for floating-point types the nearest.

    Raises:
        NotThis: It is not a literal of that type, or would lose something.
    """
    wanted = family(kind)
    if isinstance(literal, Null):
        return literal
    if isinstance(literal, Text) and wanted in ("timestamp", "instant"):
        found: Literal = (moment := lit.moment(literal.value))  # TIMESTAMP '… Z' may have an offset
        if wanted == "instant" and not moment.offset:
            raise NotThis("it has no offset: write one, or Z for UTC")
    else:
        found = as_family(literal, wanted)
    if isinstance(found, Number):
        if wanted != "float":
            _check_steps(found.value, kind)
        elif isinstance(found.value, Fraction):
            near = nearest(kind, found.value)
            if not isfinite(near):
                raise NotThis("it is beyond the range of the type")
            return Number(Fraction(near))
    elif isinstance(found, Moment | Clock) and to.this not in _LOOSE:
        _check_steps(found.seconds, kind)
    return found


def _check_steps(value: Fraction | float, kind: pa.DataType) -> None:
    counted = steps(kind)
    if counted is None or isinstance(value, float):
        raise NotThis("it is no number of that type")
    count = value * counted.unit
    if count.denominator != 1 or not counted.least <= count <= counted.greatest:
        raise NotThis("the cast would lose something of it")


_READERS: Final[dict[Family, Callable[[str], Literal]]] = {
    "integer": lit.integer,
    "decimal": lit.number,
    "float": lit.number,
    "bool": lit.boolean,
    "date": lit.date,
    "timestamp": lit.moment,
    "instant": lit.moment,
    "time": lit.clock,
}


def as_family(literal: Literal, wanted: Family) -> Literal:
    """A literal as what a column of a family can be compared with; a text is read as such.

    Raises:
        NotThis: It is not one.
    """
    if isinstance(literal, Text) and wanted in _READERS:
        literal = _READERS[wanted](literal.value)
    fits = {
        "integer": isinstance(literal, Number),
        "decimal": isinstance(literal, Number),
        "float": isinstance(literal, Number),
        "bool": isinstance(literal, bool),
        "text": isinstance(literal, Text),
        "binary": isinstance(literal, bytes),
        "date": isinstance(literal, Moment),
        "timestamp": isinstance(literal, Moment),
        "instant": isinstance(literal, Moment),
        "time": isinstance(literal, Clock),
        "null": True,
        "other": False,
    }[wanted]
    if not fits:
        raise NotThis("")
    infinite = isinstance(literal, Number) and isinstance(literal.value, float)
    if infinite and wanted in ("integer", "decimal"):
        raise NotThis("only floating-point columns hold infinities")
    if isinstance(literal, Moment) and literal.offset != (wanted == "instant"):
        if literal.offset:
            raise NotThis("it has an offset, and the column has no time zone")
        raise NotThis("it has no offset, and the column has a time zone: write one, or Z for UTC")
    return literal
