"""Predicates as SQL for an engine: every name quoted, every literal with its type. Pure.

Both engines order NaN as predicates do. What decides for all rows at once is written so: the least
value of a type is not a literal everywhere.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from ...errors import InvalidPredicate
from .kinds import DAY_S, PER_SECOND, compared, family
from .literals import civil_from_days, days_from_civil
from .normal import settled, within_day
from .tree import And, Compare, Constant, In, IsNull, Not, Or, Predicate, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .tree import Column, Value

_FIRST_DAY: Final = days_from_civil(1, 1, 1)
_LAST_DAY: Final = days_from_civil(9999, 12, 31)
_NS: Final = PER_SECOND["ns"]


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine writes things.

    Attributes:
        title: For messages.
        name: A column's name, quoted.
        text: A text.
        literal: A value of a type.
        starts_with: The function that tells whether a text begins with another.
        by_bytes: A text, to be compared byte by byte whatever the session's collation is.
        join: Conditions joined by AND or OR.
        most_in: Values of one IN; more are several INs. DuckDB may make a join of a longer one, and
            a join that runs in parallel loses the order of the rows.
    """

    title: str
    name: Callable[[str], str]
    text: Callable[[str], str]
    literal: Callable[[pa.DataType, Value], str]
    starts_with: str
    by_bytes: Callable[[str], str]
    join: Callable[[Sequence[str], str], str]
    most_in: int


def _flat(parts: Sequence[str], word: str) -> str:
    return f"({f' {word} '.join(parts)})"


def _shallow(parts: Sequence[str], word: str) -> str:
    """Two by two: Spark descends its trees by recursion."""
    if len(parts) <= 8:
        return _flat(parts, word)
    half = len(parts) // 2
    return _flat([_shallow(parts[:half], word), _shallow(parts[half:], word)], word)


def _refuse(engine: str, kind: pa.DataType, value: Value | None = None) -> InvalidPredicate:
    what = f"no {kind}" if value is None else f"no literal for {value!r} of {kind}"
    hint = "Filter with pyarrow instead: `expression` or `mask`"
    return InvalidPredicate(f"{engine} has {what}", key=str(kind), hint=hint)


def _number(value: Value) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:f}" if isinstance(value, Decimal) else repr(value)


def _day(days: int) -> str | None:
    """A date as text, if its year has four digits."""
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    year, month, day = civil_from_days(days)
    return f"{year:04}-{month:02}-{day:02}"


def _clock(steps: int, unit: str) -> str:
    """A time of day as text, with the digits of its unit."""
    seconds, rest = divmod(steps, PER_SECOND[unit])
    digits = len(str(PER_SECOND[unit])) - 1
    fraction = f".{rest:0{digits}}" if digits else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _moment(steps: int, unit: str) -> str | None:
    days, rest = divmod(steps, DAY_S * PER_SECOND[unit])
    day = _day(days)
    return None if day is None else f"{day} {_clock(rest, unit)}"


# --- DuckDB ---------------------------------------------------------------------------------------

_DUCKDB_TYPES: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "halffloat": "FLOAT", "float": "FLOAT", "double": "DOUBLE",
    "timestamp[s]": "TIMESTAMP_S", "timestamp[ms]": "TIMESTAMP_MS",
    "timestamp[us]": "TIMESTAMP", "timestamp[ns]": "TIMESTAMP_NS",
}  # fmt: skip


def _duckdb_name(name: str) -> str:
    if "\0" in name:
        raise InvalidPredicate(
            f"DuckDB can't name the column {name!r}: it has a NUL", key=name, hint="Rename it"
        )
    return '"' + name.replace('"', '""') + '"'


def _duckdb_text(text: str) -> str:
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || system.main.chr(0) || '.join(parts)})"


