"""Arrow columns as plain values that JSON, CSV and text can hold.

Times go through Arrow itself: Python's have no nanoseconds and no year 12000, and Arrow would
import pandas for them.

| Arrow | plain |
| --- | --- |
| timestamp with zone | `2013-01-01T05:00:00.000000Z`, in UTC, digits as the unit |
| timestamp without | the same without Z |
| date, time | `2013-01-01`, `05:00:00` |
| interval | months, days and seconds as ISO-8601, `P1M2DT3.5S` |
| duration | seconds as ISO-8601, `PT1.500S` |
| decimal | text, exact |
| binary | text, base64 |
| NaN, infinities | text: `NaN`, `Infinity`, `-Infinity` (JSON has none) |
| list, struct, map | list, object, list of pairs |
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ODD_FLOATS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, None for null."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain(chunk)]
    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.storage)
    if types.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if types.is_timestamp(kind):
        return _timestamps(column)
    if types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind):
        return _texts(column)
    if types.is_duration(kind) or types.is_interval(kind):
        return _spans(column)
    if types.is_floating(kind):
        return _floats(column)
    is_binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if types.is_binary_view(kind) or any(is_kind(kind) for is_kind in is_binary):
        return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    if types.is_nested(kind):
        return _nested(column)
    return column.to_pylist()  # type: ignore[no-any-return]


def records(table: pa.Table, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a table as plain values by name.

    Args:
        names: Only these columns, in this order.
    """
    names = names or table.schema.names
    columns = [plain(table.column(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def is_number(kind: pa.DataType) -> bool:
    """Tell whether text aligns values of a type to the right."""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _timestamps(column: pa.Array) -> list[str | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    # Dropping the zone keeps the UTC value and needs no time zone database.
    texts = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    values: list[str | None] = texts.to_pylist()
    for index, text in enumerate(values):
        if text is not None and text.startswith("<"):  # Arrow can't print years beyond ±32767
            values[index] = _far_time(column[index].value, column.type.unit)
    return [text and text + "Z" for text in values] if column.type.tz else values


def _seconds(value: int, unit: str) -> tuple[int, str]:
    """Whole seconds, and the rest as text."""
    digits = _DIGITS[unit]
    whole, part = divmod(value, 10**digits)
    return whole, f".{part:0{digits}d}" if digits else ""


def _far_time(value: int, unit: str) -> str:
    seconds, fraction = _seconds(value, unit)
    days, second = divmod(seconds, 86_400)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{_far_date(days)}T{clock}{fraction}"


def _far_date(days: int) -> str:
    """A day, counted from 1970-01-01, in the Gregorian calendar of any year."""
    from ..catalog.where.literals import civil_from_days

    year, month, day = civil_from_days(days)
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"


def _texts(column: pa.Array) -> list[str | None]:
    """Dates, times and decimals as Arrow prints them, where it can."""
    import pyarrow as pa

    values: list[str | None] = column.cast(pa.string()).to_pylist()
    per_day = 86_400_000 if pa.types.is_date64(column.type) else 1
    for index, text in enumerate(values):
        if text is not None and text.startswith("<") and pa.types.is_date(column.type):
            values[index] = _far_date(column[index].value // per_day)
    return values


def _spans(column: pa.Array) -> list[str | None]:
    import pyarrow as pa

    if pa.types.is_interval(column.type):
        return [None if value is None else _interval(*value) for value in column.to_pylist()]
    return [_duration(value, column.type.unit) for value in column.cast(pa.int64()).to_pylist()]


def _duration(value: int | None, unit: str) -> str | None:
    if value is None:
        return None
    whole, fraction = _seconds(abs(value), unit)
    return f"{'-' if value < 0 else ''}PT{whole}{fraction}S"


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """An interval as ISO-8601: its months, days and seconds say nothing of each other."""
    text = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    if nanoseconds or not text:
        whole, fraction = _seconds(abs(nanoseconds), "ns")
        sign = "-" if nanoseconds < 0 else ""
        text += f"T{sign}{whole}{fraction.rstrip('0').rstrip('.')}S"
    return f"P{text}"


def _floats(column: pa.Array) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_float32(column.type):
        # 0.1 of 32 bits is not 0.1 of 64: show the shortest text that reads back as the same value.
        texts = column.cast(pa.string()).to_pylist()
        values: list[Any] = [None if value is None else float(value) for value in texts]
    else:
        values = column.to_pylist()
    if pc.all(pc.is_finite(column)).as_py() is False:
        values = [v if v is None else _ODD_FLOATS.get(str(v), v) for v in values]
    return values


def _nested(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind, types = column.type, pa.types
    valid = column.is_valid().to_pylist()
    if types.is_struct(kind):
        names = [kind.field(index).name for index in range(kind.num_fields)]
        if not names:
            return [{} if ok else None for ok in valid]
        fields = [plain(child) for child in column.flatten()]
        rows = [dict(zip(names, row)) for row in zip(*fields)]
        return [value if ok else None for value, ok in zip(rows, valid)]
    if types.is_map(kind):
        items = [list(pair) for pair in zip(plain(column.keys), plain(column.items))]
    elif types.is_fixed_size_list(kind):
        return _nested(column.cast(pa.list_(kind.value_field)))
    elif types.is_list(kind) or types.is_large_list(kind):
        items = plain(column.values)
    else:  # unions and views: nothing that a Parquet file holds
        return [None if value is None else str(value) for value in column.to_pylist()]
    ends = column.offsets.to_pylist()
    return [items[a:b] if ok else None for a, b, ok in zip(ends, ends[1:], valid)]
