"""The types that `--type COLUMN=TYPE` names."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from ...errors import UsageError

_PLAIN: Final = {
    "bool": pa.bool_(), "boolean": pa.bool_(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "int": pa.int64(), "integer": pa.int64(), "bigint": pa.int64(),
    "float": pa.float32(), "float32": pa.float32(), "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(), "text": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal(?:128|256)?[(\[]\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?[)\]]")
_TIMESTAMP: Final = re.compile(r"timestamp[(\[]\s*(ms|us|ns)\s*(?:,\s*(?:tz=)?utc\s*)?[)\]]")
_KNOWN: Final = (
    "bool, int8 to int64, uint8 to uint64, float, double, decimal(P,S), string, binary (base64), "
    "date, time, timestamp, timestamptz, timestamp[ns], timestamp[ns,UTC]"
)


def parse_types(given: list[str]) -> dict[str, pa.DataType]:
    """Types by column.

    Raises:
        UsageError: Not COLUMN=TYPE, no such type, or a column twice.
    """
    found: dict[str, pa.DataType] = {}
    for item in given:
        name, equals, text = item.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{item[:60]!r} is not COLUMN=TYPE", hint=f"TYPE is one of {_KNOWN}")
        if name in found:
            raise UsageError(f"--type names column {name!r} twice", key=name, hint="Give it once")
        found[name] = type_named(text)
    return found


def type_named(text: str) -> pa.DataType:
    """The type of a name.

    Raises:
        UsageError: There is none.
    """
    text = text.strip().lower()
    decimal, timestamp = _DECIMAL.fullmatch(text), _TIMESTAMP.fullmatch(text)
    if decimal is not None:
        digits, scale = int(decimal[1]), int(decimal[2] or 0)
        if 1 <= digits <= 76 and scale <= digits:
            return (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, scale)
    elif timestamp is not None:
        return pa.timestamp(timestamp[1], "UTC" if "utc" in text else None)
    elif text in _PLAIN:
        return _PLAIN[text]
    raise UsageError(f"There is no type {text[:60]!r}", hint=f"One of {_KNOWN}")
