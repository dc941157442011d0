"""Predicates as SQL for an engine: every name quoted, every literal with its type. Pure.

Both engines order NaN as predicates do. What decides for all rows at once is written so: the least
value of a type is not a literal everywhere.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import InvalidPredicate, MissingDependency
from ..format.columns import column
from .literals import civil_from_days, days_from_civil
from .tree import (
    DAY_S,
    PER_SECOND,
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    compared,
    family,
    settled,
    within_day,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    import polars

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

    found = _ToArrow(values, lambda value: value).of(predicate)
    if isinstance(found, pa.Scalar):
        return pa.repeat(found, batch.num_rows)
    return found


def expression(predicate: Predicate) -> pc.Expression:
    """A predicate as an expression, for the filters of pyarrow datasets and tables.

    Columns are named, and must have the types of the schema that the predicate was bound to.
    """
    return _ToArrow(lambda column: pc.field(column.name), pc.scalar).of(predicate)


class _ToArrow:
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
    return _ToPolars(pl).of(predicate)


class _ToPolars:
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
        blob: Bytes.
        types: Its names of the types of numbers, and of some others.
        time: A date or time of a type, by its steps.
        starts_with: The function that tells whether a text begins with another.
        by_bytes: A text, to be compared byte by byte whatever the session's collation is.
        join: Conditions joined by AND or OR.
        most_in: Values of one IN; more are several INs. DuckDB may make a join of a longer one, and
            a join that runs in parallel loses the order of the rows.
    """

    title: str
    name: Callable[[str], str]
    text: Callable[[str], str]
    blob: Callable[[bytes], str]
    types: Mapping[str, str]
    time: Callable[[pa.DataType, int], str]
    starts_with: str
    by_bytes: Callable[[str], str]
    join: Callable[[Sequence[str], str], str]
    most_in: int

    def literal(self, kind: pa.DataType, value: Value) -> str:
        """Returns a value of a type."""
        kind = compared(kind)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.blob(value)
        if isinstance(value, Decimal):
            if pa.types.is_decimal256(kind):
                raise _refuse(self.title, kind)
            return f"CAST('{_number(value)}' AS DECIMAL({kind.precision}, {kind.scale}))"
        if family(kind) not in ("integer", "float"):
            return self.time(kind, int(value))
        if str(kind) not in self.types:
            raise _refuse(self.title, kind)
        return f"CAST('{_number(value)}' AS {self.types[str(kind)]})"


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


def _duckdb_blob(value: bytes) -> str:
    escaped = "".join(f"\\x{byte:02X}" for byte in value)
    return f"CAST('{escaped}' AS BLOB)"


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
    blob=_duckdb_blob,
    types=_DUCKDB_TYPES,
    time=_duckdb_time,
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
    blob=lambda value: f"X'{value.hex().upper()}'",
    types=_SPARK_TYPES,
    time=_spark_time,
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
    return _ToSql(_ENGINES[dialect]).of(predicate)


class _ToSql:
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
