"""The filters of a Spark query, as `filters_java` writes them down, as predicates of lakelog's: one
that every wanted row meets, to skip files by (`read_filters`), and one that is true of exactly the
same rows, to delete by (`exact_text`).

A filter that isn't understood may be anything: to skip files it is left out where that makes the
predicate weaker, and else takes the whole with it; to delete rows there is no predicate then, and
Spark itself reads the rows.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
import threading
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from ..catalog.read.row_filter import RowFilter
from ..catalog.read.statistics import StatisticsWarning
from ..catalog.where.tree import (
    Column,
    Compare,
    Constant,
    IsNull,
    all_of,
    any_of,
    columns_of,
    negation,
    one_of,
    starts_with,
)
from ..errors import InvalidPredicate, InvalidSchema
from .arrow_types import spark_type, storage
from .jvm import JavaFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql.types import StructField

    from ..catalog.where.tree import Operator, Predicate, Value

    Judge: TypeAlias = Callable[[RowFilter], np.ndarray]  # as `JudgedFiles.may_hold`

# By the name that Spark has for a type. Texts and bytes are ordered byte by byte in both; so are
# NaN (equal to itself, above all else) and the zeros (equal).
_KINDS: Final = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
    "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
# Spark moves what is before these if a file or the session names the hybrid calendar: dates before
# October 1582, times while zones had odd offsets.
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
    return _KINDS.get(name)


class _Reader:
    def __init__(self, columns: Mapping[str, tuple[str, pa.Field]]) -> None:
        self._columns = columns

    def read(self, node: Any, *, wanted: bool) -> Predicate | None:
        """Returns a predicate that is `wanted` wherever the filter is."""
        if node is None:
            return None
        word, *items = node
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


def _value(written: Any, kind: pa.DataType | None) -> Value:
    """A value that `FilterText` wrote: dates in days, times in microseconds since 1970."""
    if pa.types.is_floating(kind):
        (number,) = struct.unpack("<d", struct.pack("<q", written))
        return float(number)
    if pa.types.is_decimal(kind):
        return Decimal(written)
    if pa.types.is_string(kind):
        return bytes.fromhex(written).decode()
    if pa.types.is_binary(kind):
        return bytes.fromhex(written)
    if pa.types.is_boolean(kind) != isinstance(written, bool) or not isinstance(written, int):
        raise ValueError(f"{written!r} is no value of {kind}")
    return written


# --- Skipping files -------------------------------------------------------------------------------

# The planner asks from threads of several queries; what a log knows is loaded when it is asked for.
_ONE_AT_A_TIME = threading.Lock()


class FileSkipper(JavaFunction):
    """The files of one relation.

    Args:
        judge: Which files of the table may hold rows that are asked for.
        numbers: Per file of the relation its place among those.
        read: The columns of the relation, as Spark's reader is asked for them.
        target: The columns as the cut has them.
    """

    def __init__(
        self, judge: Judge, numbers: np.ndarray, read: Sequence[StructField], target: pa.Schema
    ) -> None:
        self._judge = judge
        self._numbers = numbers
        self._columns = {
            field.name: (field.dataType.simpleString(), target.field(field.name)) for field in read
        }

    def apply(self, filters: str) -> bytes:
        """Called by the JVM.

        Args:
            filters: As `FilterText` writes them.
        Returns:
            A bit for each file of the relation, the lowest first; nothing: all are to be read.
        """
        try:
            wanted = read_filters(filters, self._columns)
            if wanted is None:
                return b""
            with _ONE_AT_A_TIME:
                kept = self._judge(wanted)
            return np.packbits(kept[self._numbers], bitorder="little").tobytes()
        except Exception as error:
            what = f"{type(error).__name__}: {error}: nothing is skipped by the filters of a query"
            warnings.warn(what, StatisticsWarning, stacklevel=2)
            return b""


# --- Exact predicates -----------------------------------------------------------------------------

_COMPARISONS: Final = ("=", "<", "<=", ">", ">=")
_EPOCH: Final = dt.date(1970, 1, 1)
# Before that, Spark may read dates and times of older files as other ones, which are before it too.
_FIRST: Final = dt.date(1901, 1, 1)
_LAST: Final = dt.date(9999, 12, 31)
_DAY_MICROS: Final = 86_400 * 10**6
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")


def exact_text(condition: str, schema: pa.Schema, table: str) -> str | None:
    """Returns a predicate in SQL (docs/reading.md) that is true wherever a condition of Spark's is,
    and nowhere else; None if there is none, or none is known.

    Args:
        condition: As `FilterText` writes it.
        schema: Of the table in the cut.
    """
    from ..catalog.where.parse import parse_where

    try:
        text = _Words(schema).of(json.loads(condition))
        if text is not None:
            parse_where(text, schema, table)
    except (InvalidPredicate, UnicodeDecodeError):  # too deep or too long, or half a character
        return None
    return text


class _Words:
    def __init__(self, schema: pa.Schema) -> None:
        self._kinds = {field.name: _comparable(field.type) for field in schema}

    def of(self, node: Any) -> str | None:
        if node is None:
            return None
        word, *items = node
        if word in ("and", "or"):
            texts = [self.of(item) for item in _flat(word, items)]
            known = [text for text in texts if text is not None]
            if len(known) < len(texts) or len(texts) == 1:
                return known[0] if len(known) == len(texts) else None
            return f" {word.upper()} ".join(f"({text})" for text in known)
        if word == "not":
            inner = self.of(items[0])
            return None if inner is None else f"NOT ({inner})"
        if word == "constant":
            return {True: "TRUE", False: "FALSE", None: "NULL"}[items[0]]
        return self._leaf(word, *items)

    def _leaf(self, word: str, name: str, kind: str, *given: Any) -> str | None:
        column = bytes.fromhex(name).decode()
        if self._kinds.get(column) != kind:
            return None
        quoted = '"' + column.replace('"', '""') + '"'
        if word in ("null", "filled"):
            return f"{quoted} IS {'' if word == 'null' else 'NOT '}NULL"
        if word == "true":
            return quoted if kind == "boolean" else None
        values = [_literal(kind, _value(each, _kind(kind))) for each in given]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        if word == "in":  # whose sets may tell the zeros apart
            return None if kind in ("float", "double") else f"{quoted} IN ({', '.join(known)})"
        if word == "begins":
            return _begins(quoted, given[0])
        if word == "<=>":
            return f"({quoted} IS NOT NULL AND {quoted} = {known[0]})"
        return f"{quoted} {word} {known[0]}" if word in _COMPARISONS else None


def _comparable(kind: pa.DataType) -> str | None:
    """Spark's name of the type that values of a column have there, if every one of them is the same
    value there, and is ordered in the same way; else None."""
    kind = storage(kind)
    is_plain = (
        kinds.is_boolean(kind)
        or kinds.is_integer(kind)
        or kind in (pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
        or (kinds.is_timestamp(kind) and kind.unit != "ns")
        or kinds.is_decimal(kind)
    )
    try:
        return spark_type(kind, "").simpleString() if is_plain else None
    except InvalidSchema:
        return None


def _literal(kind: str, value: Any) -> str | None:
    """A value as a literal of lakelog's SQL, or None if it may mean another one there.

    Args:
        kind: Spark's name of its type.
        value: Dates in days, timestamps in microseconds, since 1970.
    """
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind in _INTEGERS or kind.startswith("decimal"):
        return format(value, "f") if not isinstance(value, int) else str(value)
    if kind in ("float", "double"):
        if math.isnan(value):
            return None
        return repr(value) if math.isfinite(value) else f"'{value}'"
    if kind == "binary":
        return f"X'{value.hex()}'"
    if kind == "string":
        return _text(value)
    days, micros = divmod(value, _DAY_MICROS) if kind.startswith("timestamp") else (value, 0)
    if not (_FIRST - _EPOCH).days <= days <= (_LAST - _EPOCH).days:
        return None
    day = _EPOCH + dt.timedelta(days=days)
    if kind == "date":
        return f"DATE '{day.isoformat()}'"
    time = (dt.datetime.min + dt.timedelta(microseconds=micros)).time().isoformat("microseconds")
    if kind == "timestamp":
        return f"TIMESTAMPTZ '{day.isoformat()} {time}Z'"
    return f"TIMESTAMP '{day.isoformat()} {time}'" if kind == "timestamp_ntz" else None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _begins(quoted: str, written: str) -> str | None:
    prefix = bytes.fromhex(written).decode()
    if not prefix:
        return None
    if not any(special in prefix for special in "%_\\"):
        return f"{quoted} LIKE {_text(prefix + '%')}"
    escape = next((sign for sign in "$!#~^|" if sign not in prefix), None)
    if escape is None:
        return None
    for special in "%_":
        prefix = prefix.replace(special, escape + special)
    return f"{quoted} LIKE {_text(prefix + '%')} ESCAPE '{escape}'"


def _flat(word: str, items: list[Any]) -> list[Any]:
    """The items, those of the same kind opened."""
    found: list[Any] = []
    left = items[::-1]
    while left:
        item = left.pop()
        if item is not None and item[0] == word:
            left += item[:0:-1]
        else:
            found.append(item)
    return found
