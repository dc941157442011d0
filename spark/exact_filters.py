"""A condition of Spark's, as `filters_java` writes it down, as a predicate of lakelog's that is
true of exactly the same rows; or none.

What is deleted by a predicate must be what Spark would have selected. So this takes only what is
known to mean the same in both, and leaves all else to whoever reads the rows with Spark itself.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from ..errors import InvalidPredicate, InvalidSchema
from .arrow_types import spark_type, storage

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPERATORS: Final = ("=", "<", "<=", ">", ">=")
_EPOCH: Final = dt.date(1970, 1, 1)
# Before that, Spark may read dates and times of older files as other ones; what lies after it does
# so in every reading, and what lies before it before.
_FIRST: Final = dt.date(1901, 1, 1)
_LAST: Final = dt.date(9999, 12, 31)
_DAY_MICROS: Final = 86_400 * 10**6
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")


def exact_text(told: str, schema: pa.Schema, table: str) -> str | None:
    """A predicate in SQL (docs/reading.md) that is true wherever a condition of Spark's is, and
    nowhere else.

    Args:
        told: As `FilterText` writes it.
        schema: Of the table in the cut.
    Returns:
        None: There is none, or it isn't known.
    """
    from ..catalog.where.parse import parse_where

    try:
        text = _Words(schema).of(json.loads(told))
        if text is not None:
            parse_where(text, schema, table)
    except (InvalidPredicate, UnicodeDecodeError):  # too deep or too long, or half a character
        return None
    return text


class _Words:
    def __init__(self, schema: pa.Schema) -> None:
        self._kinds = {field.name: comparable(field.type) for field in schema}

    def of(self, told: Any) -> str | None:
        if told is None:
            return None
        word, *items = told
        if word in ("and", "or"):
            found = [self.of(item) for item in _flat(word, items)]
            known = [text for text in found if text is not None]
            return joined(known, word.upper()) if len(known) == len(found) else None
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
        quoted = quote(column)
        if word in ("null", "filled"):
            return f"{quoted} IS {'' if word == 'null' else 'NOT '}NULL"
        if word == "true":
            return quoted if kind == "boolean" else None
        values = [literal(kind, _value(each, kind)) for each in given]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        if word == "in":  # whose sets may tell the zeros apart
            return None if kind in ("float", "double") else f"{quoted} IN ({', '.join(known)})"
        if word == "begins":
            return _begins(quoted, given[0])
        if word == "<=>":
            return f"({quoted} IS NOT NULL AND {quoted} = {known[0]})"
        return f"{quoted} {word} {known[0]}" if word in _OPERATORS else None


def comparable(kind: pa.DataType) -> str | None:
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


def literal(kind: str, value: Any) -> str | None:
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


def quote(name: str) -> str:
    """The name of a column, as a predicate has it."""
    return '"' + name.replace('"', '""') + '"'


def joined(items: Iterable[str], word: str) -> str:
    """Conditions joined by AND or OR."""
    known = list(items)
    return f" {word} ".join(f"({item})" for item in known) if len(known) > 1 else known[0]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _begins(quoted: str, told: str) -> str | None:
    prefix = bytes.fromhex(told).decode()
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


def _value(told: Any, kind: str) -> Any:
    if kind in ("float", "double"):
        return struct.unpack("<d", struct.pack("<q", told))[0]
    if kind.startswith("decimal"):
        from decimal import Decimal

        return Decimal(told)
    if kind == "string":
        return bytes.fromhex(told).decode()
    return bytes.fromhex(told) if kind == "binary" else told