def _duckdb(kind: pa.DataType, value: Value) -> str:
    kind, is_a = compared(kind), pa.types
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _duckdb_text(value)
    if isinstance(value, bytes):
        escaped = "".join(f"\\x{byte:02X}" for byte in value)
        return f"CAST('{escaped}' AS BLOB)"
    if isinstance(value, Decimal):
        if is_a.is_decimal256(kind):
            raise _refuse("DuckDB", kind)
        return f"CAST('{_number(value)}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if family(kind) in ("integer", "float"):
        return f"CAST('{_number(value)}' AS {_DUCKDB_TYPES[str(kind)]})"
    return _duckdb_time(kind, int(value))


def _duckdb_time(kind: pa.DataType, steps: int) -> str:
    is_a = pa.types
    if is_a.is_date(kind):
        text = _day(steps)
        if text is not None:
            return f"CAST('{text}' AS DATE)"
        if abs(steps) < 2_000_000_000:
            return f"(CAST('1970-01-01' AS DATE) + CAST('{steps}' AS INTEGER))"
    elif is_a.is_time(kind):
        if 0 <= steps < DAY_S * PER_SECOND[kind.unit]:
            name = "TIME_NS" if kind.unit == "ns" else "TIME"
            return f"CAST('{_clock(steps, kind.unit)}' AS {name})"
    else:
        text = _moment(steps, kind.unit)
        if text is not None and kind.tz is not None:
            name = "TIMESTAMPTZ_NS" if kind.unit == "ns" else "TIMESTAMPTZ"
            return f"CAST('{text}+00' AS {name})"
        if text is not None:
            return f"CAST('{text}' AS {_DUCKDB_TYPES[str(kind)]})"
    raise _refuse("DuckDB", kind, steps)


# Functions by their whole name: a macro of the user's could stand before one of DuckDB's own.
DUCKDB: Final = Engine(
    title="DuckDB",
    name=_duckdb_name,
    text=_duckdb_text,
    literal=_duckdb,
    starts_with="system.main.starts_with",
    by_bytes=lambda name: f"({name} COLLATE C)",
    join=_flat,
    most_in=4,
)
# --- Spark ----------------------------------------------------------------------------------------

_SPARK_TYPES: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT",
    "uint8": "SMALLINT", "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20, 0)",
    "float": "FLOAT", "double": "DOUBLE",
}  # fmt: skip


def _spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_text(text: str) -> str:
    """As bytes unless it is plain: what a backslash is depends on a setting of the session."""
    plain = all(char not in "'\\" and (" " <= char < "\x7f" or char > "\xa0") for char in text)
    return f"'{text}'" if plain else f"CAST(X'{text.encode().hex().upper()}' AS STRING)"


def _spark(kind: pa.DataType, value: Value) -> str:
    kind, is_a = compared(kind), pa.types
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _spark_text(value)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, Decimal):
        if is_a.is_decimal256(kind):
            raise _refuse("Spark", kind)
        return f"CAST('{_number(value)}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if family(kind) in ("integer", "float"):
        if str(kind) not in _SPARK_TYPES:
            raise _refuse("Spark", kind)
        return f"CAST('{_number(value)}' AS {_SPARK_TYPES[str(kind)]})"
    return _spark_time(kind, int(value))


def _spark_time(kind: pa.DataType, steps: int) -> str:
    is_a = pa.types
    if is_a.is_date(kind):
        text = _day(steps)
        return f"date_from_unix_date({steps})" if text is None else f"DATE'{text}'"
    if is_a.is_time(kind) or kind.unit == "ns":
        raise _refuse("Spark", kind)
    micros = steps * (PER_SECOND["us"] // PER_SECOND[kind.unit])
    if kind.tz is not None and abs(micros) < 2**63:
        return f"timestamp_micros(CAST('{micros}' AS BIGINT))"
    text = _moment(micros, "us")
    if kind.tz is None and text is not None:
        return f"TIMESTAMP_NTZ'{text}'"
    raise _refuse("Spark", kind, steps)


SPARK: Final = Engine(
    title="Spark",
    name=_spark_name,
    text=_spark_text,
    literal=_spark,
    starts_with="startswith",
    by_bytes=lambda name: name,
    join=_shallow,
    most_in=1 << 60,
)


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
