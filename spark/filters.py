"""The filters of a Spark query, as `filters_java` writes them down, as a predicate of lakelog's, so
that one mechanism decides what is skipped.

What isn't understood may be anything: it is left out where that makes the predicate weaker, and
else takes the whole with it.
"""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..catalog.read.row_filter import RowFilter
from ..catalog.where.build import all_of, any_of, negation
from ..catalog.where.normal import one_of, starts_with
from ..catalog.where.tree import Column, Compare, Constant, IsNull, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..catalog.where.tree import Operator, Predicate, Value

# By the name that Spark has for a type. Texts and bytes are ordered byte by byte in both; so are
# NaN (equal to itself, above all else) and the zeros (equal).
KINDS: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
# Spark moves what lies before these when a file says, or the session, that it was written with the
# hybrid calendar: dates before October 1582, times while zones had odd offsets.
SURE_DAY: Final = -25_202  # 1901-01-01
SURE_MICROS: Final = SURE_DAY * 86_400 * 10**6
_OPERATORS: Final[dict[str, Operator]] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_filters(text: str, columns: Mapping[str, tuple[str, pa.Field]]) -> RowFilter | None:
    """What rows have to meet, as far as it is understood.

    Args:
        text: As `FilterText` writes it.
        columns: Of the relation, by name: Spark's name of the type, and the field of the cut, for
            its generation.
    Returns:
        A filter that each row meets which the query wants; None: nothing is understood.
    """
    predicate = _Reader(columns).read(json.loads(text), wanted=True)
    if predicate is None or isinstance(predicate, Constant):
        return None
    fields = [_field(name, columns) for name in columns_of(predicate)]
    return RowFilter(predicate, pa.schema(fields))


def _field(name: str, columns: Mapping[str, tuple[str, pa.Field]]) -> pa.Field:
    kind, field = columns[name]
    return field.with_type(_kind(kind))


def _kind(name: str) -> pa.DataType | None:
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return KINDS.get(name)


class _Reader:
    def __init__(self, columns: Mapping[str, tuple[str, pa.Field]]) -> None:
        self._columns = columns

    def read(self, told: Any, *, wanted: bool) -> Predicate | None:
        """A predicate that is `wanted` wherever the filter is."""
        if told is None:
            return None
        word, *items = told
        if word == "not":
            found = self.read(items[0], wanted=not wanted)
            return None if found is None else negation(found)
        if word == "constant":
            return Constant(items[0])
        if word not in ("and", "or"):
            return self._leaf(word, *items, wanted=wanted)
        known = [self.read(item, wanted=wanted) for item in items]
        sure = [item for item in known if item is not None]
        if not sure or ((word == "and") != wanted and len(sure) < len(known)):
            return None  # what isn't understood might decide it
        return all_of(sure) if word == "and" else any_of(sure)

    def _leaf(
        self, word: str, name: str, type_name: str, *given: Any, wanted: bool
    ) -> Predicate | None:
        known = self._columns.get(bytes.fromhex(name).decode())
        kind = _kind(type_name)
        if known is None or known[0] != type_name or kind is None:
            return None
        column = Column(known[1].name, kind)
        values = [_value(each, kind) for each in given]
        if any(isinstance(value, float) and math.isnan(value) for value in values):
            return None
        found = _of_column(word, column, values)
        if found is None or word in ("null", "filled"):
            return found
        return _however_old(found, column, wanted=wanted)


def _of_column(word: str, column: Column, values: list[Value]) -> Predicate | None:
    if word in ("null", "filled"):
        return IsNull(column) if word == "null" else negation(IsNull(column))
    if word == "true":
        return Compare(column, "=", True) if pa.types.is_boolean(column.kind) else None
    if word == "in":
        return one_of(column, values) if values else None
    (value,) = values
    if word == "begins":
        return starts_with(column, value) if isinstance(value, str) else None
    if word == "<=>":
        return all_of([negation(IsNull(column)), Compare(column, "=", value)])
    return Compare(column, _OPERATORS[word], value)


def _however_old(found: Predicate, column: Column, *, wanted: bool) -> Predicate:
    """A predicate that is `wanted` for old dates and times as well: Spark may read others."""
    if pa.types.is_date(column.kind):
        old = Compare(column, "<", SURE_DAY)
    elif pa.types.is_timestamp(column.kind):
        old = Compare(column, "<", SURE_MICROS)
    else:
        return found
    return any_of([found, old]) if wanted else all_of([found, negation(old)])


def _value(told: Any, kind: pa.DataType) -> Value:
    if pa.types.is_floating(kind):
        (number,) = struct.unpack("<d", struct.pack("<q", told))
        return float(number)
    if pa.types.is_decimal(kind):
        return Decimal(told)
    if pa.types.is_string(kind):
        return bytes.fromhex(told).decode()
    if pa.types.is_binary(kind):
        return bytes.fromhex(told)
    if pa.types.is_boolean(kind) != isinstance(told, bool) or not isinstance(told, int):
        raise ValueError(f"{told!r} is no value of {kind}")
    return told
